import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, rmSync } from 'node:fs';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createDeflate, createInflate } from 'node:zlib';
import { FILE_MODE } from '../archive/format.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { CATALOG_VERSION, catalogFile } from '../catalog/database.ts';
import { objectError } from '../copies/errors.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { catalogError } from '../core/error-tables.ts';
import { errnoName, errnoOf, MailkeepError } from '../core/errors.ts';
import type { Outcome } from '../registry/outcome.ts';
import type { StoredSnapshot } from '../registry/reading.ts';
import { putSnapshot, type Uploaded } from '../registry/uploads.ts';
import { coverWith } from './covering.ts';
import type { ObjectNames } from './object-names.ts';
import { type Uploading, uploadObject } from './uploads.ts';
import { verifiedBytes } from './verified-bytes.ts';

/** What a snapshot is made of. */
export interface SnapshotSource {
  /** The archive's local folder. */
  readonly dir: string;
  readonly logId: Buffer;
  readonly catalog: Pick<WritableCatalog, 'reached' | 'snapshotInto'>;
  readonly names: ObjectNames;
}

/**
 * Stores the catalog, deflated, so that a new holder need not read the whole log. It is what the catalog was at one commit.
 *
 * @returns what refused it, if something did: the lease is lost, or there was a purge since
 * @throws `catalog-io`, `catalog-disk-full`; the errors of the object store and the registry; the signal's reason
 */
export async function storeSnapshot(
  uploading: Uploading,
  source: SnapshotSource,
): Promise<Outcome> {
  const { held } = uploading;
  const result = await uploadSnapshot(uploading, source);
  if (result.outcome === 'fenced') return result;
  const { uploaded, ...of } = result;
  return await coverWith(held, uploaded, (lease) =>
    putSnapshot(held.registry, lease, uploaded, of),
  );
}

/** A snapshot that was read back, and the commit that it has reached. */
export interface UploadedSnapshot {
  readonly uploaded: Uploaded;
  readonly number: number;
  readonly hash: Buffer;
  readonly catalogVersion: number;
}

/** Uploads the catalog as `storeSnapshot` does; nothing names the object yet. Throws as `storeSnapshot`. */
export async function uploadSnapshot(
  uploading: Uploading,
  { dir, logId, catalog, names }: SnapshotSource,
): Promise<Outcome<UploadedSnapshot>> {
  const { held, signal } = uploading;
  const [plain, packed] = [`${catalogFile(dir)}.snapshot`, `${catalogFile(dir)}.snapshot.z`];
  const clean = () => {
    for (const file of [plain, packed]) rmSync(file, { force: true });
  };
  clean();
  try {
    // Before the content is read: what is decided from here on refuses it.
    const { purges } = held.head;
    const { number, hash } = catalog.reached();
    catalog.snapshotInto(plain);
    const { length, sha256 } = await deflateFile(plain, packed, signal);
    rmSync(plain);
    const lastHash = Buffer.from(hash, 'hex');
    const result = await uploadObject(uploading, {
      ...{ kind: 'snapshot', length, sha256, purges },
      name: (epoch) => names.snapshot(number, epoch),
      bytes: () => createReadStream(packed),
      metadata: { logId, first: number, last: number, lastHash },
    });
    if (result.outcome === 'fenced') return result;
    return { ...result, number, hash: lastHash, catalogVersion: CATALOG_VERSION };
  } finally {
    clean();
  }
}

async function deflateFile(from: string, to: string, signal: AbortSignal) {
  const hash = createHash('sha256');
  let length = 0;
  const counted = new Transform({
    transform(piece: Buffer, _encoding, done) {
      hash.update(piece);
      length += piece.length;
      done(null, piece);
    },
  });
  const target = createWriteStream(to, { flags: 'wx', mode: FILE_MODE });
  try {
    await pipeline(createReadStream(from), createDeflate(), counted, target, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw ofTheDisk(to, error);
  }
  return { length, sha256: hash.digest() };
}

/** Returns an error of the disk as one of the catalog; any other as it is. */
function ofTheDisk(file: string, error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  const isFull = errno === 'ENOSPC' || errno === 'EDQUOT';
  return isFull
    ? catalogError('catalog-disk-full', { file }, error)
    : catalogError('catalog-io', { file, reason: errno }, error);
}

/** How much larger a catalog may be than its snapshot. Deflating makes it about half, and an empty one a tenth. */
const MOST_INFLATED = { times: 100, bytes: 16 * 1024 * 1024 };

/**
 * Writes the catalog of a snapshot to a new file, durably.
 *
 * @throws object-damaged, object-missing, and the other errors of the object store; `catalog-disk-full`, `catalog-io`; the
 *   signal's reason
 */
export async function fetchSnapshot(
  objects: Pick<UploadingStore, 'label' | 'get'>,
  file: string,
  snapshot: StoredSnapshot,
  signal: AbortSignal,
): Promise<void> {
  let left = MOST_INFLATED.bytes + snapshot.bytes * MOST_INFLATED.times;
  const damaged = (cause?: unknown) =>
    objectError('object-damaged', { store: objects.label, name: snapshot.key }, cause);
  const bounded = new Transform({
    transform(piece: Buffer, _encoding, done) {
      left -= piece.length;
      if (left < 0) done(damaged());
      else done(null, piece);
    },
  });
  try {
    const target = createWriteStream(file, { flags: 'wx', mode: FILE_MODE, flush: true });
    const bytes = Readable.from(verifiedBytes(objects, snapshot, signal));
    await pipeline(bytes, createInflate(), bounded, target, { signal });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MailkeepError) throw error;
    // As zlib names its errors: Z_DATA_ERROR, Z_BUF_ERROR.
    if (errnoName(error).startsWith('Z_')) throw damaged(error);
    throw ofTheDisk(file, error);
  }
}
