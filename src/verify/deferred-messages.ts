import type { Locator, Position } from '../archive/format/records.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';
import type { SegmentChecker } from './segment-checker.ts';
import type { MessagesJob } from './segment-report.ts';

/** Messages that a thread is asked to rebuild at a time. */
const MOST_REBUILT = 1_000;

/** Messages that need bytes from elsewhere in the log, with the blobs that they need. */
export interface DeferredMessages {
  readonly dir: string;
  readonly messages: ReadonlyMap<MessageId, readonly BlobHash[]>;
  readonly locator: Locator;
}

/**
 * Returns those messages that the checker cannot rebuild: these are read again to find the reason.
 *
 * @throws AbortError; system errors of reading
 */
export async function notRebuilt(
  checker: SegmentChecker,
  deferred: DeferredMessages,
  signal: AbortSignal,
): Promise<readonly MessageId[]> {
  const failed: MessageId[] = [];
  const jobs = jobsOf(deferred, checker.width);
  const turn = async (): Promise<void> => {
    for (const job of jobs) {
      signal.throwIfAborted();
      failed.push(...(await checker.rebuild(job)));
    }
  };
  await Promise.all(Array.from({ length: checker.width }, turn));
  return failed;
}

/** In the order of the log, so that a job reads few blocks more than once; some for each thread at least. */
function* jobsOf(
  { dir, messages: deferred, locator }: DeferredMessages,
  width: number,
): Generator<MessagesJob, void, undefined> {
  const most = Math.min(MOST_REBUILT, Math.ceil(deferred.size / width));
  let messages = new Map<MessageId, Position | undefined>();
  let blobs = new Map<BlobHash, Position>();
  for (const [id, needed] of deferred) {
    messages.set(id, locator.message(id));
    for (const hash of needed) {
      const blob = locator.blob(hash);
      if (blob !== undefined) blobs.set(hash, blob);
    }
    if (messages.size < most) continue;
    yield { dir, messages, blobs };
    messages = new Map();
    blobs = new Map();
  }
  if (messages.size > 0) yield { dir, messages, blobs };
}
