import type { ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stopServer } from '../peers/stop-server.ts';
import { type Invocation, type ProcessCost, runProgram } from './process-cost.ts';

/**
 * The folder a run works in, and the programs it has running. Whatever way the run ends, short of SIGKILL, these are
 * stopped and the folder is removed.
 */
export class Workplace {
  readonly folder: string;
  readonly #keep: boolean;
  #leaving = false;
  readonly #running = new Set<ChildProcess>();

  constructor(options: { readonly parent?: string; readonly keep: boolean }) {
    this.folder = mkdtempSync(join(options.parent ?? tmpdir(), 'mailkeep-bench-'));
    this.#keep = options.keep;
    // Dovecot reads the messages as another user.
    chmodSync(this.folder, 0o755);
    // More than one may come: from the terminal, and passed on by who started us.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => {
        if (!this.#leaving) void this.leave().finally(() => process.exit(130));
      });
  }

  /** A new empty folder; one of the same name is removed first. */
  fresh(name: string): string {
    const folder = join(this.folder, name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  /** Takes a program into care until it has ended. */
  adopt(child: ChildProcess): void {
    if (this.#leaving) child.kill('SIGKILL');
    this.#running.add(child);
    child.once('exit', () => this.#running.delete(child));
  }

  /** Runs a program to its end, in care. Nothing follows a run that is ended from outside. */
  run(invocation: Invocation): Promise<ProcessCost> {
    return runProgram(invocation, (child) => this.adopt(child)).catch((error: unknown) =>
      this.#leaving ? new Promise(() => {}) : Promise.reject(error),
    );
  }

  /** Stops what runs and removes the folder. */
  async leave(): Promise<void> {
    this.#leaving = true;
    await Promise.all([...this.#running].map(stopServer));
    if (!this.#keep) await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
