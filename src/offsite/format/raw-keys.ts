import {
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';

/** Bytes of a public or private key of X25519. */
export const KEY_BYTES = 32;
/** What stands before the 32 bytes in DER (RFC 8410). */
const PUBLIC_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');

/** A key pair of X25519, as the 32 bytes each. */
export interface KeyPair {
  readonly publicKey: Buffer;
  readonly privateKey: Buffer;
}

/** Returns a new key pair of X25519. */
export function newKeyPair(): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('x25519');
  return {
    publicKey: rawPublic(publicKey),
    privateKey: privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(PRIVATE_PREFIX.length),
  };
}

/** Returns the public key of a private key. */
export function publicKeyOf(privateKey: Buffer): Buffer {
  return rawPublic(createPublicKey(privateObject(privateKey)));
}

/** Returns the secret that two key pairs share, or undefined if the public key is one that shares none (RFC 7748, 6.1). */
export function sharedSecret(privateKey: Buffer, publicKey: Buffer): Buffer | undefined {
  try {
    return diffieHellman({
      privateKey: privateObject(privateKey),
      publicKey: createPublicKey({
        key: Buffer.concat([PUBLIC_PREFIX, publicKey]),
        format: 'der',
        type: 'spki',
      }),
    });
  } catch {
    // A point of small order: whatever used it, it was no key of ours.
    return undefined;
  }
}

function privateObject(raw: Buffer): KeyObject {
  const key = Buffer.concat([PRIVATE_PREFIX, raw]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

function rawPublic(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' }).subarray(PUBLIC_PREFIX.length);
}
