import {
  type KeyObject as CryptoKeyObject,
  createPublicKey,
  hash,
  hkdfSync,
  randomBytes,
} from 'node:crypto';
import path from 'node:path';
import { inspect } from 'node:util';
import { z } from 'zod';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import { canonicalJson, FOLDER_MODE, parseJson } from '../archive/format.ts';
import { forEachConcurrent } from '../core/concurrency.ts';
import { KEY_BYTES } from '../core/ed25519.ts';
import { errnoName } from '../core/errors.ts';
import { makeFolders, readRegularFile } from '../core/files.ts';
import { copiesError } from './errors.ts';
import type { KeyObject } from './format/keys.ts';
import {
  decryptOnce,
  encryptOnce,
  hexText,
  newKeyPair,
  type OpeningKey,
  publicKeyOf,
  type SealingKey,
} from './format/sealed-object.ts';
import type { CopyMemory } from './manifests.ts';
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

export interface LockOptions extends OptionalLock {
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
export function isLockDue(
  { memory, lockDays, now }: Pick<LockOptions, 'memory' | 'lockDays' | 'now'>,
  name: string,
): boolean {
  const until = memory.lockedUntil(name);
  return until === undefined || until < now() + (lockDays * DAY_MS) / 2;
}
