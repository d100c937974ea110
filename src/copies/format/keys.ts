import { createHmac, hash, hkdfSync, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { isCount } from '../../archive/format.ts';
import { hasCode } from '../../core/errors.ts';
import { type KeyDamage, offsiteError, type RecipientType, type SignerDamage } from './errors.ts';
import { idOfName, recipientName } from './manifest.ts';
import {
  canonicalBytes,
  decryptOnce,
  encryptOnce,
  type Fields,
  fromBase64,
  fromHex,
  hasOnly,
  KEY_BYTES,
  keyIdOf,
  newKeyPair,
  publicKeyOf,
  readCanonical,
} from './sealed-object.ts';

/** Loaded on demand: most copies have no age recipient. */
const library = () => import('age-encryption');

const IDENTITY = /^AGE-SECRET-KEY-/i;

/**
 * Encrypts a text as an age file (age-encryption.org/v1) for a recipient.
 *
 * @throws `copy-age-recipient`
 */
async function encryptForAge(recipient: string, text: Buffer): Promise<Buffer> {
  const { Encrypter } = await library();
  const encrypter = new Encrypter();
  try {
    encrypter.addRecipient(recipient);
  } catch {
    // The user may have entered the secret half; the library's message may quote it too.
    const isSecret = /AGE-SECRET-KEY-/i.test(recipient);
    const found = isSecret ? 'AGE-SECRET-KEY-…' : recipient;
    throw offsiteError('copy-age-recipient', { found });
  }
  return Buffer.from(await encrypter.encrypt(text));
}

/** Returns the content of an age file. Undefined if none of the identities opens it. */
async function decryptWithAge(
  identities: readonly string[],
  file: Buffer,
): Promise<Buffer | undefined> {
  const { Decrypter } = await library();
  const decrypter = new Decrypter();
  for (const identity of identities) decrypter.addIdentity(identity);
  try {
    return Buffer.from(await decrypter.decrypt(file));
  } catch {
    // Wrong identities or damage: the library does not distinguish them.
    return undefined;
  }
}

/**
 * Returns the identities in a file as written by `age-keygen`: one per line, with comments.
 *
 * @throws `copy-age-identity` with the number of the first invalid line, never with its text
 */
export async function parseIdentities(text: string): Promise<string[]> {
  const { Decrypter } = await library();
  const identities: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    if (!isIdentity(trimmed, new Decrypter()))
      throw offsiteError('copy-age-identity', { line: index + 1 });
    identities.push(trimmed);
  }
  if (identities.length === 0) throw offsiteError('copy-age-identity', { line: null });
  return identities;
}

function isIdentity(text: string, decrypter: { addIdentity(text: string): void }): boolean {
  if (!IDENTITY.test(text)) return false;
  try {
    decrypter.addIdentity(text);
    return true;
  } catch {
    // A wrong checksum or length. The message may quote the key, so it is dropped.
    return false;
  }
}

/** The cost of guessing a passphrase (RFC 7914). */
interface ScryptCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** 128 MiB, and some tenths of a second. */
export const SCRYPT_COST: ScryptCost = { N: 2 ** 17, r: 8, p: 1 };
/** Parameters come from an untrusted place: 1 GiB at most. */
const LARGEST: ScryptCost = { N: 2 ** 20, r: 8, p: 4 };
const SMALLEST_N = 2 ** 10;

const derive = promisify<Buffer, Buffer, number, object, Buffer>(scrypt);

/** Returns whether the cost is valid and affordable. */
function isAffordable({ N, r, p }: ScryptCost): boolean {
  const isPower = Number.isSafeInteger(N) && Math.log2(N) % 1 === 0;
  return (
    isPower && N >= SMALLEST_N && N <= LARGEST.N && isWithin(r, LARGEST.r) && isWithin(p, LARGEST.p)
  );
}

/** Derives 32 bytes from a passphrase, in NFC, and a salt. Runs outside the main thread. */
async function passphraseKey(
  passphrase: string,
  salt: Buffer,
  { N, r, p }: ScryptCost,
): Promise<Buffer> {
  const maxmem = 128 * r * (N + p + 2) + 1024 * 1024;
  return derive(Buffer.from(passphrase.normalize('NFC'), 'utf8'), salt, 32, { N, r, p, maxmem });
}

