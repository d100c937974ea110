import { createPublicKey, type KeyObject, verify } from 'node:crypto';

/**
 * Returns whether the key's private half signed the bytes.
 * @param publicKey 32 bytes (Ed25519); false for any other length
 */
export function isSignedBy(publicKey: Buffer, bytes: Buffer, signature: Buffer): boolean {
  const x = publicKey.toString('base64url');
  let key: KeyObject;
  try {
    key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  } catch {
    // Not 32 bytes.
    return false;
  }
  return verify(null, bytes, key, signature);
}
