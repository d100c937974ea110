import { hkdfSync, randomBytes } from 'node:crypto';
import { decryptOnce, encryptOnce } from './format/cipher.ts';
import { KEY_BYTES, newKeyPair, publicKeyOf } from './format/raw-keys.ts';

/**
 * The key pair that a rotation is about to switch to. Its private half is encrypted under the private key before it, so
 * that a machine that may only write cannot read it either. An interrupted rotation continues with the same pair: two
 * recipients of the same person would contradict each other otherwise.
 */
export interface NextKey {
  /** X25519, 32 bytes. */
  readonly publicKey: Buffer;
  /** 32 random bytes: the wrapping key is used once. */
  readonly salt: Buffer;
  /** The private key, encrypted. */
  readonly wrapped: Buffer;
  /** Ids of recipients that were to be written for it, in runs that may not have ended. */
  readonly made: readonly string[];
}

const INFO = 'mailkeep copy next key 1\n';

/** Returns a new pair, wrapped under the private key that it is to replace. */
export function newNextKey(copyId: string, privateKey: Buffer): NextKey {
  const { publicKey, privateKey: next } = newKeyPair();
  const salt = randomBytes(KEY_BYTES);
  const wrapped = encryptOnce(wrappingKey(copyId, privateKey, salt), next, publicKey);
  return { publicKey, salt, wrapped, made: [] };
}

/** Returns the private half, or undefined if it was not wrapped under this private key. */
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