function isWithin(value: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= most;
}

/** The secrets that every recipient can read: everything needed to read and trust a copy. */
export interface CopySecrets {
  readonly copyId: Buffer;
  /** Newest first; several after a rotation, so that one recipient object is enough. */
  readonly privateKeys: readonly Buffer[];
  readonly nameKey: Buffer;
  /** Ed25519, 32 bytes: the key whose manifests are trusted. */
  readonly signer: Buffer;
}

/** Maximum number of a copy's private keys, hence of rotations. */
export const MAX_KEYS = 100;
const MAX_BYTES = 16 * 1024;

/** Returns the keys of a new copy: a public ID, an X25519 pair (writers need the public key), a key for names. */
export function newCopyKeys() {
  return { copyId: randomBytes(16), ...newKeyPair(), nameKey: randomBytes(KEY_BYTES) };
}

/** Returns secrets in their wrapped form, bound to their object. */
function secretsBytes(secrets: CopySecrets, clear: string): Buffer {
  const { copyId, privateKeys, nameKey, signer } = secrets;
  return canonicalBytes({
    clear,
    copy: copyId.toString('hex'),
    nameKey: nameKey.toString('base64'),
    privateKeys: privateKeys.map((key) => key.toString('base64')),
    signer: signer.toString('base64'),
  });
}

/** Returns secrets and their binding. Undefined if the bytes are not secrets. */
function readSecrets(
  bytes: Buffer,
): { readonly secrets: CopySecrets; readonly clear: string } | undefined {
  const fields = readCanonical(bytes, MAX_BYTES, isSecrets);
  if (fields === undefined) return undefined;
  const { clear, copy, privateKeys, ...rest } = fields;
  const nameKey = fromBase64(rest.nameKey, KEY_BYTES);
  const signer = fromBase64(rest.signer, KEY_BYTES);
  const keys = Array.isArray(privateKeys)
    ? privateKeys.map((one) => fromBase64(one, KEY_BYTES)).filter((one) => one !== undefined)
    : [];
  if (nameKey === undefined || signer === undefined || typeof clear !== 'string') return undefined;
  const copyId = Buffer.from(String(copy), 'hex');
  return { secrets: { copyId, privateKeys: keys, nameKey, signer }, clear };
}

function isSecrets(fields: Fields): boolean {
  const { clear, copy, nameKey, privateKeys, signer } = fields;
  return (
    hasOnly(fields, ['clear', 'copy', 'nameKey', 'privateKeys', 'signer']) &&
    [clear, copy, nameKey, signer].every((one) => typeof one === 'string') &&
    /^[0-9a-f]{32}$/.test(String(copy)) &&
    Array.isArray(privateKeys) &&
    privateKeys.length > 0 &&
    privateKeys.length <= MAX_KEYS &&
    privateKeys.every((one) => fromBase64(one, KEY_BYTES) !== undefined)
  );
}

