import { createHmac, hash, hkdfSync, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { z } from 'zod';
import { isCount } from '../../archive/format.ts';
import { KEY_BYTES } from '../../core/ed25519.ts';
import { hasCode } from '../../core/errors.ts';
import { type KeyDamage, offsiteError, type SignerDamage } from './errors.ts';
import { idOfName, recipientName } from './manifest.ts';
import {
  base64,
  canonicalBytes,
  decryptOnce,
  encodeCanonical,
  encryptOnce,
  hex,
  hexText,
  keyIdOf,
  newKeyPair,
  publicKeyOf,
  readCanonical,
} from './sealed-object.ts';

/** Loaded on demand, because most copies have no age recipients. */
const library = () => import('age-encryption');

const IDENTITY = /^AGE-SECRET-KEY-/i;

/** Encrypts text as an age file (age-encryption.org/v1). @throws `copy-age-recipient` */
async function encryptForAge(recipient: string, text: Buffer): Promise<Buffer> {
  const { Encrypter } = await library();
  const encrypter = new Encrypter();
  try {
    encrypter.addRecipient(recipient);
  } catch {
    // The user may have entered the secret half, and the library's message may quote it.
    const isSecret = /AGE-SECRET-KEY-/i.test(recipient);
    const found = isSecret ? 'AGE-SECRET-KEY-…' : recipient;
    throw offsiteError('copy-age-recipient', { found });
  }
  return Buffer.from(await encrypter.encrypt(text));
}

/** Returns undefined if no identity opens the file. */
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
    // The library does not distinguish between a wrong identity and damage.
    return undefined;
  }
}

/**
 * Returns the identities in a file from `age-keygen`, which has one per line and can contain comments.
 * @throws `copy-age-identity` with the number of the first invalid line, never its text
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
    // The message is dropped, because it may quote the key.
    return false;
  }
}

/** Parameters of scrypt (RFC 7914). */
interface ScryptCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** Needs 128 MiB and a few tenths of a second. */
export const SCRYPT_COST: ScryptCost = { N: 2 ** 17, r: 8, p: 1 };
/** Upper limit for parameters from an untrusted source. Needs 1 GiB. */
const LARGEST: ScryptCost = { N: 2 ** 20, r: 8, p: 4 };
const SMALLEST_N = 2 ** 10;

const derive = promisify<Buffer, Buffer, number, object, Buffer>(scrypt);

function isAffordable(cost: Readonly<Record<keyof ScryptCost, unknown>>): cost is ScryptCost {
  const isWithin = (value: unknown, min: number, max: number): value is number =>
    isCount(value) && value >= min && value <= max;
  const { N, r, p } = cost;
  const isPower = isWithin(N, SMALLEST_N, LARGEST.N) && Math.log2(N) % 1 === 0;
  return isPower && isWithin(r, 1, LARGEST.r) && isWithin(p, 1, LARGEST.p);
}

/** Derives 32 bytes from a salt and a passphrase, after NFC normalisation. Runs on a pool thread. */
async function passphraseKey(
  passphrase: string,
  salt: Buffer,
  { N, r, p }: ScryptCost,
): Promise<Buffer> {
  const maxmem = 128 * r * (N + p + 2) + 1024 * 1024;
  return derive(Buffer.from(passphrase.normalize('NFC'), 'utf8'), salt, 32, { N, r, p, maxmem });
}

/** Secrets that every recipient can open. They are all that is needed to read and trust a copy. */
export interface CopySecrets {
  readonly copyId: Buffer;
  /** Newest first. Rotations add keys, so that one recipient object opens everything. */
  readonly privateKeys: readonly Buffer[];
  readonly nameKey: Buffer;
  /** Ed25519 key of the copy's creator, whose manifests are trusted. */
  readonly signer: Buffer;
}

/** Maximum number of private keys for a copy, which limits its rotations. */
export const MAX_KEYS = 100;
const MAX_BYTES = 16 * 1024;

/** Returns a public ID, an X25519 pair and a key for names. Writers need only the public half of the pair. */
export function newCopyKeys() {
  return { copyId: randomBytes(16), ...newKeyPair(), nameKey: randomBytes(KEY_BYTES) };
}

const secretFields = z.strictObject({
  /** SHA-256 of the object's unencrypted part, to which the secrets are bound. */
  clear: z.string(),
  copy: hex(16),
  nameKey: base64(KEY_BYTES),
  privateKeys: z.array(base64(KEY_BYTES)).min(1).max(MAX_KEYS),
  signer: base64(KEY_BYTES),
});

