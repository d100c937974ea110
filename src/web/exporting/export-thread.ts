import { rethrown } from '../../errors/mailkeep-error.ts';
import type { ThreadEnded } from '../../errors/threads.ts';
import { builtWorker, WorkerThread } from '../../threads/worker-thread.ts';
import type { ExportJob, FromExport, ToExport } from './export-job.ts';

/** Choosing places and compressing take little; sources lie outside of V8's heap. MiB. */
const HEAP = { oldGenerationMb: 192, youngGenerationMb: 24 };

/** An export on its way. */
export interface RunningExport {
  /** The number of the commit that it is of. */
  readonly commit: number;
  /** One piece at a time: nothing is made before it is wanted. */
  readonly bytes: AsyncIterator<Uint8Array>;
  /** Ends the work, wherever it is. */
  stop(): Promise<void>;
}

/**
 * Begins an export on a thread of its own: choosing among a million messages takes seconds, in which a daemon has other
 * things to do.
 *
 * @param job its query was understood already
 * @param signal aborted when nobody waits for it any more
 * @throws what `streamExport` throws before the first byte; thread-ended
 */
export async function beginExport(job: ExportJob, signal: AbortSignal): Promise<RunningExport> {
  const inbox = new Inbox();
  const thread = new WorkerThread<ToExport, FromExport>(
    { name: 'mailkeep-export', file: builtWorker('export-worker'), data: job, heap: HEAP },
    { message: (message) => inbox.take(message), ended: (end) => inbox.end(end) },
  );
  const stop = (): Promise<void> => thread.end();
  const abort = (): void => void stop();
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  const next = async (): Promise<Exclude<FromExport, { kind: 'failed' }>> => {
    const message = await inbox.next();
    if (message.kind !== 'failed') return message;
    await stop();
    throw rethrown(message.thrown);
  };
  const first = await next();
  if (first.kind !== 'begun') throw new Error(`an export began with ${first.kind}`);
  return {
    commit: first.commit,
    bytes: {
      async next() {
        thread.post('more');
        const message = await next();
        if (message.kind === 'piece') return { done: false, value: message.bytes };
        await stop();
        return { done: true, value: undefined };
      },
    },
    stop,
  };
}

/** Messages of a thread that nobody has taken yet: at most one, and its end. */
class Inbox {
  readonly #messages: FromExport[] = [];
  #end: ThreadEnded | undefined;
  #waiting:
    | { resolve: (message: FromExport) => void; reject: (error: unknown) => void }
    | undefined;

  take(message: FromExport): void {
    if (this.#waiting === undefined) this.#messages.push(message);
    else this.#waiting.resolve(message);
    this.#waiting = undefined;
  }

  end(end: ThreadEnded): void {
    this.#end = end;
    this.#waiting?.reject(end);
    this.#waiting = undefined;
  }

  next(): Promise<FromExport> {
    const message = this.#messages.shift();
    if (message !== undefined) return Promise.resolve(message);
    if (this.#end !== undefined) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }
}
