import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { objectError } from '../copies/errors.ts';
import { bytesAsStream } from '../copies/format/manifest.ts';
import type { UploadingStore } from '../copies/object-store.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { fleetError } from './errors.ts';
import { abandon, type ObjectKind, register } from './objects.ts';
import { committed, type Lease } from './outcomes.ts';
import type { Registry } from './postgres.ts';

/**
 * Returns the part of the fleet's store that has the objects of one shard, so that a recovery finds them without the
 * registry. Names in manifests and in the registry are without the folder.
 */
export function shardStore(store: UploadingStore, shard: number): UploadingStore {
  const folder = `shards/${shard}/`;
  const at = <Named extends { readonly name: string }>(one: Named): Named => ({
    ...one,
    name: `${folder}${one.name}`,
  });
  return {
    label: store.label,
    put: (name, ...rest) => store.put(`${folder}${name}`, ...rest),
    get: (name, options) => store.get(`${folder}${name}`, options),
    lock: (name, ...rest) => store.lock(`${folder}${name}`, ...rest),
    versions: (name, signal) => store.versions(`${folder}${name}`, signal),
    async head(name, signal) {
      const fact = await store.head(`${folder}${name}`, signal);
      return fact === undefined ? undefined : { ...fact, name };
    },
    async *list(prefix, signal) {
      for await (const fact of store.list(`${folder}${prefix}`, signal)) {
        yield { ...fact, name: fact.name.slice(folder.length) };
      }
    },
    delete: (name, signal) => store.delete(`${folder}${name}`, signal),
    abilities: (signal) => store.abilities(signal),
    close: () => store.close(),
    async beginUpload(name, ...rest) {
      return { ...(await store.beginUpload(`${folder}${name}`, ...rest)), name };
    },
    sendParts: (upload, ...rest) => store.sendParts(at(upload), ...rest),
    completeUpload: (upload, ...rest) => store.completeUpload(at(upload), ...rest),
    giveUpUpload: (upload, signal) => store.giveUpUpload(at(upload), signal),
  };
}

/** Where a holder uploads to. */
export interface UploadTarget {
  readonly registry: Registry;
  readonly lease: Lease;
  readonly store: UploadingStore;
  readonly signal: AbortSignal;
}

interface ObjectToUpload {
  readonly name: string;
  readonly kind: ObjectKind;
  readonly length: number;
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Purges that its content is clean of. */
  readonly purges: number;
}

/** Aborting an upload that nobody registered may take this long. It has no bytes. */
const ABORT_MS = 15_000;

/**
 * Uploads an object: starts the upload, registers it, sends and completes it. After any failure and at any moment of a
 * kill, whatever may be in the bucket has a row by which it is collected.
 *
 * @throws ShardLost; object-damaged if the object is not there afterwards; errors of the store and the registry
 */
export async function uploadObject(target: UploadTarget, object: ObjectToUpload): Promise<void> {
  const { registry, lease, store, signal } = target;
  const { name, kind, length, bytes, purges } = object;
  const upload = await store.beginUpload(name, {}, signal);
  try {
    const entry = { name, kind, uploadId: upload.uploadId, bytes: length, purges };
    committed(await register(registry, lease, [entry]));
  } catch (error) {
    // The signal may have aborted. After a lost answer the row may be there, and is collected like any other.
    await store.giveUpUpload(upload, AbortSignal.timeout(ABORT_MS)).catch(() => undefined);
    throw error;
  }
  try {
    const parts = await store.sendParts(upload, length, bytes, signal);
    // Each part was verified by its MD5. A lost answer to the completion proves nothing, so the object is looked at.
    await store.completeUpload(upload, parts, signal);
    if ((await store.head(name, signal))?.length !== length) {
      throw objectError('object-damaged', { store: store.label, name });
    }
  } catch (error) {
    await abandonQuietly(registry, name);
    throw error;
  }
}

/** Condemns an upload now rather than in a day, if the registry can be asked. */
async function abandonQuietly(registry: Registry, name: string): Promise<void> {
  try {
    await abandon(registry, [name]);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
  }
}

/** Enough to tell one object from another. */
const TEST_BYTES = 1_000;

/** Features of a store that can be used. */
interface ProbedStore {
  /** Deleting an object deletes all of its versions. */
  readonly keepsVersions: boolean;
  /** It locked an object that was written without asking for it: a forget would wait for such locks. */
  readonly locks: boolean;
}

/**
 * Tries what a fleet relies on, with small objects below `init/`: an upload in parts is read back as it was sent, an upload
 * that was called off cannot be completed, and an object that was deleted is gone.
 *
 * @param allowVersions accepts a bucket that keeps versions
 * @throws fleet-store-versioned, fleet-store-unfit, and the errors of the store
 */
export async function probeStore(
  store: UploadingStore,
  allowVersions: boolean,
  signal: AbortSignal,
): Promise<ProbedStore> {
  const { label } = store;
  const { keepsVersions } = await store.abilities(signal);
  if (keepsVersions && !allowVersions) throw fleetError('fleet-store-versioned', { store: label });
  const unfit = (problem: 'read-back' | 'call-off' | 'delete') =>
    fleetError('fleet-store-unfit', { store: label, problem });
  const bytes = randomBytes(TEST_BYTES);
  const begin = async () => {
    const name = `init/${randomBytes(16).toString('hex')}`;
    const upload = await store.beginUpload(name, {}, signal);
    const parts = await store.sendParts(upload, bytes.length, bytesAsStream(bytes), signal);
    return { name, upload, parts };
  };
  const whole = await begin();
  await store.completeUpload(whole.upload, whole.parts, signal);
  const readBack = await buffer(store.get(whole.name, { signal }));
  let locks = false;
  try {
    await store.delete(whole.name, signal);
    const head = await store.head(whole.name, signal);
    const versions = await store.versions(whole.name, signal);
    if (head !== undefined || versions.length > 0) throw unfit('delete');
  } catch (error) {
    if (!hasCode(error, 'object-locked')) throw error;
    locks = true;
  }
  if (!bytes.equals(readBack)) throw unfit('read-back');
  const { name, upload, parts } = await begin();
  await store.giveUpUpload(upload, signal);
  try {
    await store.completeUpload(upload, parts, signal);
  } catch (error) {
    // As it should be. Some versions of Ceph answer InternalError for an unknown upload, so the object is looked for.
    if (!hasCode(error, 'store-refused') && !hasCode(error, 'store-busy')) throw error;
  }
  if ((await store.head(name, signal)) !== undefined) {
    await store.delete(name, signal);
    throw unfit('call-off');
  }
  return { keepsVersions, locks };
}
