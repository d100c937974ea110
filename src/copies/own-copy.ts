import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { acquireLock } from '../archive/lock.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { CopyChecked, KnownCopy } from '../core/state-runs.ts';
import {
  type FoundInCopy,
  rememberCopied,
  rememberCopyChecked,
  rememberMended,
} from '../verify/copy-facts.ts';
import { noting } from '../verify/verify.ts';
import { copiesError } from './errors.ts';
import {
  type CopySecrets,
  MAX_KEY_BYTES,
  MAX_SIGNER_BYTES,
  readKeyObject,
  readSigner,
  unlock,
  type Way,
  type WrappedKeys,
} from './format/keys.ts';
import { COPY_NAME, FOLDERS, idOfName, type SmallFolder } from './format/manifest.ts';
import { decodeCopyFile, keyIdOf, MAX_FILE_BYTES, publicKeyOf } from './format/sealed-object.ts';
import {
  isLockDue,
  keepLocked,
  keyFile,
  keyFolder,
  type LocalKey,
  type Locking,
  type Locks,
  readLocalKey,
} from './local-key.ts';
import { findManifests, wholeObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * Returns this archive's keys for the copy at a target. The target only identifies the copy: no key is taken from it. A
 * damaged, missing or foreign description does not matter if other objects identify the copy.
 *
 * @throws offsite-no-copy, offsite-other-copy, offsite-key-unreadable, copy-file-damaged; errors of the store
 */
export async function ownKeyOf(
  dataDir: string,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<LocalKey> {
  const to = store.label;
  const found = await copyAt(store, signal);
  const described =
    typeof found === 'string' && existsSync(keyFile(dataDir, found))
      ? readLocalKey(keyFile(dataDir, found))
      : undefined;
  if (described?.to === to) return described;
  for (const key of keysFor(dataDir, to)) {
    if (key.copyId !== described?.copyId && (await isThere(key, store, signal))) return key;
  }
  if (described !== undefined) return described;
  if (found === undefined) throw copiesError('offsite-no-copy', { to });
  if (typeof found !== 'string') throw found;
  throw copiesError('offsite-other-copy', { to, found, folder: keyFolder(dataDir) });
}

/** Returns whether a target has a trusted manifest of a copy, or a recipient equal to the local one. */
async function isThere(key: LocalKey, store: ObjectStore, signal: AbortSignal): Promise<boolean> {
  if ((await findManifests(store, key, signal)).newest !== undefined) return true;
  for (const { name, bytes } of key.kept ?? []) {
    if (!name.startsWith(FOLDERS.keys)) continue;
    try {
      if ((await wholeObject(store, name, bytes.length, signal)).equals(bytes)) return true;
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    }
  }
  return false;
}

/**
 * Returns whether this archive has keys of a copy at a target. An empty directory there is then an unmounted disk, and
 * must not become a readable archive.
 *
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
 * Returns the ID of the copy at a target, by its description. Undefined if there is none; an error if it is damaged.
 *
 * @throws copy-file-damaged if a newer version wrote it; errors of the store
 */
async function copyAt(
  store: ObjectStore,
  signal: AbortSignal,
): Promise<string | MailkeepError | undefined> {
  try {
    const bytes = await wholeObject(store, COPY_NAME, MAX_FILE_BYTES, signal);
    return decodeCopyFile(bytes).copyId.toString('hex');
  } catch (error) {
    if (hasCode(error, 'object-missing')) return undefined;
    const isDamaged = error instanceof MailkeepError && error.family === 'damage';
    if (isDamaged && error.facts.reason !== 'newer') return error;
    throw error;
  }
}

/** @throws copy-file-damaged if a newer version wrote the copy; errors of the store */
export async function refuseNewerCopy(store: ObjectStore, signal: AbortSignal): Promise<void> {
  await copyAt(store, signal);
}

/**
 * Runs `act` with the write lock of a copy.
 *
 * @throws offsite-in-use if another process of this archive writes to it
 */
export async function withCopyLock<T>(
  dataDir: string,
  { copyId }: Pick<LocalKey, 'copyId'>,
  to: string,
  act: () => Promise<T>,
): Promise<T> {
  const lock = lockOf(path.join(keyFolder(dataDir), copyId), to);
  try {
    return await act();
  } finally {
    lock.release();
  }
}

function lockOf(folder: string, to: string) {
  try {
    return acquireLock(folder);
  } catch (error) {
    if (!hasCode(error, 'archive-in-use')) throw error;
    throw copiesError('offsite-in-use', { to }, error);
  }
}

/** Records a completed copy, for `status` and the daemon. If the state cannot be written, only warns. */
export function noteCopied(
  context: EngineContext,
  dataDir: string,
  to: string,
  made: NonNullable<KnownCopy['made']>,
): void {
  noting(context, dataDir, 'copy', (state) => rememberCopied(state, to, made));
}

/** Records the damage that a copy found at its target. If the state cannot be written, only warns. */
export function noteMended(
  context: EngineContext,
  dataDir: string,
  to: string,
  findings: readonly (FoundInCopy & { readonly repaired: boolean })[],
  replaced: readonly string[],
): void {
  noting(context, dataDir, 'copy', (state) =>
    rememberMended(state, to, context.now(), findings, replaced),
  );
}

/** Records the result of reading a copy back. If the state cannot be written, only warns. */
export function noteCopyChecked(
  context: EngineContext,
  dataDir: string,
  to: string,
  checked: Omit<CopyChecked, 'fullAt' | 'found'>,
  findings: readonly FoundInCopy[],
): void {
  noting(context, dataDir, 'copy', (state) => rememberCopyChecked(state, to, checked, findings));
}

/** Maximum number of key objects read: a copy has a few. */
const MAX_OBJECTS = 1_000;

/** Reads the recipients of a copy. @throws errors of the store */
export async function readRecipients(store: ObjectStore, signal: AbortSignal) {
  const recipients: WrappedKeys[] = [];
  const damaged: MailkeepError[] = [];
  for await (const { name } of namesIn(store, 'keys', signal)) {
    try {
      const bytes = await wholeObject(store, name, MAX_KEY_BYTES, signal);
      recipients.push(readKeyObject({ name, bytes }));
    } catch (error) {
      if (!isGone(error)) damaged.push(damageOf(error));
    }
  }
  return { recipients, damaged };
}

/** What a recipient claims to open: new content, only content from before a rotation, or unstated. */
export type Opens = 'new' | 'old' | 'unknown';

/** Returns what a recipient claims to open, compared with the key that this machine writes with. */
export function opensOf(keys: WrappedKeys, { copyId, publicKey, next }: LocalKey): Opens {
  if (keys.key === null || keys.copyId.toString('hex') !== copyId) return 'unknown';
  // Recipients of an unfinished rotation also open new content.
  const current = next === undefined ? [publicKey] : [publicKey, next.publicKey];
  return current.some((key) => keyIdOf(key).toString('hex') === keys.key) ? 'new' : 'old';
}

/** Reads the trusted signers of manifests: the first, and each later one confirmed by a reader of the copy. */
export async function readSigners(
  store: ObjectStore,
  secrets: CopySecrets,
  signal: AbortSignal,
): Promise<Buffer[]> {
  return (await findSigners(store, secrets, signal)).signers;
}

/** Like `readSigners`, with the errors of the other objects. */
export async function findSigners(
  store: ObjectStore,
  secrets: CopySecrets,
  signal: AbortSignal,
): Promise<{ readonly signers: Buffer[]; readonly damaged: readonly MailkeepError[] }> {
  const signers = [secrets.signer];
  const damaged: MailkeepError[] = [];
  for await (const { name } of namesIn(store, 'signers', signal)) {
    try {
      const bytes = await wholeObject(store, name, MAX_SIGNER_BYTES, signal);
      signers.push(readSigner({ name, bytes }, secrets));
    } catch (error) {
      // Anyone can put an object there; that does not make a signer.
      if (!isGone(error)) damaged.push(damageOf(error));
    }
  }
  return { signers, damaged };
}

/** Yields the objects of a directory whose names are ours. */
export async function* namesIn(store: ObjectStore, folder: SmallFolder, signal: AbortSignal) {
  let found = 0;
  for await (const fact of store.list(FOLDERS[folder], signal)) {
    if (idOfName(folder, fact.name) === undefined) continue;
    found += 1;
    if (found > MAX_OBJECTS) return;
    yield fact;
  }
}

/** Removed since the listing; some stores list a removed object for a while. */
function isGone(error: unknown): boolean {
  return hasCode(error, 'object-missing');
}

function damageOf(error: unknown): MailkeepError {
  if (error instanceof MailkeepError && error.family === 'damage') return error;
  throw error;
}

export interface KeysOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly signal: AbortSignal;
}

/**
 * Returns the secrets of the copy that this archive writes to: from the local file, or on a write-only machine with a
 * key from `way`.
 *
 * @param way called only if needed
 * @throws offsite-key-unfit, copy-key-refused; errors of `withOwnKey`, `way` and the store
 */
export async function openOwnCopy(order: KeysOrder, way: () => Promise<Way>): Promise<CopySecrets> {
  const { store, signal } = order;
  // Detects a running copy before the user writes down a new recovery key.
  const key = await withOwnKey(order, async (own) => own);
  const own = ownSecrets(key);
  if (own !== undefined) return own;
  const { recipients } = await readRecipients(store, signal);
  return fittingSecrets(key, await unlock(recipients, await way(), signal), store.label);
}

/** Returns the secrets in the local file. Undefined on a write-only machine. */
export function ownSecrets(key: LocalKey): CopySecrets | undefined {
  const { copyId, nameKey, privateKeys, signers } = key;
  const [signer = Buffer.alloc(0)] = signers;
  return privateKeys.length === 0
    ? undefined
    : { copyId: Buffer.from(copyId, 'hex'), nameKey, privateKeys, signer };
}

/**
 * Returns the secrets up to the key that this machine writes with, without keys of an unfinished rotation. Compares
 * them with all local data: anyone who knows an age recipient can wrap other keys for it.
 *
 * @throws offsite-key-unfit
 */
export function fittingSecrets(key: LocalKey, secrets: CopySecrets, to: string): CopySecrets {
  const at = secrets.privateKeys.findIndex((one) => publicKeyOf(one).equals(key.publicKey));
  const isOurs =
    secrets.copyId.toString('hex') === key.copyId &&
    secrets.nameKey.equals(key.nameKey) &&
    key.signers[0]?.equals(secrets.signer) === true;
  if (at < 0 || !isOurs) throw copiesError('offsite-key-unfit', { to });
  return { ...secrets, privateKeys: secrets.privateKeys.slice(at) };
}

/**
 * Calls `act` with this archive's keys of a copy, with the copy's write lock.
 *
 * @throws offsite-in-use; errors of `ownKeyOf` and `act`
 */
export async function withOwnKey<T>(
  { dataDir, store, signal }: KeysOrder,
  act: (key: LocalKey, file: string) => Promise<T>,
): Promise<T> {
  const { copyId } = await ownKeyOf(dataDir, store, signal);
  const file = keyFile(dataDir, copyId);
  // Read again: it may have changed before the lock was taken.
  return withCopyLock(dataDir, { copyId }, store.label, () => act(readLocalKey(file), file));
}

/**
 * Locks the objects that open and authenticate a copy: its description, recipients, later signers and settings. Does
 * not lock recipients that open only content from before a rotation, so that they can be removed.
 *
 * @throws errors of the store
 */
export async function lockKeys(locking: Locking & { readonly key: LocalKey }): Promise<Locks> {
  const { store, signal } = locking;
  const names: string[] = [COPY_NAME];
  for (const folder of ['keys', 'signers', 'settings'] as const) {
    for await (const { name } of namesIn(store, folder, signal)) {
      const isOld =
        folder === 'keys' && isLockDue(locking, name) && (await opensOld(locking, name));
      if (!isOld) names.push(name);
    }
  }
  return await keepLocked(locking, names);
}

/** False for a damaged object: it may hide another version, which is then locked too. */
async function opensOld(
  { store, key, signal }: Pick<Locking, 'store' | 'signal'> & { readonly key: LocalKey },
  name: string,
): Promise<boolean> {
  try {
    const bytes = await wholeObject(store, name, MAX_KEY_BYTES, signal);
    return opensOf(readKeyObject({ name, bytes }), key) === 'old';
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'damage') return false;
    throw error;
  }
}