/** An object below `keys/`, which never changes. */
export interface KeyObject {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Public data about a recipient; nothing here is authentic before unwrapping. */
export interface WrappedKeys {
  readonly name: string;
  readonly copyId: Buffer;
  readonly id: string;
  readonly type: RecipientType;
  /** Key ID (hex) of the newest public key whose private half it contains; null if it was written without one. */
  readonly key: string | null;
  /** The owner, for people. */
  readonly label: string | null;
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly cost: ScryptCost | null;
  readonly salt: Buffer;
  readonly wrapped: Buffer;
  /** SHA-256 of the unwrapped fields. */
  readonly clear: string;
}

/** Public details of a new recipient. */
interface RecipientNote {
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly label?: string;
}

const MARK = 'copy key 1';
const DOMAIN = 'mailkeep copy key 1\n';
const SALT_BYTES = 32;
/** Maximum bytes of an object below `keys/`. */
export const MAX_KEY_BYTES = 64 * 1024;
const MAX_LABEL = 200;
const NOTHING = Buffer.alloc(0);

export async function wrapForPassphrase(
  secrets: CopySecrets,
  passphrase: string,
  note: RecipientNote,
  cost: ScryptCost = SCRYPT_COST,
): Promise<KeyObject> {
  const salt = randomBytes(SALT_BYTES);
  const key = await passphraseKey(passphrase, salt, cost);
  const clear = { type: 'passphrase', salt: salt.toString('base64'), ...cost };
  return keyObject(secrets, note, clear, async (text) => encryptOnce(key, text, NOTHING));
}

export async function wrapForRecovery(
  secrets: CopySecrets,
  recovery: Buffer,
  note: RecipientNote,
): Promise<KeyObject> {
  const salt = randomBytes(SALT_BYTES);
  const key = recoveryWrappingKey(recovery, salt);
  const clear = { type: 'recovery', salt: salt.toString('base64') };
  return keyObject(secrets, note, clear, async (text) => encryptOnce(key, text, NOTHING));
}

/**
 * Returns a new recipient for an age recipient.
 *
 * @throws `copy-age-recipient`
 */
export async function wrapForAge(
  secrets: CopySecrets,
  recipient: string,
  note: RecipientNote,
): Promise<KeyObject> {
  return keyObject(secrets, note, { type: 'age' }, (text) => encryptForAge(recipient, text));
}

/** Parses an object below `keys/`. @throws `copy-key-damaged` */
export function readKeyObject({ name, bytes }: KeyObject): WrappedKeys {
  const damaged = (reason: KeyDamage) => offsiteError('copy-key-damaged', { name, reason });
  const fields = readCanonical(bytes, MAX_KEY_BYTES, isFlat);
  const copyId = fromHex(fields?.copy, 16);
  const wrapped = fromBase64(fields?.wrapped);
  if (fields === undefined || copyId === undefined || wrapped === undefined) throw damaged('shape');
  const { label = null, key = null, created, type, id } = fields;
  const isTyped = type === 'passphrase' || type === 'recovery' || type === 'age';
  const isShaped =
    fields.mailkeep === MARK &&
    isCount(created) &&
    (label === null || (typeof label === 'string' && label.length <= MAX_LABEL)) &&
    (key === null || (typeof key === 'string' && fromHex(key, 8) !== undefined)) &&
    isTyped &&
    hasOnly(fields, NAMES[type], ['label', 'key']);
  if (!isShaped) throw damaged('shape');
  if (typeof id !== 'string' || id !== idOfName('keys', name)) throw damaged('name');
  const salt = type === 'age' ? NOTHING : fromBase64(fields.salt, SALT_BYTES);
  if (salt === undefined) throw damaged('shape');
  const cost = type === 'passphrase' ? costOf(fields) : null;
  if (cost !== null && !isAffordable(cost)) throw damaged('cost');
  const clear = clearHash(fields);
  return { name, copyId, id, type, key, label, created, cost, salt, wrapped, clear };
}

/** Returns the secrets. Undefined if the passphrase is wrong. @throws `copy-key-damaged` */
export async function unwrapWithPassphrase(
  keys: WrappedKeys,
  passphrase: string,
): Promise<CopySecrets | undefined> {
  if (keys.cost === null) return undefined;
  const key = await passphraseKey(passphrase, keys.salt, keys.cost);
  return unwrapped(keys, decryptOnce(key, keys.wrapped, NOTHING));
}

/** Returns the secrets. Undefined if the recovery key is wrong. @throws `copy-key-damaged` */
export async function unwrapWithRecovery(
  keys: WrappedKeys,
  recovery: Buffer,
): Promise<CopySecrets | undefined> {
  if (keys.type !== 'recovery') return undefined;
  const key = recoveryWrappingKey(recovery, keys.salt);
  return unwrapped(keys, decryptOnce(key, keys.wrapped, NOTHING));
}

/**
 * Returns the secrets. Undefined if they are for another identity. Anyone who knows an age recipient can make such an
 * object: trust its signer only after comparison with one known from elsewhere.
 *
 * @throws `copy-key-damaged`
 */
async function unwrapWithAge(
  keys: WrappedKeys,
  identities: readonly string[],
): Promise<CopySecrets | undefined> {
  if (keys.type !== 'age') return undefined;
  return unwrapped(keys, await decryptWithAge(identities, keys.wrapped));
}

const ALWAYS = ['mailkeep', 'copy', 'id', 'type', 'created', 'wrapped'];
const NAMES: Readonly<Record<RecipientType, readonly string[]>> = {
  passphrase: [...ALWAYS, 'salt', 'N', 'r', 'p'],
  recovery: [...ALWAYS, 'salt'],
  age: ALWAYS,
};

async function keyObject(
  secrets: CopySecrets,
  { created, label }: RecipientNote,
  more: Fields,
  encrypt: (text: Buffer) => Promise<Buffer>,
): Promise<KeyObject> {
  const { name, id } = recipientName('keys');
  const copy = secrets.copyId.toString('hex');
  const [newest = NOTHING] = secrets.privateKeys;
  const key = keyIdOf(publicKeyOf(newest)).toString('hex');
  const named = label === undefined ? {} : { label: label.slice(0, MAX_LABEL).toWellFormed() };
  const clear = { mailkeep: MARK, copy, id, key, created, ...named, ...more };
  const wrapped = await encrypt(secretsBytes(secrets, clearHash(clear)));
  return { name, bytes: canonicalBytes({ ...clear, wrapped: wrapped.toString('base64') }) };
}

function unwrapped(keys: WrappedKeys, text: Buffer | undefined): CopySecrets | undefined {
  if (text === undefined) return undefined;
  const { name } = keys;
  const read = readSecrets(text);
  if (read === undefined) throw offsiteError('copy-key-damaged', { name, reason: 'shape' });
  const { secrets, clear } = read;
  const isBound = clear === keys.clear && secrets.copyId.equals(keys.copyId);
  if (!isBound) throw offsiteError('copy-key-damaged', { name, reason: 'clear' });
  return secrets;
}

/** Returns the cost; a missing number becomes NaN, which is never affordable. */
function costOf({ N, r, p }: Fields): ScryptCost {
  const number = (value: unknown) => (typeof value === 'number' ? value : Number.NaN);
  return { N: number(N), r: number(r), p: number(p) };
}

/** SHA-256 of all fields except the wrapped one, which repeats it. */
function clearHash(fields: Fields): string {
  const { wrapped: _, ...clear } = fields;
  return hash('sha256', canonicalBytes(clear));
}

/** Returns a key for one text: its salt is random. */
function recoveryWrappingKey(recovery: Buffer, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', recovery, salt, DOMAIN, KEY_BYTES));
}

function isFlat(fields: Fields): boolean {
  return Object.values(fields).every((one) => typeof one === 'string' || typeof one === 'number');
}

/** Size of a recovery key: 128 random bits. */
export const RECOVERY_BYTES = 16;
/** Lines to write down. */
export const RECOVERY_LINES = 4;
const LINE_BYTES = RECOVERY_BYTES / RECOVERY_LINES;
const LINE_CHARACTERS = 8;
/** Crockford's base32: no I, L, O, U. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const MISREAD: Readonly<Record<string, string>> = { I: '1', L: '1', O: '0' };
/** x^8 + x^2 + x + 1 */
const POLYNOMIAL = 0x07;

export function newRecoveryKey(): Buffer {
  return randomBytes(RECOVERY_BYTES);
}

/** Returns a recovery key as four lines to write down. */
export function recoveryLines(key: Buffer): string[] {
  return Array.from(Array(RECOVERY_LINES).keys(), (index) => {
    const data = key.subarray(index * LINE_BYTES, (index + 1) * LINE_BYTES);
    const text = digitsOf(data.readUInt32BE() * 256 + checksum(data, index + 1));
    return `${text.slice(0, 4)}-${text.slice(4)}`;
  });
}

/**
 * Parses a typed recovery key. Ignores case, spaces and hyphens, and also line breaks if no character is missing.
 *
 * @throws `copy-recovery-shape`, `copy-recovery-line`
 */
export function parseRecoveryKey(text: string): Buffer {
  const lines = text.split('\n').map(withoutSeparators);
  const filled = lines.filter((line) => line !== '');
  const joined = filled.join('');
  const isFourLines = filled.length === RECOVERY_LINES;
  if (!isFourLines && joined.length !== RECOVERY_LINES * LINE_CHARACTERS) {
    const characters = joined.length;
    throw offsiteError('copy-recovery-shape', { lines: filled.length, characters });
  }
  const parts = Array.from(Array(RECOVERY_LINES).keys(), (index) => {
    const from = index * LINE_CHARACTERS;
    const line = isFourLines ? filled[index] : joined.slice(from, from + LINE_CHARACTERS);
    return parseRecoveryLine(line ?? '', index + 1);
  });
  return Buffer.concat(parts);
}

/**
 * Returns the four bytes of one line of a recovery key.
 *
 * @param number line number, from 1
 * @throws `copy-recovery-line`
 */
export function parseRecoveryLine(text: string, number: number): Buffer {
  const wrong = (reason: 'length' | 'character' | 'checksum') =>
    offsiteError('copy-recovery-line', { line: number, reason, seems: null });
  const characters = [...withoutSeparators(text)].map((one) => MISREAD[one] ?? one);
  if (characters.length !== LINE_CHARACTERS) throw wrong('length');
  let value = 0;
  for (const one of characters) {
    const digit = DIGITS.indexOf(one);
    if (digit < 0) throw wrong('character');
    value = value * DIGITS.length + digit;
  }
  const data = Buffer.alloc(LINE_BYTES);
  data.writeUInt32BE(Math.floor(value / 256));
  const found = value % 256;
  if (found === checksum(data, number)) return data;
  // Only a guess: one of 64 other mistakes looks the same.
  const seems = [1, 2, 3, 4].find((other) => checksum(data, other) === found) ?? null;
  if (seems === null) throw wrong('checksum');
  throw offsiteError('copy-recovery-line', { line: number, reason: 'order', seems });
}

function withoutSeparators(text: string): string {
  return text.replace(/[\s-]/g, '').toUpperCase();
}

function digitsOf(value: number): string {
  let rest = value;
  let text = '';
  for (let n = 0; n < LINE_CHARACTERS; n += 1) {
    text = `${DIGITS[rest % DIGITS.length]}${text}`;
    rest = Math.floor(rest / DIGITS.length);
  }
  return text;
}

/**
 * Returns a line's CRC-8, which includes its number. Detects every wrong character and every swap, and 255 of 256 other
 * mistakes.
 */
function checksum(data: Buffer, number: number): number {
  let sum = number;
  for (const byte of data) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      sum = (sum & 0x80) === 0 ? sum << 1 : ((sum << 1) ^ POLYNOMIAL) & 0xff;
    }
  }
  return sum;
}

