import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { acquireLock } from '../archive/lock.ts';
import { hasCode, isDamage, MailkeepError } from '../core/errors.ts';
import { copiesError } from './errors.ts';
import {
  type CopySecrets,
  type KeyObject,
  MAX_KEY_BYTES,
  MAX_SIGNER_BYTES,
  readKeyObject,
  readSigner,
  type UnlockMethod,
  unlock,
  type WrappedKeys,
} from './format/keys.ts';
import {
  COPY_NAME,
  FOLDERS,
  idOfName,
  MAX_SETTINGS_BYTES,
  type SmallFolder,
} from './format/manifest.ts';
import { decodeCopyFile, keyIdOf, MAX_FILE_BYTES, publicKeyOf } from './format/sealed-object.ts';
import {
  extendLocks,
  isLockDue,
  keyFile,
  keyFolder,
  type LocalKey,
  type LockOptions,
  type Locks,
  readLocalKey,
} from './local-key.ts';
import { findManifests, orDamage, readSmallObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * Returns this archive's keys for the copy at a target. The target only identifies the copy; no key is taken from it.
 * If its description is damaged, missing or foreign, other objects can identify the copy.
 * @throws offsite-no-copy, offsite-other-copy, offsite-key-unreadable, copy-file-damaged; errors from the store
 */
export async function findLocalKey(
  dataDir: string,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<LocalKey> {
  const to = store.label;
  const copyId = await readCopyId(store, signal);
  const local =
    typeof copyId === 'string' && existsSync(keyFile(dataDir, copyId))
      ? readLocalKey(keyFile(dataDir, copyId))
      : undefined;
  if (local?.to === to) return local;
  for (const key of keysFor(dataDir, to)) {
    if (key.copyId !== local?.copyId && (await hasCopy(key, store, signal))) return key;
  }
  if (local !== undefined) return local;
  if (copyId === undefined) throw copiesError('offsite-no-copy', { to });
  if (typeof copyId !== 'string') throw copyId;
  throw copiesError('offsite-other-copy', { to, found: copyId, folder: keyFolder(dataDir) });
}

/** Returns whether a target has one of the copy's trusted manifests, or a recipient that is also kept here. */
async function hasCopy(key: LocalKey, store: ObjectStore, signal: AbortSignal): Promise<boolean> {
  if ((await findManifests(store, key, signal)).newest !== undefined) return true;
  for (const { name, bytes } of key.kept ?? []) {
    if (!name.startsWith(FOLDERS.keys)) continue;
    const found = await orDamage(() => readSmallObject(store, name, bytes.length, signal));
    if (Buffer.isBuffer(found) && found.equals(bytes)) return true;
  }
  return false;
}

/**
 * Returns whether this archive has keys for a copy at a target. If the target is an empty directory, its disk is not
 * mounted, and the directory must not become a readable archive.
 * @throws offsite-key-unreadable
 */
export function hasKeysFor(dataDir: string, to: string): boolean {
  return keysFor(dataDir, to).length > 0;
}

function keysFor(dataDir: string, to: string): LocalKey[] {
  const folder = keyFolder(dataDir);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /^[0-9a-f]{32}\.json$/.test(name))
    .map((name) => readLocalKey(path.join(folder, name)))
    .filter((key) => key.to === to);
}

/**
 * Returns the ID in a copy's description, an error if it is damaged, or undefined if there is none.
 * @throws copy-file-damaged if a newer version wrote it; errors from the store
 */
async function readCopyId(
  store: ObjectStore,
  signal: AbortSignal,
): Promise<string | MailkeepError | undefined> {
  try {
    const bytes = await readSmallObject(store, COPY_NAME, MAX_FILE_BYTES, signal);
    return decodeCopyFile(bytes).copyId.toString('hex');
  } catch (error) {
    if (hasCode(error, 'object-missing')) return undefined;
    if (isDamage(error) && error.facts.reason !== 'newer') return error;
    throw error;
  }
}

/** @throws copy-file-damaged if a newer version wrote the copy; errors from the store */
export async function refuseNewerCopy(store: ObjectStore, signal: AbortSignal): Promise<void> {
  await readCopyId(store, signal);
}

/** Runs `act` while holding a copy's write lock. @throws offsite-in-use if another process is writing to the copy */
export async function withCopyLock<T>(
  dataDir: string,
  { copyId }: Pick<LocalKey, 'copyId'>,
  to: string,
  act: () => Promise<T>,
): Promise<T> {
  let lock: ReturnType<typeof acquireLock>;
  try {
    lock = acquireLock(path.join(keyFolder(dataDir), copyId));
  } catch (error) {
    if (!hasCode(error, 'archive-in-use')) throw error;
    throw copiesError('offsite-in-use', { to }, error);
  }
  try {
    return await act();
  } finally {
    lock.release();
  }
}

/** Maximum number of small objects to read. Copies have only a few. */
const MAX_OBJECTS = 1_000;

/** Reads the recipients of a copy. @throws errors from the store */
export async function readRecipients(store: ObjectStore, signal: AbortSignal) {
  const recipients: WrappedKeys[] = [];
  const damaged: MailkeepError[] = [];
  for await (const { value } of readOwnObjects(store, 'keys', readKeyObject, signal)) {
    if (value instanceof MailkeepError) damaged.push(value);
    else recipients.push(value);
  }
  return { recipients, damaged };
}

/** Returns whether a recipient claims to open `new` content, or only `old` content from before a rotation. */
export function recipientAccess(
  keys: WrappedKeys,
  { copyId, publicKey, next }: LocalKey,
): 'new' | 'old' | 'unknown' {
  if (keys.key === null || keys.copyId.toString('hex') !== copyId) return 'unknown';
  // Recipients from an unfinished rotation also open new content.
  const current = next === undefined ? [publicKey] : [publicKey, next.publicKey];
  return current.some((key) => keyIdOf(key).toString('hex') === keys.key) ? 'new' : 'old';
}

/**
 * Reads the trusted signers: the first, and later ones authorised by a reader of the copy. Also returns the errors for
 * objects that authorise no signer.
 */
export async function readSigners(store: ObjectStore, secrets: CopySecrets, signal: AbortSignal) {
  const signers = [secrets.signer];
  const damaged: MailkeepError[] = [];
  const parse = (object: KeyObject) => readSigner(object, secrets);
  for await (const { value } of readOwnObjects(store, 'signers', parse, signal)) {
    if (value instanceof MailkeepError) damaged.push(value);
    else signers.push(value);
  }
  return { signers, damaged };
}

/** Yields the objects in a directory whose names are ours. */
export async function* listOwnNames(store: ObjectStore, folder: SmallFolder, signal: AbortSignal) {
  let found = 0;
  for await (const fact of store.list(FOLDERS[folder], signal)) {
    if (idOfName(folder, fact.name) === undefined) continue;
    found += 1;
    if (found > MAX_OBJECTS) return;
    yield fact;
  }
}

/** Reads a small object. Returns an error if it is missing, damaged or foreign. */
export async function readOwnObject(
  store: ObjectStore,
  name: string,
  signal: AbortSignal,
): Promise<Buffer | MailkeepError> {
  const most = name.startsWith(FOLDERS.settings)
    ? MAX_SETTINGS_BYTES
    : name.startsWith(FOLDERS.signers)
      ? MAX_SIGNER_BYTES
      : MAX_KEY_BYTES;
  try {
    return await orDamage(() => readSmallObject(store, name, most, signal));
  } catch (error) {
    if (hasCode(error, 'store-entry-foreign')) return error;
    throw error;
  }
}

/**
 * Yields the objects in a directory whose names are ours, with their parsed values. Anyone with write access can store
 * an object there, so values can be errors.
 */
export async function* readOwnObjects<T>(
  store: ObjectStore,
  folder: SmallFolder,
  parse: (object: KeyObject) => T,
  signal: AbortSignal,
) {
  for await (const { name } of listOwnNames(store, folder, signal)) {
    const bytes = await readOwnObject(store, name, signal);
    // Some stores continue to list a removed object for a while.
    if (hasCode(bytes, 'object-missing')) continue;
    const value = Buffer.isBuffer(bytes) ? await orDamage(() => parse({ name, bytes })) : bytes;
    yield { name, bytes, value };
  }
}

export interface KeyRequest {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly signal: AbortSignal;
}

/**
 * Returns the secrets of the copy that this archive writes to. A write-only machine has none, and calls `way`.
 * @param way called only if needed
 * @throws offsite-key-unfit, copy-key-refused; errors from `withOwnKey`, `way` and the store
 */
export async function openOwnCopy(
  order: KeyRequest,
  way: () => Promise<UnlockMethod>,
): Promise<CopySecrets> {
  const { store, signal } = order;
  // Taking the lock detects a running copy before the user writes down a new recovery key.
  const key = await withOwnKey(order, async (own) => own);
  const secrets = localSecrets(key);
  if (secrets !== undefined) return secrets;
  const { recipients } = await readRecipients(store, signal);
  return currentSecrets(key, await unlock(recipients, await way(), signal), store.label);
}

/** Returns undefined on a write-only machine. */
export function localSecrets(key: LocalKey): CopySecrets | undefined {
  const { nameKey, privateKeys, signers } = key;
  const [signer = Buffer.alloc(0)] = signers;
  return privateKeys.length === 0 ? undefined : { ...key.opening, nameKey, signer };
}

/**
 * Removes private keys that are newer than the one in use here, and come from an unfinished rotation. Everything else
 * must match the local data: anyone who knows an age recipient can wrap other keys for it.
 * @throws offsite-key-unfit
 */
export function currentSecrets(key: LocalKey, secrets: CopySecrets, to: string): CopySecrets {
  const at = secrets.privateKeys.findIndex((one) => publicKeyOf(one).equals(key.publicKey));
  const isOurs =
    secrets.copyId.toString('hex') === key.copyId &&
    secrets.nameKey.equals(key.nameKey) &&
    key.signers[0]?.equals(secrets.signer) === true;
  if (at < 0 || !isOurs) throw copiesError('offsite-key-unfit', { to });
  return { ...secrets, privateKeys: secrets.privateKeys.slice(at) };
}

/** Runs `act` with this archive's keys and the copy's write lock. @throws offsite-in-use; errors from `findLocalKey` */
export async function withOwnKey<T>(
  { dataDir, store, signal }: KeyRequest,
  act: (key: LocalKey, file: string) => Promise<T>,
): Promise<T> {
  const { copyId } = await findLocalKey(dataDir, store, signal);
  const file = keyFile(dataDir, copyId);
  // Reads the file again, because it may have changed before the lock was taken.
  return withCopyLock(dataDir, { copyId }, store.label, () => act(readLocalKey(file), file));
}

/**
 * Locks a copy's description, later signers, settings and recipients. Leaves recipients that open only content from
 * before a rotation unlocked, so that they can be removed.
 */
export async function lockKeys(locking: LockOptions & { readonly key: LocalKey }): Promise<Locks> {
  const { store, signal } = locking;
  const names: string[] = [COPY_NAME];
  for (const folder of ['keys', 'signers', 'settings'] as const) {
    for await (const { name } of listOwnNames(store, folder, signal)) {
      const isOld =
        folder === 'keys' && isLockDue(locking, name) && (await isOldRecipient(locking, name));
      if (!isOld) names.push(name);
    }
  }
  return await extendLocks(locking, names);
}

/** Returns false for a damaged object, which may hide another version that has to be locked. */
async function isOldRecipient(
  { store, key, signal }: Pick<LockOptions, 'store' | 'signal'> & { readonly key: LocalKey },
  name: string,
): Promise<boolean> {
  const keys = await orDamage(async () =>
    readKeyObject({ name, bytes: await readSmallObject(store, name, MAX_KEY_BYTES, signal) }),
  );
  return !(keys instanceof MailkeepError) && recipientAccess(keys, key) === 'old';
}
