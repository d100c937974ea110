import { createPublicKey, type KeyObject, verify } from 'node:crypto';

/** Length of a public or private Ed25519 or X25519 key, in bytes. */
export const KEY_BYTES = 32;

/** Decodes padded canonical base64 (RFC 4648). Returns undefined for any other text or length. */
export function fromBase64(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  const isValid = bytes.toString('base64') === text && (length ?? bytes.length) === bytes.length;
  return isValid ? bytes : undefined;
}

/**
 * Reports whether the bytes were signed with the matching private key.
 * @param publicKey 32 bytes (Ed25519); any other length returns false
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
