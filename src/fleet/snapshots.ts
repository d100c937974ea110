import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createDeflate, createInflate } from 'node:zlib';
import { realFiles } from '../archive/files/real-files.ts';
import { FILE_MODE } from '../archive/format/layout.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import { CATALOG_VERSION, catalogFile } from '../catalog/open.ts';
import type { UploadingStore } from '../objects/store.ts';
import type { Outcome } from '../registry/outcome.ts';
import type { StoredSnapshot } from '../registry/reading.ts';
import { putSnapshot } from '../registry/uploads.ts';
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
  { dir, logId, catalog, names }: SnapshotSource,
): Promise<Outcome> {
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
    const { uploaded } = result;
    const of = { number, hash: lastHash, catalogVersion: CATALOG_VERSION };
    return await coverWith(held, uploaded, (lease) =>
      putSnapshot(held.registry, lease, uploaded, of),
    );
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
  await pipeline(createReadStream(from), createDeflate(), counted, target, { signal });
  return { length, sha256: hash.digest() };
}

/**
 * Makes the catalog of a folder of a snapshot. There is none yet; the name appears when all bytes are there, durably.
 *
 * @throws object-damaged, object-missing, and the other errors of the object store; the signal's reason
 */
export async function fetchSnapshot(
  objects: UploadingStore,
  dir: string,
  snapshot: StoredSnapshot,
  signal: AbortSignal,
): Promise<void> {
  const file = catalogFile(dir);
  const fetched = `${file}.fetched`;
  rmSync(fetched, { force: true });
  try {
    const target = createWriteStream(fetched, { flags: 'wx', mode: FILE_MODE });
    const bytes = Readable.from(verifiedBytes(objects, snapshot, signal));
    await pipeline(bytes, createInflate(), target, { signal });
    const written = await open(fetched, 'r');
    try {
      await written.sync();
    } finally {
      await written.close();
    }
    await rename(fetched, file);
    await realFiles.syncFolder(dirname(file));
  } finally {
    rmSync(fetched, { force: true });
  }
}
