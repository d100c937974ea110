import { type CipherGCM, createCipheriv, createDecipheriv } from 'node:crypto';

/** Bytes that authenticate a text, after it. */
export const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const ALGORITHM = 'aes-256-gcm';
/** Only for keys that encrypt one text in their life. */
const ONLY_NONCE = Buffer.alloc(NONCE_BYTES);

/**
 * Returns AES-256-GCM that encrypts under a key and a nonce, which must never meet again. Everything that is encrypted
 * for a copy goes through here.
 */
function encryption(key: Buffer, nonce: Buffer, bound: Buffer): CipherGCM {
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  return cipher.setAAD(bound);
}

/** Returns the cipher of a chunk. A key has each chunk once: it is made for one object. */
export function chunkEncryption(key: Buffer, index: number, last: boolean, bound: Buffer) {
  return encryption(key, chunkNonce(index, last), bound);
}

/** Encrypts the one text that a key is made for; returns it with the tag after it. */
export function encryptOnce(key: Buffer, text: Uint8Array, bound: Buffer): Buffer {
  const cipher = encryption(key, ONLY_NONCE, bound);
  return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

/** Returns the text of a chunk that is followed by its tag, or undefined if it is not authentic. */
export function decryptChunk(
  key: Buffer,
  index: number,
  last: boolean,
  bound: Buffer,
  sealed: Buffer,
): Buffer | undefined {
  return decryption(key, chunkNonce(index, last), bound, sealed);
}

/** Returns what `encryptOnce` encrypted, or undefined if it is not authentic. */
export function decryptOnce(key: Buffer, sealed: Buffer, bound: Buffer): Buffer | undefined {
  return decryption(key, ONLY_NONCE, bound, sealed);
}

function decryption(key: Buffer, nonce: Buffer, bound: Buffer, sealed: Buffer): Buffer | undefined {
  const end = sealed.length - TAG_BYTES;
  if (end < 0) return undefined;
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(bound).setAuthTag(sealed.subarray(end));
  const text = decipher.update(sealed.subarray(0, end));
  try {
    decipher.final();
  } catch {
    // The only thing that can fail here is the comparison of tags; callers report what it means for them.
    return undefined;
  }
  return text;
}

/** 11 bytes of a counter and one that is 1 in the last chunk, so that no chunk can be left out, moved or added. */
function chunkNonce(index: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntLE(index, 0, 6);
  nonce[NONCE_BYTES - 1] = last ? 1 : 0;
  return nonce;
}
