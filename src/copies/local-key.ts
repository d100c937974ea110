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
import { severalAtOnce } from '../core/concurrency.ts';
import { errnoName } from '../core/errors.ts';
import { makeFolders, readRegularFile } from '../core/files.ts';
import { copiesError } from './errors.ts';
import type { KeyObject } from './format/keys.ts';
import {
  decryptOnce,
  encryptOnce,
  KEY_BYTES,
  newKeyPair,
  publicKeyOf,
} from './format/sealed-object.ts';
import type { CopyMemory } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

/** The ID of a copy or recipient. */
const ID = /^[0-9a-f]{32}$/;

/** The parts of a `LocalKey`. Contains plain secrets: pass it to the constructor and do not keep it. */
export interface LocalKeyParts {
  /** 32 hexadecimal digits. */
  readonly copyId: string;
  /** The target, as given to `mailkeep copy init`. */
  readonly to: string;
  /** X25519, 32 bytes: seals objects. */
  readonly publicKey: Buffer;
  /** 32 bytes: names and identifies objects. */
  readonly nameKey: Buffer;
  /** X25519, 32 bytes, newest first; empty on a write-only machine. */
  readonly privateKeys: readonly Buffer[];
  /** Ed25519, 32 bytes each: trusted signers of manifests. The first created the copy. */
  readonly signers: readonly Buffer[];
  /** Age recipients added here. A rotation uses only these, never those at the target. */
  readonly age?: readonly KnownRecipient[];
  /** The pair of an unfinished rotation; undefined if there is none. */
  readonly next?: NextKey | undefined;
  /** IDs of recipients that the last rotation replaced and that may still be at the target. */
  readonly replaced?: readonly string[];
  /** The objects that open and describe the copy, for comparison and repair. Undefined until first read. */
  readonly kept?: readonly KeptObject[] | undefined;
}

/** A small object of the copy, as this machine stored or first saw it. */
export interface KeptObject extends KeyObject {
  /** Of the original bytes, since this file may be damaged as well. */
  readonly sha256: string;
}

export function keptObject({ name, bytes }: KeyObject): KeptObject {
  return { name, bytes, sha256: hash('sha256', bytes) };
}

/** The age recipient of an object below `keys/`. */
export interface KnownRecipient {
  /** 32 hexadecimal digits, in the object's name. */
  readonly id: string;
  /** `age1…` */
  readonly recipient: string;
  /** The owner, for people. */
  readonly label?: string | undefined;
}

/** This machine's keys of a copy. Hidden from `util.inspect` and JSON. */
export class LocalKey implements LocalKeyParts {
  readonly copyId: string;
  readonly to: string;
  readonly #parts: LocalKeyParts;

  constructor(parts: LocalKeyParts) {
    this.copyId = parts.copyId;
    this.to = parts.to;
    this.#parts = { ...parts };
  }

  get publicKey(): Buffer {
    return this.#parts.publicKey;
  }

  get nameKey(): Buffer {
    return this.#parts.nameKey;
  }

  get privateKeys(): readonly Buffer[] {
    return this.#parts.privateKeys;
  }

  get signers(): readonly Buffer[] {
    return this.#parts.signers;
  }

  get age(): readonly KnownRecipient[] {
    return this.#parts.age ?? [];
  }

  get next(): NextKey | undefined {
    return this.#parts.next;
  }

  get replaced(): readonly string[] {
    return this.#parts.replaced ?? [];
  }

  get kept(): readonly KeptObject[] | undefined {
    return this.#parts.kept;
  }

  /** With the option `getters`, `inspect` would call the class's getters. */
  [inspect.custom](): string {
    return `LocalKey { copyId: '${this.copyId}' }`;
  }

