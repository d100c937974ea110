import { createPublicKey, type KeyObject } from 'node:crypto';

/** Returns the 32 bytes of the public half of an Ed25519 key. */
export function rawPublicKey(key: KeyObject): Buffer {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' });
  return Buffer.from(x, 'base64url');
}