/** A small object with a random name. Never changes once stored. */
export interface KeyObject {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Public data about a recipient. Not authenticated until it is unwrapped. */
export type WrappedKeys = ReturnType<typeof readKeyObject>;

interface RecipientNote {
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly label?: string;
}

const MARK = 'copy key 1';
const DOMAIN = 'mailkeep copy key 1\n';
const SALT_BYTES = 32;
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

/** @throws `copy-age-recipient` */
export async function wrapForAge(
  secrets: CopySecrets,
  recipient: string,
  note: RecipientNote,
): Promise<KeyObject> {
  return keyObject(secrets, note, { type: 'age' }, (text) => encryptForAge(recipient, text));
}

const clearFields = {
  mailkeep: z.literal(MARK),
  copy: hex(16),
  id: z.string(),
  /** ID of the newest public key whose private half is included. Early versions omitted it. */
  key: hexText(8).optional(),
  label: z.string().max(MAX_LABEL).optional(),
  /** Milliseconds since 1970. */
  created: z.custom<number>(isCount),
  wrapped: base64(),
};
const salt = base64(SALT_BYTES);
/** The range is checked by `isAffordable`, which reports its own reason. */
const costNumber = z.union([z.number(), z.string()]);
const keyFields = z.discriminatedUnion('type', [
  z.strictObject({
    ...{ ...clearFields, salt },
    type: z.literal('passphrase'),
    ...{ N: costNumber, r: costNumber, p: costNumber },
  }),
  z.strictObject({ ...clearFields, salt, type: z.literal('recovery') }),
  z.strictObject({ ...clearFields, type: z.literal('age') }),
]);

/** Parses an object under `keys/`. @throws `copy-key-damaged` */
export function readKeyObject({ name, bytes }: KeyObject) {
  const damaged = (reason: KeyDamage) => offsiteError('copy-key-damaged', { name, reason });
  const fields = readCanonical(keyFields, bytes, MAX_KEY_BYTES);
  if (fields === undefined) throw damaged('shape');
  const { copy: copyId, id, type, key = null, label = null, created, wrapped } = fields;
  if (id !== idOfName('keys', name)) throw damaged('name');
  const cost = type === 'passphrase' ? { N: fields.N, r: fields.r, p: fields.p } : null;
  if (cost !== null && !isAffordable(cost)) throw damaged('cost');
  const clear = clearHash(z.encode(keyFields, fields));
  const salt = type === 'age' ? NOTHING : fields.salt;
  return { name, copyId, id, type, key, label, created, cost, salt, wrapped, clear };
}

async function keyObject(
  secrets: CopySecrets,
  { created, label }: RecipientNote,
  more: object,
  encrypt: (text: Buffer) => Promise<Buffer>,
): Promise<KeyObject> {
  const { name, id } = recipientName('keys');
  const { copyId, ...rest } = secrets;
  const [newest = NOTHING] = secrets.privateKeys;
  const key = keyIdOf(publicKeyOf(newest)).toString('hex');
  const note = label === undefined ? {} : { label: label.slice(0, MAX_LABEL).toWellFormed() };
  const fields = { mailkeep: MARK, copy: copyId.toString('hex'), id, key, created };
  const clear = { ...fields, ...note, ...more };
  const { privateKeys, ...keys } = rest;
  const bound = { ...keys, privateKeys: [...privateKeys], copy: copyId, clear: clearHash(clear) };
  const wrapped = await encrypt(encodeCanonical(secretFields, bound));
  return { name, bytes: canonicalBytes({ ...clear, wrapped: wrapped.toString('base64') }) };
}

function unwrap(keys: WrappedKeys, text: Buffer | undefined): CopySecrets | undefined {
  if (text === undefined) return undefined;
  const damaged = (reason: KeyDamage) =>
    offsiteError('copy-key-damaged', { name: keys.name, reason });
  const fields = readCanonical(secretFields, text, MAX_BYTES);
  if (fields === undefined) throw damaged('shape');
  const { copy: copyId, clear, ...secrets } = fields;
  if (clear !== keys.clear || !copyId.equals(keys.copyId)) throw damaged('clear');
  return { copyId, ...secrets };
}

/** Returns the SHA-256 of all fields except the wrapped one, which contains it. */
function clearHash({ wrapped: _, ...clear }: Readonly<Record<string, unknown>>): string {
  return hash('sha256', canonicalBytes(clear));
}

/** The random salt makes each wrapping key unique. */
function recoveryWrappingKey(recovery: Buffer, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', recovery, salt, DOMAIN, KEY_BYTES));
}

export const RECOVERY_BYTES = 16;
export const RECOVERY_LINES = 4;
const LINE_BYTES = RECOVERY_BYTES / RECOVERY_LINES;
const LINE_CHARACTERS = 8;
/** Digits of Crockford's base32, which omits I, L, O and U. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const MISREAD: Readonly<Record<string, string>> = { I: '1', L: '1', O: '0' };
/** Polynomial of the CRC-8: x^8 + x^2 + x + 1. */
const POLYNOMIAL = 0x07;

export function newRecoveryKey(): Buffer {
  return randomBytes(RECOVERY_BYTES);
}

/** Formats a recovery key as four lines for the owner to write down. */
export function recoveryLines(key: Buffer): string[] {
  return Array.from(Array(RECOVERY_LINES).keys(), (index) => {
    const data = key.subarray(index * LINE_BYTES, (index + 1) * LINE_BYTES);
    const text = digitsOf(data.readUInt32BE() * 256 + checksum(data, index + 1));
    return `${text.slice(0, 4)}-${text.slice(4)}`;
  });
}

/**
 * Parses a recovery key as typed. Ignores case, spaces and hyphens. Also ignores line breaks if no character is
 * missing.
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

/** Parses one line of a recovery key. Line numbers start at 1. @throws `copy-recovery-line` */
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
  // Only a guess: one in 64 other mistakes looks the same.
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

/** Detects every wrong character, every swap and 255 out of 256 other mistakes. */
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

export type UnlockMethod =
  | { readonly type: 'passphrase'; readonly passphrase: string }
  | { readonly type: 'recovery'; readonly recovery: Buffer }
  | { readonly type: 'age'; readonly identities: readonly string[] };

/** Maximum number of recipients of each type to try. An attacker can add many to waste time. */
export const MAX_TRIED = 64;

/**
 * Returns the newest secrets that a passphrase, recovery key or identity opens. After a rotation, it can also open
 * older recipients, which must belong to the same copy.
 * @throws `copy-key-refused` or `copy-key-damaged` if none can be opened; `copy-keys-differ`
 */
export async function unlock(
  recipients: readonly WrappedKeys[],
  way: UnlockMethod,
  signal?: AbortSignal,
): Promise<CopySecrets> {
  const matches = recipients.filter(({ type }) => type === way.type);
  if (matches.length > MAX_TRIED) {
    throw offsiteError('copy-keys-too-many', { type: way.type, found: matches.length });
  }
  let damage: unknown;
  let newest: { readonly name: string; readonly secrets: CopySecrets } | undefined;
  for (const keys of matches) {
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
  throw offsiteError('copy-key-refused', { type: way.type, tried: matches.length });
}

/**
 * Returns undefined if the keys are for another passphrase, recovery key or identity. Anyone who knows an age recipient
 * can create such an object, so its signer must be compared with one obtained from elsewhere.
 * @throws `copy-key-damaged`
 */
export async function unwrapWith(
  keys: WrappedKeys,
  way: UnlockMethod,
): Promise<CopySecrets | undefined> {
  if (keys.type !== way.type) return undefined;
  if (way.type === 'age') return unwrap(keys, await decryptWithAge(way.identities, keys.wrapped));
  const key =
    way.type === 'recovery'
      ? recoveryWrappingKey(way.recovery, keys.salt)
      : keys.cost && (await passphraseKey(way.passphrase, keys.salt, keys.cost));
  return key === null ? undefined : unwrap(keys, decryptOnce(key, keys.wrapped, NOTHING));
}

/** Returns whether two sets of secrets are the same, apart from newer private keys. */
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

const SIGNERS_DOMAIN = 'mailkeep copy signer 1\n';
export const MAX_SIGNER_BYTES = 4 * 1024;

const authorisedFields = z.strictObject({
  mailkeep: z.literal('copy signer 1'),
  copy: z.string(),
  id: z.string(),
  key: z.string(),
  signer: base64(KEY_BYTES),
});
const signerFields = authorisedFields.extend({ mac: hex(32) });

/**
 * Returns an object that authorises another Ed25519 key to sign the copy's manifests. It is bound to the newest private
 * key, so later signers need new objects after a rotation.
 */
export function encodeSigner(secrets: CopySecrets, signer: Buffer): KeyObject {
  const { name, id } = recipientName('signers');
  const [newest = NOTHING] = secrets.privateKeys;
  const fields = {
    mailkeep: 'copy signer 1',
    copy: secrets.copyId.toString('hex'),
    id,
    key: keyIdOf(publicKeyOf(newest)).toString('hex'),
    signer,
  } as const;
  return { name, bytes: encodeCanonical(signerFields, { ...fields, mac: macOf(newest, fields) }) };
}

/**
 * Returns the Ed25519 key that an object under `signers/` authorises.
 * @throws `copy-signer-damaged`; with reason `older-key`, it was valid before a rotation and can be ignored
 */
export function readSigner({ name, bytes }: KeyObject, secrets: CopySecrets): Buffer {
  const damaged = (reason: SignerDamage) => offsiteError('copy-signer-damaged', { name, reason });
  const fields = readCanonical(signerFields, bytes, MAX_SIGNER_BYTES);
  if (fields === undefined) throw damaged('shape');
  if (fields.copy !== secrets.copyId.toString('hex')) throw damaged('other-copy');
  if (fields.id !== idOfName('signers', name)) throw damaged('name');
  const { mac, ...signed } = fields;
  const index = secrets.privateKeys.findIndex((key) => timingSafeEqual(macOf(key, signed), mac));
  if (index < 0) throw damaged('mac');
  if (index > 0) throw damaged('older-key');
  return signed.signer;
}

/** Returns a MAC whose key only readers of the copy can derive. */
function macOf(privateKey: Buffer, fields: z.output<typeof authorisedFields>): Buffer {
  const key = hkdfSync('sha256', privateKey, NOTHING, SIGNERS_DOMAIN, KEY_BYTES);
  const text = encodeCanonical(authorisedFields, fields);
  return createHmac('sha256', Buffer.from(key)).update(text).digest();
}
