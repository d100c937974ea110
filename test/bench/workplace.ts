import type { ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The folder a run works in and the servers it started. Whatever way the run ends, short of SIGKILL, the
 * servers are stopped and the folder is removed.
 */
export class Workplace {
  readonly folder: string;
  readonly #keep: boolean;
  readonly #servers = new Set<ChildProcess>();

  constructor(options: { readonly parent?: string; readonly keep: boolean }) {
    this.folder = mkdtempSync(join(options.parent ?? tmpdir(), 'mailkeep-bench-'));
    this.#keep = options.keep;
    // Dovecot reads the messages as another user.
    chmodSync(this.folder, 0o755);
    process.once('exit', () => this.#leave());
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.once(signal, () => process.exit(130));
  }

  /** A new empty folder; one of the same name is removed first. */
  fresh(name: string): string {
    const folder = join(this.folder, name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  /** Takes a server into care until it has ended. */
  adopt(server: ChildProcess): void {
    this.#servers.add(server);
    server.once('exit', () => this.#servers.delete(server));
  }

  #leave(): void {
    for (const server of this.#servers) server.kill('SIGTERM');
    // Their children may still be writing: try again for a moment.
    if (!this.#keep) rmSync(this.folder, { recursive: true, force: true, maxRetries: 20 });
  }
}

/** Asks a server to end and waits until it has. */
export async function stopServer(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  server.kill('SIGTERM');
  await gone;
}
