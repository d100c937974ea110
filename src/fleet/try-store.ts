import { randomBytes } from 'node:crypto';
import type { Upload, UploadingStore } from '../copies/object-store.ts';
import { hasCode } from '../core/errors.ts';
import { fleetError } from '../registry/errors.ts';

/** What a store that can be used was seen to do. */
interface TriedStore {
  /** It keeps versions; deleting an object deletes all of them. */
  readonly keepsVersions: boolean;
  /** It locked an object that was written without asking for it: a forget would wait for such locks. */
  readonly locks: boolean;
}

/** Enough to tell one object from another. */
const TRIED_BYTES = 1_000;

/**
 * Tries what a fleet relies on, with small objects below `init/`: an upload in parts is read back as it was sent, an upload
 * that was called off cannot be completed, and an object that was deleted is gone.
 *
 * @param allowVersions accepts a bucket that keeps versions
 * @throws fleet-store-versioned, fleet-store-unfit, and the errors of the store
 */
export async function tryStore(
  store: UploadingStore,
  allowVersions: boolean,
  signal: AbortSignal,
): Promise<TriedStore> {
  const { label } = store;
  const { keepsVersions } = await store.abilities(signal);
  if (keepsVersions && !allowVersions) throw fleetError('fleet-store-versioned', { store: label });
  const name = `init/${randomBytes(16).toString('hex')}`;
  const bytes = randomBytes(TRIED_BYTES);
  await store.completeUpload(...(await sent(store, name, bytes, signal)), signal);
  const readBack = await everything(store, name, signal);
  const locks = !(await isDeleted(store, name, signal));
  if (!bytes.equals(readBack)) throw unfit(store, 'read-back');
  await tryToCallOff(store, signal);
  return { keepsVersions, locks };
}

async function tryToCallOff(store: UploadingStore, signal: AbortSignal): Promise<void> {
  const name = `init/${randomBytes(16).toString('hex')}`;
  const [upload, parts] = await sent(store, name, randomBytes(TRIED_BYTES), signal);
  await store.giveUpUpload(upload, signal);
  try {
    await store.completeUpload(upload, parts, signal);
  } catch (error) {
    // As it should be; some versions of Ceph say InternalError where they mean that they do not know the upload. Whether the
    // object is there is looked at next.
    if (!hasCode(error, 'store-refused') && !hasCode(error, 'store-busy')) throw error;
  }
  if ((await store.head(name, signal)) === undefined) return;
  await store.delete(name, signal);
  throw unfit(store, 'call-off');
}

/** Returns whether an object could be deleted, with all its versions; false if a lock keeps it. */
async function isDeleted(
  store: UploadingStore,
  name: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await store.delete(name, signal);
  } catch (error) {
    if (hasCode(error, 'object-locked')) return false;
    throw error;
  }
  const left = [await store.head(name, signal), ...(await store.versions(name, signal))];
  if (left.every((found) => found === undefined)) return true;
  throw unfit(store, 'delete');
}

async function sent(
  store: UploadingStore,
  name: string,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<[upload: Upload, parts: readonly string[]]> {
  const upload = await store.beginUpload(name, {}, signal);
  return [upload, await store.sendParts(upload, bytes.length, once(bytes), signal)];
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

async function everything(
  store: UploadingStore,
  name: string,
  signal: AbortSignal,
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of store.get(name, { signal })) pieces.push(piece);
  return Buffer.concat(pieces);
}

function unfit(store: UploadingStore, problem: 'read-back' | 'call-off' | 'delete'): Error {
  return fleetError('fleet-store-unfit', { store: store.label, problem });
}
