import { createHash } from 'node:crypto';
import { objectError } from '../copies/errors.ts';
import type { ObjectStore } from '../copies/object-store.ts';
import type { Uploaded } from '../registry/uploads.ts';

/**
 * Yields the bytes of an object as they were uploaded. The last piece comes after everything was compared, so whoever needs
 * all bytes never has them if they are wrong; what comes before is not verified yet.
 *
 * @throws object-damaged, object-missing; the errors of the store; the signal's reason
 */
export async function* verifiedBytes(
  objects: Pick<ObjectStore, 'label' | 'get'>,
  { key, bytes, sha256 }: Uploaded,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const damaged = () => objectError('object-damaged', { store: objects.label, name: key });
  const hash = createHash('sha256');
  let length = 0;
  let held: Buffer | undefined;
  for await (const piece of objects.get(key, { signal })) {
    length += piece.length;
    if (length > bytes) throw damaged();
    hash.update(piece);
    if (held !== undefined) yield held;
    held = piece;
  }
  if (length !== bytes || !hash.digest().equals(sha256)) throw damaged();
  if (held !== undefined) yield held;
}
