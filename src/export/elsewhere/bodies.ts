/**
 * What is sent at once. Whatever waits in a connection counts against a limit of all its answers, beyond which Node.js
 * refuses requests.
 */
const MOST_BYTES = 64 * 1024;

/**
 * Returns a body that is made as it is taken.
 *
 * @param onFailed called with what goes wrong on the way, in addition to the body's own end
 */
export function bodyOf(
  pieces: AsyncGenerator<Buffer>,
  onFailed: (error: unknown) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const slices = slicesOf(pieces);
  return new ReadableStream({
    async pull(controller) {
      try {
        const next = await slices.next();
        if (next.done === true) controller.close();
        else controller.enqueue(next.value);
      } catch (error) {
        controller.error(error);
        onFailed(error);
      }
    },
    async cancel() {
      await slices.return(undefined);
    },
  });
}

/** Copies: pieces are used again. */
async function* slicesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for await (const piece of pieces)
    for (let at = 0; at < piece.length; at += MOST_BYTES)
      yield new Uint8Array(piece.subarray(at, at + MOST_BYTES));
}

/** Yields what a body has, as it comes. */
export async function* buffersOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Buffer> {
  for await (const { buffer, byteOffset, byteLength } of body ?? [])
    yield Buffer.from(buffer, byteOffset, byteLength);
}