export type Way =
  | { readonly type: 'passphrase'; readonly passphrase: string }
  | { readonly type: 'recovery'; readonly recovery: Buffer }
  | { readonly type: 'age'; readonly identities: readonly string[] };

/** Maximum recipients tried per type: an attacker may have added more to waste time. */
export const MAX_TRIED = 64;

/**
 * Returns the newest secrets that a passphrase, recovery key or identity opens. After a rotation, older matching
 * recipients may exist; they must belong to the same copy.
 *
 * @throws `copy-key-refused` or `copy-key-damaged` if none opens; `copy-keys-differ`
 */
export async function unlock(
  recipients: readonly WrappedKeys[],
  way: Way,
  signal?: AbortSignal,
): Promise<CopySecrets> {
  const fitting = recipients.filter(({ type }) => type === way.type);
  if (fitting.length > MAX_TRIED) {
    throw offsiteError('copy-keys-too-many', { type: way.type, found: fitting.length });
  }
  let damage: unknown;
  let newest: { readonly name: string; readonly secrets: CopySecrets } | undefined;
  for (const keys of fitting) {
    signal?.throwIfAborted();
    let secrets: CopySecrets | undefined;
    try {
      secrets = await unwrapWith(keys, way);
    } catch (error) {
      if (!hasCode(error, 'copy-key-damaged')) throw error;
      damage ??= error;
    }
    if (secrets === undefined) continue;
    if (newest !== undefined && !areOfOneCopy(secrets, newest.secrets)) {
      throw offsiteError('copy-keys-differ', { names: [newest.name, keys.name] });
    }
    const isNewer =
      newest === undefined || secrets.privateKeys.length > newest.secrets.privateKeys.length;
    if (isNewer) newest = { name: keys.name, secrets };
  }
  if (newest !== undefined) return newest.secrets;
  if (damage !== undefined) throw damage;
  throw offsiteError('copy-key-refused', { type: way.type, tried: fitting.length });
}

