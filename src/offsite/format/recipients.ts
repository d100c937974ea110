import { hash, hkdfSync, randomBytes } from 'node:crypto';
import { isCount } from '../../archive/format/json-shape.ts';
import { type KeyDamage, offsiteError, type RecipientType } from '../../errors/offsite.ts';
import { decryptWithAge, encryptForAge } from './age.ts';
import {
  canonicalBytes,
  type Fields,
  fromBase64,
  fromHex,
  hasOnly,
  readCanonical,
} from './canonical.ts';
import { decryptOnce, encryptOnce } from './cipher.ts';
import { keyIdOf } from './header.ts';
import { idOfName, recipientName } from './names.ts';
import { KEY_BYTES, publicKeyOf } from './raw-keys.ts';
import { isAffordable, passphraseKey, SCRYPT_COST, type ScryptCost } from './scrypt.ts';
import { type CopySecrets, readSecrets, secretsBytes } from './secrets.ts';

/** An object below `keys/`, which never changes. */
export interface KeyObject {
  readonly name: string;
  readonly bytes: Buffer;
}

/** What people may know of a recipient; nothing here is authentic before it was unwrapped. */
export interface WrappedKeys {
  readonly name: string;
  readonly copyId: Buffer;
  readonly id: string;
  readonly type: RecipientType;
  /** Key id (hex) of the newest public key whose private half is in it; null if it was written without. */
  readonly key: string | null;
  /** For people: whose it is. */
  readonly label: string | null;
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly cost: ScryptCost | null;
  readonly salt: Buffer;
  readonly wrapped: Buffer;
  /** SHA-256 of all that is not wrapped. */
  readonly clear: string;
}

/** What people may say about a new recipient. */
export interface RecipientNote {
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly label?: string;
}

const MARK = 'copy key 1';
const DOMAIN = 'mailkeep copy key 1\n';
const SALT_BYTES = 32;
/** Bytes of an object below `keys/`, and of a label in it. */
export const MOST_KEY_BYTES = 64 * 1024;
const MOST_LABEL = 200;
const NOTHING = Buffer.alloc(0);

/** Returns a new recipient that opens with a passphrase. */
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

/** Returns a new recipient that opens with a recovery key. */
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
 * Returns a new recipient that opens with the identity of an age recipient.
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

/** Returns what an object below `keys/` says. @throws `copy-key-damaged` */
export function readKeyObject({ name, bytes }: KeyObject): WrappedKeys {
  const damaged = (reason: KeyDamage) => offsiteError('copy-key-damaged', { name, reason });
  const fields = readCanonical(bytes, MOST_KEY_BYTES, isFlat);
  const copyId = fromHex(fields?.copy, 16);
  const wrapped = fromBase64(fields?.wrapped);
  if (fields === undefined || copyId === undefined || wrapped === undefined) throw damaged('shape');
  const { label = null, key = null, created, type, id } = fields;
  const isTyped = type === 'passphrase' || type === 'recovery' || type === 'age';
  const isShaped =
    fields.mailkeep === MARK &&
    isCount(created) &&
    (label === null || (typeof label === 'string' && label.length <= MOST_LABEL)) &&
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

/** Returns the secrets, or undefined if the passphrase is another one. @throws `copy-key-damaged` */
export async function unwrapWithPassphrase(
  keys: WrappedKeys,
  passphrase: string,
): Promise<CopySecrets | undefined> {
  if (keys.cost === null) return undefined;
  const key = await passphraseKey(passphrase, keys.salt, keys.cost);
  return unwrapped(keys, decryptOnce(key, keys.wrapped, NOTHING));
}

/** Returns the secrets, or undefined if the recovery key is another one. @throws `copy-key-damaged` */
export async function unwrapWithRecovery(
  keys: WrappedKeys,
  recovery: Buffer,
): Promise<CopySecrets | undefined> {
  if (keys.type !== 'recovery') return undefined;
  const key = recoveryWrappingKey(recovery, keys.salt);
  return unwrapped(keys, decryptOnce(key, keys.wrapped, NOTHING));
}

/**
 * Returns the secrets, or undefined if they are for another identity. Anybody who knows an age recipient can make such an
 * object: the signer in it is to be trusted only if it is compared with one that is known from elsewhere.
 *
 * @throws `copy-key-damaged`
 */
export async function unwrapWithAge(
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
  const named = label === undefined ? {} : { label: label.slice(0, MOST_LABEL).toWellFormed() };
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

/** What is no number is no cost that anybody can afford. */
function costOf({ N, r, p }: Fields): ScryptCost {
  const number = (value: unknown) => (typeof value === 'number' ? value : Number.NaN);
  return { N: number(N), r: number(r), p: number(p) };
}

/** SHA-256 of all fields but the wrapped one, which the wrapped text repeats. */
function clearHash(fields: Fields): string {
  const { wrapped: _, ...clear } = fields;
  return hash('sha256', canonicalBytes(clear));
}

/** A key that encrypts one text: its salt is random. */
function recoveryWrappingKey(recovery: Buffer, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', recovery, salt, DOMAIN, KEY_BYTES));
}

function isFlat(fields: Fields): boolean {
  return Object.values(fields).every((one) => typeof one === 'string' || typeof one === 'number');
}