  with(changes: Partial<LocalKeyParts>): LocalKey {
    return new LocalKey({ ...this.#parts, ...changes });
  }
}

/** Returns the directory of the keys of an archive's copies. */
export function keyFolder(dataDir: string): string {
  return path.join(dataDir, 'copies');
}

export function keyFile(dataDir: string, copyId: string): string {
  return path.join(keyFolder(dataDir), `${copyId}.json`);
}

/** Writes the file durably, mode 0600. @throws offsite-key-unwritable */
export async function writeLocalKey(file: string, key: LocalKey): Promise<void> {
  const text = canonicalJson({
    mailkeep: 'copy keys 1',
    copy: key.copyId,
    to: key.to,
    publicKey: key.publicKey.toString('base64'),
    nameKey: key.nameKey.toString('base64'),
    privateKeys: key.privateKeys.map((one) => one.toString('base64')),
    signers: key.signers.map((one) => one.toString('base64')),
    age: key.age.map(({ id, recipient, label }) => ({
      ...{ id, recipient },
      ...(label === undefined ? {} : { label }),
    })),
    replaced: key.replaced,
    ...(key.next === undefined ? {} : { next: nextFields(key.next) }),
    ...(key.kept === undefined
      ? {}
      : { kept: key.kept.map((one) => ({ ...one, bytes: one.bytes.toString('base64') })) }),
  });
  try {
    makeFolders(path.dirname(file), FOLDER_MODE);
    await replaceFile(realFiles, file, Buffer.from(`${text}\n`, 'utf8'));
  } catch (error) {
    throw copiesError('offsite-key-unwritable', { file, reason: errnoName(error) }, error);
  }
}

function nextFields({ publicKey, salt, wrapped, made }: NextKey) {
  return {
    publicKey: publicKey.toString('base64'),
    salt: salt.toString('base64'),
    wrapped: wrapped.toString('base64'),
    made,
  };
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
  if (fields === undefined)
    throw copiesError('offsite-key-unreadable', { file, reason: 'its content' });
  const { mailkeep: _, copy: copyId, age = [], replaced = [], ...rest } = fields;
  return new LocalKey({ copyId, age, replaced, ...rest });
}

const bytes = z.string().transform((text) => Buffer.from(text, 'base64'));
const key32 = bytes.refine(({ length }) => length === KEY_BYTES);
const id = z.string().regex(ID);
const kept = z.object({ name: z.string(), sha256: z.string(), bytes });
const known = z.object({
  id,
  recipient: z.string(),
  label: z.string().optional().catch(undefined),
});

const keyFields = z.object({
  mailkeep: z.literal('copy keys 1'),
  copy: id,
  to: z.string(),
  publicKey: key32,
  nameKey: key32,
  privateKeys: z.array(key32),
  signers: z.array(key32).min(1),
  age: z.array(known).optional(),
  replaced: z.array(id).optional(),
  next: z.object({ publicKey: key32, salt: key32, wrapped: bytes, made: z.array(id) }).optional(),
  // Absent in files of earlier versions. If it is damaged, the next copy reads the objects again.
  kept: z.array(kept).optional().catch(undefined),
});

/**
 * The key pair to which a rotation will switch. Its private half is encrypted under the previous private key, so that a
 * write-only machine cannot read it. An interrupted rotation resumes with the same pair: otherwise one person could
 * have two contradicting recipients.
 */
export interface NextKey {
  /** X25519, 32 bytes. */
  readonly publicKey: Buffer;
  /** 32 random bytes: the wrapping key is used once. */
  readonly salt: Buffer;
  /** The encrypted private key. */
  readonly wrapped: Buffer;
  /** IDs of recipients written for it in runs that may not have finished. */
  readonly made: readonly string[];
}

const INFO = 'mailkeep copy next key 1\n';

/** Returns a new pair, wrapped under the private key that it will replace. */
export function newNextKey(copyId: string, privateKey: Buffer): NextKey {
  const { publicKey, privateKey: next } = newKeyPair();
  const salt = randomBytes(KEY_BYTES);
  const wrapped = encryptOnce(wrappingKey(copyId, privateKey, salt), next, publicKey);
  return { publicKey, salt, wrapped, made: [] };
}

/** Returns the private half. Undefined if another private key wrapped it. */
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

/** Returns the 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: CryptoKeyObject): Buffer {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' });
  return Buffer.from(x, 'base64url');
}

export interface MaybeLocking {
  readonly store: ObjectStore;
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock' | 'forgetLocks'>;
  /** Days for which objects are locked; undefined for no lock. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export interface Locking extends MaybeLocking {
  readonly lockDays: number;
}

export interface Locks {
  /** Objects whose lock was extended or set. */
  readonly extended: number;
  /** End of the first lock, milliseconds since the epoch. */
  readonly until: number;
}

const DAY_MS = 24 * 3_600_000;
/** Each takes a few small requests. */
const AT_ONCE = 4;

/** Returns the lock's end for an object stored now, milliseconds since the epoch. */
export function lockEnd({ lockDays, now }: Pick<Locking, 'lockDays' | 'now'>): number {
  return now() + lockDays * DAY_MS;
}

/** Stores an object, locked if requested. @throws errors of `ObjectStore.put` */
export async function putLocked(
  { store, lockDays, memory, signal, now }: MaybeLocking,
  name: string,
  length: number,
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (lockDays === undefined) return await store.put(name, length, bytes, { signal });
  const lockUntil = lockEnd({ lockDays, now });
  await store.put(name, length, bytes, { signal, lockUntil });
  memory.noteLock(name, lockUntil);
}

/**
 * Extends the locks of objects with less than half of their time left. Makes no requests for the others.
 *
 * @throws errors of `ObjectStore.lock`
 */
export async function keepLocked(locking: Locking, names: readonly string[]): Promise<Locks> {
  const { store, memory, signal, now } = locking;
  const due = names.filter((name) => isLockDue(locking, name));
  await severalAtOnce(due, AT_ONCE, async (name) => {
    signal.throwIfAborted();
    const until = lockEnd(locking);
    await store.lock(name, until, signal);
    memory.noteLock(name, until);
  });
  memory.forgetLocks(now());
  const until = Math.min(...names.map((name) => memory.lockedUntil(name) ?? 0));
  return { extended: due.length, until };
}

/** Returns whether less than half of an object's lock time is left, or no lock is known. */
export function isLockDue(
  { memory, lockDays, now }: Pick<Locking, 'memory' | 'lockDays' | 'now'>,
  name: string,
): boolean {
  const until = memory.lockedUntil(name);
  return until === undefined || until < now() + (lockDays * DAY_MS) / 2;
}