function unwrapWith(keys: WrappedKeys, way: Way): Promise<CopySecrets | undefined> {
  if (way.type === 'passphrase') return unwrapWithPassphrase(keys, way.passphrase);
  if (way.type === 'recovery') return unwrapWithRecovery(keys, way.recovery);
  return unwrapWithAge(keys, way.identities);
}

/** Returns whether one has all private keys of the other after later ones, and everything else is equal. */
function areOfOneCopy(one: CopySecrets, other: CopySecrets): boolean {
  const [few, many] = [one.privateKeys, other.privateKeys].toSorted((a, b) => a.length - b.length);
  const older = many?.slice(many.length - (few?.length ?? 0)) ?? [];
  return (
    one.copyId.equals(other.copyId) &&
    one.nameKey.equals(other.nameKey) &&
    one.signer.equals(other.signer) &&
    older.every((key, index) => few?.[index]?.equals(key) === true)
  );
}

const SIGNERS_MARK = 'copy signer 1';
const SIGNERS_DOMAIN = 'mailkeep copy signer 1\n';
const SIGNERS_NAMES = ['mailkeep', 'copy', 'id', 'key', 'signer', 'mac'];
export const MAX_SIGNER_BYTES = 4 * 1024;

/**
 * Returns an object that authorises another key to sign manifests of a copy. It needs the newest private key, so later
 * signers need new objects after a rotation.
 *
 * @param signer Ed25519, 32 bytes
 */
