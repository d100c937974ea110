import { setImmediate as nextTurn } from 'node:timers/promises';

/** Bytes of a source that are read before others have their turn: reading, inflating and hashing are synchronous. */
const TURN_BYTES = 1024 * 1024;

/**
 * Passes pieces of a source on, and lets other requests have their turn in between.
 *
 * @throws the reason of a signal that is aborted meanwhile
 */
export async function* inTurns(
  pieces: AsyncIterable<Buffer>,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  let read = 0;
  for await (const piece of pieces) {
    yield piece;
    read += piece.length;
    if (read < TURN_BYTES) continue;
    read = 0;
    await nextTurn();
    signal.throwIfAborted();
  }
}
