import { randomBytes } from 'node:crypto';
import { canonicalBytes, type Fields, fromBase64, hasOnly, readCanonical } from './canonical.ts';
import { KEY_BYTES, newKeyPair } from './raw-keys.ts';

/** What a new copy is made with. */
export interface CopyKeys {
  /** 16 random bytes; public. */
  readonly copyId: Buffer;
  /** X25519; a writer needs it. */
  readonly publicKey: Buffer;
  /** X25519; only a reader needs it. */
  readonly privateKey: Buffer;
  /** 32 random bytes: names of objects are made with it. */
  readonly nameKey: Buffer;
}

/** What every recipient of a copy can read: all that is needed to read the copy and to trust what it says. */
export interface CopySecrets {
  readonly copyId: Buffer;
  /** The newest first; several after a rotation, so that one recipient object is enough. */
  readonly privateKeys: readonly Buffer[];
  readonly nameKey: Buffer;
  /** Ed25519, 32 bytes: the key whose manifests are believed. */
  readonly signer: Buffer;
}

/** Private keys of a copy, so many rotations back. */
export const MOST_KEYS = 100;
const MOST_BYTES = 16 * 1024;

/** Returns the keys of a new copy. */
export function newCopyKeys(): CopyKeys {
  return { copyId: randomBytes(16), ...newKeyPair(), nameKey: randomBytes(KEY_BYTES) };
}

/** Returns secrets as they are wrapped, bound to the object that they are wrapped in. */
export function secretsBytes(secrets: CopySecrets, clear: string): Buffer {
  const { copyId, privateKeys, nameKey, signer } = secrets;
  return canonicalBytes({
    clear,
    copy: copyId.toString('hex'),
    nameKey: nameKey.toString('base64'),
    privateKeys: privateKeys.map((key) => key.toString('base64')),
    signer: signer.toString('base64'),
  });
}

/** Returns secrets and what they are bound to, or undefined if the bytes are none. */
export function readSecrets(
  bytes: Buffer,
): { readonly secrets: CopySecrets; readonly clear: string } | undefined {
  const fields = readCanonical(bytes, MOST_BYTES, isShaped);
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

function isShaped(fields: Fields): boolean {
  const { clear, copy, nameKey, privateKeys, signer } = fields;
  return (
    hasOnly(fields, ['clear', 'copy', 'nameKey', 'privateKeys', 'signer']) &&
    [clear, copy, nameKey, signer].every((one) => typeof one === 'string') &&
    /^[0-9a-f]{32}$/.test(String(copy)) &&
    Array.isArray(privateKeys) &&
    privateKeys.length > 0 &&
    privateKeys.length <= MOST_KEYS &&
    privateKeys.every((one) => fromBase64(one, KEY_BYTES) !== undefined)
  );
}