export function encodeSigner(secrets: CopySecrets, signer: Buffer): KeyObject {
  const { name, id } = recipientName('signers');
  const [newest = Buffer.alloc(0)] = secrets.privateKeys;
  const fields = {
    mailkeep: SIGNERS_MARK,
    copy: secrets.copyId.toString('hex'),
    id,
    key: keyIdOf(publicKeyOf(newest)).toString('hex'),
    signer: signer.toString('base64'),
  };
  const mac = macOf(newest, fields).toString('hex');
  return { name, bytes: canonicalBytes({ ...fields, mac }) };
}

/**
 * Returns the key (Ed25519, 32 bytes) that an object below `signers/` adds.
 *
 * @throws `copy-signer-damaged`; with reason `older-key`, it was valid before a rotation: ignore it
 */
export function readSigner({ name, bytes }: KeyObject, secrets: CopySecrets): Buffer {
  const damaged = (reason: SignerDamage) => offsiteError('copy-signer-damaged', { name, reason });
  const fields = readCanonical(bytes, MAX_SIGNER_BYTES, isShaped);
  const signer = fromBase64(fields?.signer, KEY_BYTES);
  const mac = fromHex(fields?.mac, 32);
  if (fields === undefined || signer === undefined || mac === undefined) throw damaged('shape');
  if (fields.copy !== secrets.copyId.toString('hex')) throw damaged('other-copy');
  if (fields.id !== idOfName('signers', name)) throw damaged('name');
  const { mac: _, ...signed } = fields;
  const index = secrets.privateKeys.findIndex((key) => timingSafeEqual(macOf(key, signed), mac));
  if (index < 0) throw damaged('mac');
  if (index > 0) throw damaged('older-key');
  return signer;
}

/** Returns a MAC under a key that only readers can derive. */
function macOf(privateKey: Buffer, fields: Fields): Buffer {
  const key = Buffer.from(
    hkdfSync('sha256', privateKey, Buffer.alloc(0), SIGNERS_DOMAIN, KEY_BYTES),
  );
  return createHmac('sha256', key).update(canonicalBytes(fields)).digest();
}

function isShaped(fields: Fields): boolean {
  return (
    hasOnly(fields, SIGNERS_NAMES) &&
    fields.mailkeep === SIGNERS_MARK &&
    Object.values(fields).every((one) => typeof one === 'string')
  );
}
