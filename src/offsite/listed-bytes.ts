import { createHash } from 'node:crypto';
import { offsiteError } from '../errors/offsite.ts';
import type { ObjectStore } from '../objects/store.ts';
import type { ObjectEntry } from './plan-copy.ts';

/**
 * Yields the bytes of an object, and compares them with what a manifest says of it: whoever knows the public key can
 * seal, but only the archive's own key signs manifests. Wrong bytes are reported behind the last of them.
 *
 * @throws copy-object-damaged; what the store throws
 */
export async function* listedBytes(
  store: ObjectStore,
  { name, length, sha256 }: ObjectEntry,
  signal: AbortSignal,
  version?: string,
): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  let size = 0;
  for await (const piece of store.get(name, { signal, version })) {
    size += piece.length;
    if (size > length) throw offsiteError('copy-object-damaged', { name, reason: 'appended' });
    digest.update(piece);
    yield piece;
  }
  if (size < length) throw offsiteError('copy-object-damaged', { name, reason: 'cut' });
  if (digest.digest('hex') !== sha256) {
    throw offsiteError('copy-object-damaged', { name, reason: 'other-bytes' });
  }
}
