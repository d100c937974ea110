import { createPublicKey, type KeyObject, verify } from 'node:crypto';

/**
 * True if a signature of bytes was made with the private half of a key.
 *
 * @param publicKey 32 bytes of Ed25519; with others nothing is signed
 */
export function isSignedBy(publicKey: Buffer, bytes: Buffer, signature: Buffer): boolean {
  const x = publicKey.toString('base64url');
  let key: KeyObject;
  try {
    key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  } catch {
    // Not 32 bytes: whatever signed this, it was no key.
    return false;
  }
  return verify(null, bytes, key, signature);
}
