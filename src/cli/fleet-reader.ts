/** Reads one archive for the worker of a fleet, which starts it and gives it an order. No program for people. */

import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { z } from 'zod';
import { realFiles } from '../archive/file-system.ts';
import type { SegmentStore } from '../archive/segment-files.ts';
import { listSegments } from '../archive/segment-files.ts';
import { deserializeError, type TransferredError } from '../core/errors.ts';
import { ANSWERED } from './fleet-commands.ts';
import { run } from './run.ts';

const thrownShape = z.custom<TransferredError>(
  (value) => typeof value === 'object' && value !== null,
);
const messageShape = z.union([
  z.object({
    order: z.object({
      dataDir: z.string(),
      args: z.array(z.string()),
      columns: z.int().nullable(),
      colours: z.boolean(),
    }),
  }),
  z.object({ fetched: z.int() }),
  z.object({ failed: z.int(), thrown: thrownShape }),
]);
type Message = z.output<typeof messageShape>;
type Order = Extract<Message, { order: unknown }>['order'];

/** Segments that the worker brings when they are missing. */
class WorkersSegments implements SegmentStore {
  readonly #here = new Set<number>();
  readonly #waiting = new Map<number, { done: () => void; failed: (error: Error) => void }>();

  constructor(private readonly dataDir: string) {}

  present(segment: number): boolean {
    if (this.#here.has(segment)) return true;
    // What has its name is intact: it was verified before.
    for (const number of listSegments(realFiles, this.dataDir).keys()) this.#here.add(number);
    return this.#here.has(segment);
  }

  async fetch(segments: readonly number[]): Promise<void> {
    for (const segment of segments) {
      await new Promise<void>((done, failed) => {
        this.#waiting.set(segment, { done, failed });
        process.send?.({ fetch: segment });
      });
    }
  }

  publish(): Promise<void> {
    throw new Error('a reader seals nothing');
  }

  noted(message: Message): void {
    if ('fetched' in message) this.#waiting.get(message.fetched)?.done();
    if ('failed' in message)
      this.#waiting.get(message.failed)?.failed(deserializeError(message.thrown));
  }
}

async function obey({ dataDir, args, columns, colours }: Order, segments: WorkersSegments) {
  const { stdout, stderr } = process;
  // Somebody may read this at a terminal elsewhere: lines are as wide as theirs.
  const terminal = columns === null ? {} : { isTTY: true, columns };
  const surface = new Writable({
    write: (chunk: Buffer, _encoding, done) => void stdout.write(chunk, done),
  });
  return run(args, ANSWERED, {
    stdin: () => process.stdin,
    stdout: Object.assign(surface, terminal),
    stderr,
    env: colours ? { FORCE_COLOR: '1' } : { NO_COLOR: '1' },
    cwd: '/',
    signal: new AbortController().signal,
    now: Date.now,
    only: { dataDir, segments },
  });
}

// What a library prints must not be taken for a part of the answer.
globalThis.console = new Console(process.stderr);

let segments: WorkersSegments | undefined;
process.on('message', (content) => {
  const message = messageShape.parse(content);
  if (!('order' in message)) {
    segments?.noted(message);
    return;
  }
  segments = new WorkersSegments(message.order.dataDir);
  void obey(message.order, segments)
    .then((code) => {
      process.exitCode = code;
    })
    .finally(() => process.disconnect());
});
// The worker is gone: nobody reads what comes.
process.on('disconnect', () => {
  if (process.exitCode === undefined) process.exit(1);
});
