import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { SegmentStore } from '../../archive/segment-files.ts';
import { serializeError } from '../../core/errors.ts';
import type { ReaderOrder } from './request.ts';

/** MiB of the heap of a reader. A search of a large archive takes a tenth. */
const MOST_HEAP = 1_024;

const wantedShape = z.object({ fetch: z.int().positive() });

export interface ReaderOptions {
  /** The program: it takes an order, and runs it as the command line does. */
  readonly program: URL;
  readonly order: ReaderOrder;
  readonly timeZone: string;
  /** Brings what the reader misses. */
  readonly segments: Pick<SegmentStore, 'fetch'>;
  /** Ends the reader at once. */
  readonly signal: AbortSignal;
  /** Take what it writes; resolve when they take more. */
  readonly output: (bytes: Buffer) => Promise<void>;
  readonly errors: (bytes: Buffer) => Promise<void>;
}

/**
 * A command that reads an archive, as a process of its own: nothing that it does delays the renewal of the session, it ends
 * when nobody waits for it, and it has no secrets of the fleet.
 */
export class ReaderProcess {
  readonly #child: ChildProcess;
  /** Resolves with its exit code; undefined if it was ended, or ended itself in another way. */
  readonly ended: Promise<number | undefined>;

  constructor(options: ReaderOptions) {
    const { program, order, timeZone, segments, signal, output, errors } = options;
    this.#child = spawn(
      process.execPath,
      [`--max-old-space-size=${MOST_HEAP}`, fileURLToPath(program)],
      // Nothing of the worker's environment: it has the keys of the store.
      { cwd: '/', env: { TZ: timeZone }, stdio: ['pipe', 'pipe', 'pipe', 'ipc'] },
    );
    const child = this.#child;
    child.stdin?.on('error', () => undefined);
    child.on('message', (message) => void this.#fetch(message, segments));
    let noteKilled = (): void => undefined;
    const killed = new Promise<void>((resolve) => {
      noteKilled = resolve;
    });
    const kill = (): void => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
      child.stderr?.destroy();
      // Whoever takes what it wrote may not do so for a long time.
      noteKilled();
    };
    signal.addEventListener('abort', kill);
    const pumped = Promise.all([pump(child.stdout, output), pump(child.stderr, errors)]);
    // Whoever does not take what it writes ends it.
    pumped.catch(kill);
    const over = Promise.race([pumped, killed]);
    this.ended = this.#exit(over).finally(() => signal.removeEventListener('abort', kill));
    if (signal.aborted) kill();
    this.#send({ order });
  }

  /** Gives it bytes on its standard input; resolves when it takes more. */
  async write(bytes: Buffer): Promise<void> {
    const { stdin } = this.#child;
    if (stdin === null || stdin.destroyed || stdin.write(bytes)) return;
    await Promise.race([once(stdin, 'drain'), once(stdin, 'close')]).catch(() => undefined);
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  async #exit(over: Promise<unknown>): Promise<number | undefined> {
    const closed = new Promise<number | undefined>((resolve) => {
      this.#child.once('close', (code) => resolve(code ?? undefined));
      // It could not be started.
      this.#child.once('error', () => resolve(undefined));
    });
    try {
      await over;
      return await closed;
    } catch {
      await closed;
      return undefined;
    }
  }

  async #fetch(message: unknown, segments: Pick<SegmentStore, 'fetch'>): Promise<void> {
    const wanted = wantedShape.safeParse(message);
    if (!wanted.success) return;
    const { fetch } = wanted.data;
    try {
      await segments.fetch([fetch]);
      this.#send({ fetched: fetch });
    } catch (error) {
      this.#send({ failed: fetch, thrown: serializeError(error) });
    }
  }

  #send(message: object): void {
    const child = this.#child;
    if (child.connected) child.send(message, () => undefined);
  }
}

async function pump(
  stream: Readable | null,
  take: (bytes: Buffer) => Promise<void>,
): Promise<void> {
  if (stream === null) return;
  for await (const bytes of stream) if (Buffer.isBuffer(bytes)) await take(bytes);
}
