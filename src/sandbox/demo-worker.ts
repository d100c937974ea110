import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { hasEnded, killProcess } from './children.ts';
import { demoError } from './errors.ts';

const lineShape = z.looseObject({
  msg: z.string(),
  account: z.string().optional(),
  ...{ added: z.int().optional(), requests: z.int().optional() },
});
const PROGRAM = 'mailkeep fleet worker';
const SHOWN = 400;

export class DemoWorker {
  /** Time at which each account's archive was opened, in milliseconds since the epoch. */
  readonly open = new Map<string, number>();
  readonly mirrored = new Set<string>();
  readonly quiet = { runs: 0, requests: 0 };
  /** Resident memory in bytes at the start of the session, before any archive was open. */
  emptyBytes = 0;
  readonly #child: ChildProcess;
  readonly #outputEnd: Promise<void>;
  #last = '';

  /** @param dir the node's directory, with its configuration @param now returns milliseconds since the epoch */
  constructor(
    dir: string,
    env: Readonly<Record<string, string | undefined>>,
    private readonly now: () => number,
  ) {
    const [, program = ''] = process.argv;
    const child = spawn(process.execPath, [program, 'fleet', 'worker'], {
      cwd: dir,
      env: { ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.on('error', () => undefined);
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (text) => this.#note(text));
    this.#outputEnd = new Promise((resolve) => lines.once('close', resolve));
    child.stderr.on('data', (bytes) => {
      this.#last = (this.#last + String(bytes)).slice(-SHOWN);
    });
  }

  /** @throws demo-server-ended */
  refuseEnd(): void {
    if (hasEnded(this.#child)) {
      throw demoError('demo-server-ended', { program: PROGRAM, log: this.#last });
    }
  }

  /** Kills the worker without warning. Resolves once all its output has been read. */
  async kill(): Promise<void> {
    await killProcess(this.#child);
    await this.#outputEnd;
  }

  /** Returns resident memory in bytes, or 0 on systems without /proc. */
  get residentBytes(): number {
    try {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
    } catch {
      return 0;
    }
  }

  #note(text: string): void {
    // The last line of a killed worker may be truncated.
    const { success, data } = lineShape.safeParse(parseJson(text));
    if (!success) return;
    const { msg, account, added, requests = 0 } = data;
    if (msg === 'session begun') this.emptyBytes = this.residentBytes;
    if (account === undefined) return;
    if (msg === 'archive opened') this.open.set(account, this.now());
    if (msg !== 'run finished') return;
    this.mirrored.add(account);
    if (added !== 0) return;
    this.quiet.runs += 1;
    this.quiet.requests += requests;
  }
}
