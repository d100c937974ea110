/** Yields bytes that are in memory, as a store takes them. */
export async function* oneObject(bytes: Buffer): AsyncIterable<Buffer> {
  yield bytes;
}
