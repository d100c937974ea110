import { objectError } from '../errors/objects.ts';

/**
 * Yields the bytes of an object, and fails at its end if there were not as many as announced.
 *
 * @throws object-length; the signal's reason
 */
export async function* countedBytes(
  facts: { readonly store: string; readonly name: string },
  announced: number,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let found = 0;
  for await (const chunk of bytes) {
    signal.throwIfAborted();
    found += chunk.length;
    if (found > announced) break;
    yield chunk;
  }
  if (found !== announced) throw objectError('object-length', { ...facts, announced, found });
}
