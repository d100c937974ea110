import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { hasEnded, killProcess } from './children.ts';
import { demoError } from './errors.ts';

const lineShape = z.looseObject({
  msg: z.string(),
  account: z.string().nullish(),
  shard: z.int().optional(),
});
const PROGRAM = 'mailkeep fleet worker';
const SHOWN = 400;

export class DemoWorker {
  /** Time at which each shard was taken over, in milliseconds since the epoch. */
  readonly open = new Map<number, number>();
  /** Accounts in which a sync run has finished. */
  readonly mirrored = new Set<string>();
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

  #note(text: string): void {
    // The last line of a killed worker may be truncated.
    const { success, data } = lineShape.safeParse(parseJson(text));
    if (!success) return;
    const { msg, account, shard } = data;
    if (msg === 'shard taken over' && shard !== undefined) this.open.set(shard, this.now());
    // The lines of its daemons are among its own.
    if (msg === 'run finished' && typeof account === 'string') this.mirrored.add(account);
  }
}
