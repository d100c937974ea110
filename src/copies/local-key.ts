import {
  type KeyObject as CryptoKeyObject,
  createPublicKey,
  hash,
  hkdfSync,
  randomBytes,
} from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { z } from 'zod';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import { canonicalJson, FOLDER_MODE, parseJson } from '../archive/format.ts';
import { acquireLock } from '../archive/lock.ts';
import { forEachConcurrent } from '../core/concurrency.ts';
import { KEY_BYTES } from '../core/ed25519.ts';
import { errnoName, hasCode, isDamage, MailkeepError } from '../core/errors.ts';
import { makeFolders, readRegularFile } from '../core/files.ts';
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
import {
  decodeCopyFile,
  decryptOnce,
  encryptOnce,
  hexText,
  keyIdOf,
  MAX_FILE_BYTES,
  newKeyPair,
  type OpeningKey,
  publicKeyOf,
  type SealingKey,
} from './format/sealed-object.ts';
import { type CopyMemory, findManifests, orDamage, readSmallObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

/** Accepts non-canonical base64, so that damaged text affects a single kept object rather than all of them. */
const bytes = z.codec(z.string(), z.instanceof(Buffer), {
  decode: (text) => Buffer.from(text, 'base64'),
  encode: (raw) => raw.toString('base64'),
});
const key32 = bytes.refine(({ length }) => length === KEY_BYTES);
const id = hexText(16);

/** A small object of the copy, as this machine stored or first saw it. The hash reveals damage to the local file. */
const keptSchema = z.object({ name: z.string(), sha256: z.string(), bytes });
export type KeptObject = Readonly<z.output<typeof keptSchema>>;

/** An age recipient (`age1…`), with the ID of its object under `keys/`. */
const recipientSchema = z.object({
  id,
  recipient: z.string(),
  label: z.string().optional().catch(undefined),
});
export type KnownRecipient = Readonly<z.output<typeof recipientSchema>>;

/**
 * Key pair for the next rotation. Its private half is encrypted with the previous private key, which a write-only
 * machine does not have. An interrupted rotation continues with this pair, so that nobody ends up with two conflicting
 * recipients.
 */
const nextKey = z.object({
  publicKey: key32,
  /** Random, so that each wrapping key is used only once. */
  salt: key32,
  wrapped: bytes,
  /** IDs of the recipients already written for it, including those from unfinished runs. */
  made: z.array(id).readonly(),
});
type NextKey = Readonly<z.output<typeof nextKey>>;

const keyFields = z.object({
  mailkeep: z.literal('copy keys 1'),
  copy: id,
  /** The target, as passed to `mailkeep copy init`. */
  to: z.string(),
  /** X25519 key for sealing objects. */
  publicKey: key32,
  /** Key for naming and identifying objects. */
  nameKey: key32,
  /** X25519 keys, newest first. Empty on a write-only machine. */
  privateKeys: z.array(key32).readonly(),
  /** Ed25519 keys whose manifests are trusted. The first one created the copy. */
  signers: z.array(key32).readonly(),
  /** Age recipients added on this machine. Rotations use only these, never those at the target. */
  age: z.array(recipientSchema).readonly().optional(),
  /** IDs of the recipients that the last rotation replaced. They may still be at the target. */
  replaced: z.array(id).readonly().optional(),
  /** Undefined unless a rotation is unfinished. */
  next: nextKey.optional(),
  /**
   * Objects that open and describe the copy, for comparison and repair. Earlier versions omitted them. If they are
   * damaged, the next copy fetches them again.
   */
  kept: z.array(keptSchema).readonly().optional().catch(undefined),
});

/** The parts of a `LocalKey`, including secrets in plain form. Pass them to the constructor and do not keep them. */
export interface LocalKeyParts
  extends Readonly<Omit<z.output<typeof keyFields>, 'mailkeep' | 'copy'>> {
  readonly copyId: string;
}

export function keptObject({ name, bytes }: KeyObject): KeptObject {
  return { name, bytes, sha256: hash('sha256', bytes) };
}

/** This machine's keys for a copy. Hidden from `util.inspect` and JSON. */
export class LocalKey implements LocalKeyParts {
  readonly copyId: string;
  readonly to: string;
  readonly #parts: LocalKeyParts;

  constructor(parts: LocalKeyParts) {
    this.copyId = parts.copyId;
    this.to = parts.to;
    this.#parts = { ...parts };
  }

  get publicKey() {
    return this.#parts.publicKey;
  }

  get nameKey() {
    return this.#parts.nameKey;
  }

  get privateKeys() {
    return this.#parts.privateKeys;
  }

  get signers() {
    return this.#parts.signers;
  }

  get age() {
    return this.#parts.age ?? [];
  }

  get next() {
    return this.#parts.next;
  }

  get replaced() {
    return this.#parts.replaced ?? [];
  }

  get kept() {
    return this.#parts.kept;
  }

  get sealing(): SealingKey {
    return { copyId: Buffer.from(this.copyId, 'hex'), publicKey: this.publicKey };
  }

  /** Opens the copy's objects, unless this machine is write-only. */
  get opening(): OpeningKey {
    return { copyId: Buffer.from(this.copyId, 'hex'), privateKeys: this.privateKeys };
  }

  /** Otherwise, `inspect` with the `getters` option would run the class's getters. */
  [inspect.custom](): string {
    return `LocalKey { copyId: '${this.copyId}' }`;
  }

  with(changes: Partial<LocalKeyParts>): LocalKey {
    return new LocalKey({ ...this.#parts, ...changes });
  }

  /** Durably writes the key with mode 0600. @throws offsite-key-unwritable */
  async write(file: string): Promise<void> {
    const { copyId: copy, ...parts } = this.#parts;
    const fields = { ...parts, copy, age: this.age, replaced: this.replaced };
    const text = canonicalJson(z.encode(keyFields, { mailkeep: 'copy keys 1', ...fields }));
    try {
      makeFolders(path.dirname(file), FOLDER_MODE);
      await replaceFile(realFiles, file, Buffer.from(`${text}\n`, 'utf8'));
    } catch (error) {
      throw copiesError('offsite-key-unwritable', { file, reason: errnoName(error) }, error);
    }
  }
}

/** Returns the directory with the keys for an archive's copies. */
export function keyFolder(dataDir: string): string {
  return path.join(dataDir, 'copies');
}

export function keyFile(dataDir: string, copyId: string): string {
  return path.join(keyFolder(dataDir), `${copyId}.json`);
}

/** @throws offsite-key-unreadable */
export function readLocalKey(file: string): LocalKey {
  let text: string;
  try {
    text = readRegularFile(file).toString('utf8');
  } catch (error) {
    throw copiesError('offsite-key-unreadable', { file, reason: errnoName(error) }, error);
  }
  const fields = keyFields.safeParse(parseJson(text)).data;
  if (fields === undefined || fields.signers.length === 0)
    throw copiesError('offsite-key-unreadable', { file, reason: 'its content' });
  const { mailkeep: _, copy: copyId, ...rest } = fields;
  return new LocalKey({ copyId, ...rest });
}

const INFO = 'mailkeep copy next key 1\n';

/** Returns a new pair. Its private half is wrapped with the private key that it will replace. */
export function newNextKey(copyId: string, privateKey: Buffer): NextKey {
  const { publicKey, privateKey: next } = newKeyPair();
  const salt = randomBytes(KEY_BYTES);
  const wrapped = encryptOnce(wrappingKey(copyId, privateKey, salt), next, publicKey);
  return { publicKey, salt, wrapped, made: [] };
}

/** Unwraps the private half, or returns undefined if another private key wrapped it. */
export function nextPrivateKey(
  { publicKey, salt, wrapped }: NextKey,
  copyId: string,
  privateKey: Buffer,
): Buffer | undefined {
  const next = decryptOnce(wrappingKey(copyId, privateKey, salt), wrapped, publicKey);
  const isIts = next?.length === KEY_BYTES && publicKeyOf(next).equals(publicKey);
  return isIts ? next : undefined;
}

function wrappingKey(copyId: string, privateKey: Buffer, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', privateKey, salt, `${INFO}${copyId}`, KEY_BYTES));
}

/** Returns the public half of an Ed25519 key, 32 bytes. */
export function rawPublicKey(key: CryptoKeyObject): Buffer {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' });
  return Buffer.from(x, 'base64url');
}

export interface OptionalLock {
  readonly store: ObjectStore;
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock' | 'forgetLocks'>;
  /** How many days to lock objects for. Undefined for no locks. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

interface LockOptions extends OptionalLock {
  readonly lockDays: number;
}

export interface Locks {
  /** Number of objects whose lock was set or extended. */
  readonly extended: number;
  /** When the first lock expires, milliseconds since the epoch. */
  readonly until: number;
}

const DAY_MS = 24 * 3_600_000;
const AT_ONCE = 4;

/** Returns the expiry of a lock set now, milliseconds since the epoch. */
export function lockEnd({ lockDays, now }: Pick<LockOptions, 'lockDays' | 'now'>): number {
  return now() + lockDays * DAY_MS;
}

/** @throws errors from `ObjectStore.put` */
export async function putWithLock(
  { store, lockDays, memory, signal, now }: OptionalLock,
  name: string,
  length: number,
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (lockDays === undefined) return await store.put(name, length, bytes, { signal });
  const lockUntil = lockEnd({ lockDays, now });
  await store.put(name, length, bytes, { signal, lockUntil });
  memory.noteLock(name, lockUntil);
}

/** Extends locks with less than half of their time left. @throws errors from `ObjectStore.lock` */
export async function extendLocks(locking: LockOptions, names: readonly string[]): Promise<Locks> {
  const { store, memory, signal, now } = locking;
  const due = names.filter((name) => isLockDue(locking, name));
  await forEachConcurrent(due, AT_ONCE, async (name) => {
    signal.throwIfAborted();
    const until = lockEnd(locking);
    await store.lock(name, until, signal);
    memory.noteLock(name, until);
  });
  memory.forgetLocks(now());
  const until = Math.min(...names.map((name) => memory.lockedUntil(name) ?? 0));
  return { extended: due.length, until };
}

/** Returns whether an object's lock is unknown, or has less than half of its time left. */
function isLockDue(
  { memory, lockDays, now }: Pick<LockOptions, 'memory' | 'lockDays' | 'now'>,
  name: string,
): boolean {
  const until = memory.lockedUntil(name);
  return until === undefined || until < now() + (lockDays * DAY_MS) / 2;
}

/**
 * Returns this archive's keys for the copy at a target. The target only identifies the copy; no key is taken from it.
 * If its description is damaged, missing or foreign, other objects can identify the copy.
 * @throws offsite-no-copy, offsite-other-copy, offsite-key-unreadable, copy-file-damaged; errors from the store
 */
export async function findLocalKey({ dataDir, store, signal }: KeyRequest): Promise<LocalKey> {
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
export async function readCopyId(
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
  request: KeyRequest,
  act: (key: LocalKey, file: string) => Promise<T>,
): Promise<T> {
  const { dataDir, store } = request;
  const { copyId } = await findLocalKey(request);
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
