import { rethrown, type Thrown } from '../../errors/mailkeep-error.ts';
import type { ThreadEnded } from '../../errors/threads.ts';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import {
  builtWorker,
  type HeapLimits,
  type ThreadEvents,
  WorkerThread,
} from '../../threads/worker-thread.ts';
import type { FileLayer } from '../files/file-layer.ts';
import type { BatchPlace } from './batch.ts';
import { type Appended, type AppendJob, Tray, TrayBatch } from './tray-batch.ts';

/** To the log thread: a batch to write, the answer to its question, or leave to close the segment it has open. */
export type ToLogThread =
  | { readonly append: AppendJob }
  | { readonly stored: readonly BlobHash[] }
  | { readonly letGo: true };

/** From the log thread: which of these blobs are stored? What it wrote; what it could not. */
export type FromLogThread =
  | { readonly ask: readonly (readonly [hash: BlobHash, message: MessageId])[] }
  | { readonly appended: Appended }
  | { readonly thrown: Thrown };

/** A batch with everything that is made of it: payloads, blobs, the bytes of the log. They lie outside of V8's heap. */
const HEAP: HeapLimits = { oldGenerationMb: 256, youngGenerationMb: 24 };

/** The thread as this side of it needs it. */
export type LogLink = Pick<
  WorkerThread<ToLogThread, FromLogThread>,
  'started' | 'ending' | 'post' | 'ref' | 'unref' | 'end'
>;

function startThread(events: ThreadEvents<FromLogThread>): LogLink {
  const settings = { name: 'mailkeep-log', file: builtWorker('log-worker'), heap: HEAP };
  return new WorkerThread<ToLogThread, FromLogThread>(settings, events);
}

interface Running {
  readonly batch: TrayBatch;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The thread that writes batches to the log: it splits sources, hashes, checks and lays out facts, writes, and syncs.
 * It knows one segment at a time and nothing of the chain; whoever asks says where a batch goes. One batch at a time.
 */
export class LogThread {
  readonly #thread: LogLink;
  readonly #trays: Tray[] = [];
  #running: Running | undefined;
  #end: ThreadEnded | undefined;

  /** @param start replaces the thread in tests */
  constructor(start: (events: ThreadEvents<FromLogThread>) => LogLink = startThread) {
    this.#thread = start({
      message: (message) => this.#receive(message),
      ended: (end) => {
        this.#end = end;
        this.#settle(({ reject }) => reject(end));
      },
    });
    this.#thread.unref();
  }

  /** True while it takes batches. Until it has loaded, they are better written without it. */
  get ready(): boolean {
    return this.#thread.started && !this.#thread.ending;
  }

  newBatch(files: FileLayer): TrayBatch {
    return new TrayBatch(files, this.#trays.pop() ?? new Tray());
  }

  /**
   * Writes a batch at its place in a segment and makes it durable.
   *
   * @throws `disk-full`, `log-write-failed`, `log-sync-failed` as for a batch written without a thread; `thread-ended`:
   *   then the batch may be in the log whole, in part, or not at all
   */
  append(batch: TrayBatch, path: string, place: BatchPlace): Promise<Appended> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#running = { batch, resolve, reject };
      this.#thread.ref();
      this.#thread.post({ append: batch.job(path, place) });
    });
  }

  /** Takes the memory of a batch that is committed. */
  takeBack({ tray }: TrayBatch): void {
    if (tray.clear()) this.#trays.push(tray);
  }

  /** Closes the segment that the thread has open, so that its file can go. */
  letGo(): void {
    this.#thread.post({ letGo: true });
  }

  end(): Promise<void> {
    return this.#thread.end();
  }

  #receive(message: FromLogThread): void {
    if ('ask' in message) {
      try {
        this.#thread.post({ stored: this.#running?.batch.stored(message.ask) ?? [] });
      } catch (error) {
        // Nothing of the batch is written before the answer, which never comes: the batch has failed, and no more.
        this.#settle(({ reject }) => reject(error));
      }
    } else if ('appended' in message) this.#settle(({ resolve }) => resolve(message.appended));
    else this.#settle(({ reject }) => reject(rethrown(message.thrown)));
  }

  #settle(act: (running: Running) => void): void {
    const running = this.#running;
    this.#running = undefined;
    this.#thread.unref();
    if (running !== undefined) act(running);
  }
}
