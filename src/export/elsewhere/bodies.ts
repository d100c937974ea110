/**
 * Returns a body that is made as it is taken.
 *
 * @param onFailed called with what goes wrong on the way, in addition to the body's own end
 */
export function bodyOf(
  pieces: AsyncGenerator<Buffer>,
  onFailed: (error: unknown) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      try {
        const next = await pieces.next();
        if (next.done === true) controller.close();
        // A copy: pieces are used again.
        else controller.enqueue(new Uint8Array(next.value));
      } catch (error) {
        controller.error(error);
        onFailed(error);
      }
    },
    async cancel() {
      await pieces.return(undefined);
    },
  });
}

/** Yields what a body has, as it comes. */
export async function* buffersOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Buffer> {
  for await (const piece of body ?? []) yield Buffer.from(piece);
}
