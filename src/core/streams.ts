/** Returns all bytes, with text in UTF-8, or null if there are more than `most`. */
export async function bytesAtMost(
  pieces: AsyncIterable<Uint8Array | string> | null,
  most: number,
): Promise<Buffer | null> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const piece of pieces ?? []) {
    const chunk = typeof piece === 'string' ? Buffer.from(piece) : piece;
    length += chunk.length;
    if (length > most) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Yields parts of the same length, except for a shorter last one. Each is valid until the next one is requested.
 * @param first length of the first part, if it differs
 */
export async function* split(
  bytes: AsyncIterable<Uint8Array>,
  length: number,
  first = length,
): AsyncGenerator<{ readonly bytes: Buffer; readonly isLast: boolean }> {
  const part = Buffer.allocUnsafeSlow(Math.max(first, length));
  let [size, filled] = [first, 0];
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; ) {
      // More bytes follow, so a full part is not the last one.
      if (filled === size) {
        yield { bytes: part.subarray(0, size), isLast: false };
        [size, filled] = [length, 0];
      }
      const piece = chunk.subarray(at, at + size - filled);
      part.set(piece, filled);
      filled += piece.length;
      at += piece.length;
    }
  }
  if (filled > 0) yield { bytes: part.subarray(0, filled), isLast: true };
}
