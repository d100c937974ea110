/**
 * The bytes of a request's body, or null when there are more than `most`: the rest is not read then.
 *
 * @throws what the connection ended with, when it did
 */
export async function readAtMost(request: Request, most: number): Promise<Buffer | null> {
  if (Number(request.headers.get('content-length') ?? 0) > most) return null;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > most) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
