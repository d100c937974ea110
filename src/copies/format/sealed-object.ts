import {
  type CipherGCM,
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, parseJson } from '../../archive/format.ts';
import { fromBase64, isSignedBy, KEY_BYTES } from '../../core/ed25519.ts';
import { split } from '../../core/streams.ts';
import { type ObjectDamage, offsiteError } from './errors.ts';
import type { ObjectKind } from './manifest.ts';

const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const ALGORITHM = 'aes-256-gcm';
/** Nonce for keys that encrypt a single text. */
const ONLY_NONCE = Buffer.alloc(NONCE_BYTES);

/** All encryption takes place here. Never use the same key and nonce twice. */
function encryption(key: Buffer, nonce: Buffer, bound: Buffer): CipherGCM {
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  return cipher.setAAD(bound);
}

/** Returns the cipher for a chunk. Each key belongs to a single object, so it encrypts each index only once. */
export function chunkEncryption(key: Buffer, index: number, last: boolean, bound: Buffer) {
  return encryption(key, chunkNonce(index, last), bound);
}

/** Encrypts the only text that a key is used for. Appends the tag. */
export function encryptOnce(key: Buffer, text: Uint8Array, bound: Buffer): Buffer {
  const cipher = encryption(key, ONLY_NONCE, bound);
  return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

/** Reverses `encryptOnce`. Returns undefined if the bytes are not authentic. */
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
    // The only possible failure is a wrong tag.
    return undefined;
  }
  return text;
}

/** An 11-byte counter, then a byte that is 1 in the last chunk, so chunks cannot be omitted, moved or added. */
function chunkNonce(index: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntLE(index, 0, 6);
  nonce[NONCE_BYTES - 1] = last ? 1 : 0;
  return nonce;
}

/** DER encoding that precedes the 32 key bytes (RFC 8410). */
const PUBLIC_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');

export function newKeyPair() {
  const { publicKey, privateKey } = generateKeyPairSync('x25519');
  return {
    publicKey: rawPublic(publicKey),
    privateKey: privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(PRIVATE_PREFIX.length),
  };
}

export function publicKeyOf(privateKey: Buffer): Buffer {
  return rawPublic(createPublicKey(privateObject(privateKey)));
}

/** Returns undefined for a public key of small order (RFC 7748, 6.1). None of our keys has one. */
function sharedSecret(privateKey: Buffer, publicKey: Buffer): Buffer | undefined {
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

/** A writer's keys, which cannot open what they have sealed. */
export interface SealingKey {
  /** 16 bytes. */
  readonly copyId: Buffer;
  /** X25519 key, 32 bytes. */
  readonly publicKey: Buffer;
}

export interface OpeningKey {
  /** 16 bytes. */
  readonly copyId: Buffer;
  /** X25519 keys, 32 bytes each, newest first. Rotations add keys. */
  readonly privateKeys: readonly Buffer[];
}

/** Kind and name of an object, to which its encryption is bound. */
export interface ObjectIdentity {
  readonly kind: ObjectKind;
  readonly name: string;
}

const MAGIC = Buffer.from('894d4b43', 'hex');
const VERSION = 1;
const KINDS: Readonly<Record<ObjectKind, number>> = {
  segment: 1,
  tail: 2,
  manifest: 3,
  settings: 4,
  snapshot: 5,
  state: 6,
};
/** Offsets of the header's fields; see the table in docs/copy-format.md. */
const AT = { version: 4, kind: 5, zeros: 6, copyId: 8, keyId: 24, ephemeral: 32, wrapped: 64 };
export const HEADER_BYTES = AT.wrapped + KEY_BYTES + TAG_BYTES;
const DOMAIN = Buffer.from('mailkeep copy 1\n', 'utf8');
const NOTHING = Buffer.alloc(0);

/** An object's header, and the key for its chunks. */
interface ObjectKey {
  readonly header: Buffer;
  /** AES-256 key for this object only. */
  readonly key: Buffer;
  /** SHA-256 of the header, to which every chunk is bound. */
  readonly bound: Buffer;
}

/** Returns the ID of a copy's public key, the first 8 bytes of its SHA-256. */
export function keyIdOf(publicKey: Buffer): Buffer {
  return hash('sha256', publicKey, 'buffer').subarray(0, 8);
}

/** Returns the ID (hex) of the key that an object was encrypted for, from its header. */
export function keyIdIn(sealed: Buffer): string {
  return sealed.subarray(AT.keyId, AT.ephemeral).toString('hex');
}

export function newObjectKey({ copyId, publicKey }: SealingKey, about: ObjectIdentity): ObjectKey {
  const key = randomBytes(KEY_BYTES);
  const ephemeral = newKeyPair();
  const wrapping = wrappingKey(ephemeral.privateKey, publicKey, {
    ...{ ephemeral: ephemeral.publicKey, recipient: publicKey, copyId, about },
  });
  if (wrapping === undefined) throw new Error('the public key of the copy is no key of X25519');
  const header = Buffer.alloc(HEADER_BYTES);
  MAGIC.copy(header);
  header[AT.version] = VERSION;
  header[AT.kind] = KINDS[about.kind];
  copyId.copy(header, AT.copyId);
  keyIdOf(publicKey).copy(header, AT.keyId);
  ephemeral.publicKey.copy(header, AT.ephemeral);
  encryptOnce(wrapping, key, NOTHING).copy(header, AT.wrapped);
  return { header, key, bound: boundTo(header) };
}

/**
 * Returns the key for an object, given its header.
 * @throws `copy-object-damaged`, `copy-key-unknown`
 */
function readObjectKey(opening: OpeningKey, about: ObjectIdentity, header: Buffer): ObjectKey {
  const { name } = about;
  const damaged = (reason: ObjectDamage) => offsiteError('copy-object-damaged', { name, reason });
  const copyId = header.subarray(AT.copyId, AT.keyId);
  const keyId = header.subarray(AT.keyId, AT.ephemeral);
  const isOurs =
    header.subarray(0, AT.version).equals(MAGIC) &&
    header[AT.version] === VERSION &&
    header.readUInt16LE(AT.zeros) === 0;
  if (!isOurs) throw damaged('header');
  if (!copyId.equals(opening.copyId)) throw damaged('other-copy');
  if (header[AT.kind] !== KINDS[about.kind]) throw damaged('other-kind');
  let isKnown = false;
  for (const privateKey of opening.privateKeys) {
    const recipient = publicKeyOf(privateKey);
    const isNamed = keyIdOf(recipient).equals(keyId);
    const key = unwrap(privateKey, recipient, about, header);
    // It opens even though the header specifies another key, so the header must have been changed.
    if (key !== undefined && !isNamed) throw damaged('header');
    if (key !== undefined) return { header, key, bound: boundTo(header) };
    isKnown ||= isNamed;
  }
  if (isKnown) throw damaged('key');
  throw offsiteError('copy-key-unknown', { name, keyId: keyId.toString('hex') });
}

function unwrap(
  privateKey: Buffer,
  recipient: Buffer,
  about: ObjectIdentity,
  header: Buffer,
): Buffer | undefined {
  const ephemeral = header.subarray(AT.ephemeral, AT.wrapped);
  const copyId = header.subarray(AT.copyId, AT.keyId);
  const wrapping = wrappingKey(privateKey, ephemeral, { ephemeral, recipient, copyId, about });
  return wrapping === undefined
    ? undefined
    : decryptOnce(wrapping, header.subarray(AT.wrapped), NOTHING);
}

/** Returns the key that encrypts one object's key. It is used once, like the ephemeral key. */
function wrappingKey(
  privateKey: Buffer,
  publicKey: Buffer,
  context: {
    readonly ephemeral: Buffer;
    readonly recipient: Buffer;
    readonly copyId: Buffer;
    readonly about: ObjectIdentity;
  },
): Buffer | undefined {
  const shared = sharedSecret(privateKey, publicKey);
  if (shared === undefined) return undefined;
  const { ephemeral, recipient, copyId, about } = context;
  const salt = Buffer.concat([ephemeral, recipient]);
  const kind = Buffer.of(KINDS[about.kind]);
  const info = Buffer.concat([DOMAIN, copyId, kind, Buffer.from(about.name, 'utf8')]);
  return Buffer.from(hkdfSync('sha256', shared, salt, info, KEY_BYTES));
}

function boundTo(header: Buffer): Buffer {
  return hash('sha256', header, 'buffer');
}

/** Length of all chunks except the last. */
export const CHUNK_BYTES = 1024 * 1024;
/** Length of the field before the content, which contains the content's length. */
const LENGTH_BYTES = 8;
const PADDED_TO = 64 * 1024;
const ZEROS = Buffer.alloc(PADDED_TO);

/** Returns the length of content with its length field and padding. */
function framedLength(length: number): number {
  return Math.ceil((LENGTH_BYTES + length) / PADDED_TO) * PADDED_TO;
}

/** Returns the length of a sealed object. Without a key, this is the only clue to the length of its content. */
export function sealedLength(length: number): number {
  const framed = framedLength(length);
  return HEADER_BYTES + framed + Math.ceil(framed / CHUNK_BYTES) * TAG_BYTES;
}

interface Sealed {
  readonly length: number;
  /** Readable only once. A retry must seal the content again, with a new key. */
  readonly bytes: AsyncIterable<Buffer>;
  /** Returns the SHA-256 of all bytes in hexadecimal. Available after they have been read. */
  readonly sha256: () => string;
}

/**
 * Seals bytes for a copy, as a stream. Closes `plain` if the reader stops early.
 * @param length of `plain`; `bytes` throws `copy-source-changed` if it differs
 */
export function seal(
  sealing: SealingKey,
  about: ObjectIdentity,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): Sealed {
  const digest = createHash('sha256');
  let hex: string | undefined;
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const piece of encrypt(sealing, about, length, plain)) {
      digest.update(piece);
      yield piece;
    }
    hex = digest.digest('hex');
  }
  const sha256 = () => {
    if (hex === undefined) throw new Error(`${about.name} is not sealed yet`);
    return hex;
  };
  return { length: sealedLength(length), bytes: bytes(), sha256 };
}

async function* encrypt(
  sealing: SealingKey,
  about: ObjectIdentity,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const { header, key, bound } = newObjectKey(sealing, about);
  yield header;
  let index = 0;
  for await (const { bytes, isLast } of split(frame(about.name, length, plain), CHUNK_BYTES)) {
    const cipher = chunkEncryption(key, index, isLast, bound);
    yield cipher.update(bytes);
    cipher.final();
    yield cipher.getAuthTag();
    index += 1;
  }
}

async function* frame(
  name: string,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const header = Buffer.alloc(LENGTH_BYTES);
  header.writeBigUInt64LE(BigInt(length));
  yield header;
  let total = 0;
  for await (const piece of plain) {
    total += piece.length;
    if (total > length) break;
    yield piece;
  }
  if (total !== length)
    throw offsiteError('copy-source-changed', { name, announced: length, found: total });
  yield ZEROS.subarray(0, framedLength(length) - LENGTH_BYTES - length);
}

/**
 * Opens an object of a copy. Yields only authentic bytes, which are complete only if the stream ends without an error.
 * Does not prove who sealed the object, so compare its SHA-256 with the manifest's.
 * @throws `copy-object-damaged`, `copy-key-unknown`
 */
export async function* open(
  opening: OpeningKey,
  about: ObjectIdentity,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const chunks = split(sealed, CHUNK_BYTES + TAG_BYTES, HEADER_BYTES);
  let object: ObjectKey | undefined;
  let index = 0;
  // Remaining bytes of content, and of framed content, according to the length in the first chunk.
  let [contentLeft, framedLeft] = [0, 0];
  for await (const { bytes, isLast } of chunks) {
    if (object === undefined) {
      if (bytes.length < HEADER_BYTES) throw damaged(about, 'cut');
      object = readObjectKey(opening, about, Buffer.from(bytes));
      if (isLast) throw damaged(about, 'chunk');
      continue;
    }
    const text = openChunk(object, about, index, bytes, isLast);
    let from = 0;
    if (index === 0) {
      from = LENGTH_BYTES;
      const length = text.length < from ? -1n : text.readBigUInt64LE();
      if (length < 0n || length > Number.MAX_SAFE_INTEGER) throw damaged(about, 'frame');
      contentLeft = Number(length);
      framedLeft = framedLength(contentLeft);
    }
    framedLeft -= text.length;
    if (framedLeft < 0 || (framedLeft === 0) !== isLast) throw damaged(about, 'frame');
    const content = text.subarray(from, from + contentLeft);
    const padding = text.subarray(from + content.length);
    if (!padding.equals(ZEROS.subarray(0, padding.length))) throw damaged(about, 'frame');
    contentLeft -= content.length;
    index += 1;
    yield content;
  }
  if (object === undefined) throw damaged(about, 'cut');
}

function openChunk(
  { key, bound }: ObjectKey,
  about: ObjectIdentity,
  index: number,
  sealed: Buffer,
  isLast: boolean,
): Buffer {
  const decrypt = (asLast: boolean) => decryption(key, chunkNonce(index, asLast), bound, sealed);
  const text = decrypt(isLast);
  if (text !== undefined) return text;
  // The chunk is damaged either way. This only determines how.
  if (decrypt(!isLast) === undefined) throw damaged(about, 'chunk');
  throw damaged(about, isLast ? 'cut' : 'appended');
}

function damaged({ name }: ObjectIdentity, reason: ObjectDamage) {
  return offsiteError('copy-object-damaged', { name, reason });
}

export function base64(length?: number) {
  return z.codec(z.string(), z.instanceof(Buffer), {
    decode(text, { issues }) {
      const bytes = fromBase64(text, length);
      if (bytes === undefined) issues.push({ code: 'custom', input: text });
      return bytes ?? Buffer.alloc(0);
    },
    encode: (bytes) => bytes.toString('base64'),
  });
}

/** Returns a schema for a number of bytes in lower-case hexadecimal. */
export function hexText(bytes: number) {
  return z
    .string()
    .length(2 * bytes)
    .regex(/^[0-9a-f]*$/);
}

export function hex(length: number) {
  return z.codec(hexText(length), z.instanceof(Buffer), {
    decode: (text) => Buffer.from(text, 'hex'),
    encode: (bytes) => bytes.toString('hex'),
  });
}

/**
 * Parses canonical JSON, so that no byte can change unnoticed. Returns undefined if the bytes exceed `most`, do not
 * match the schema or are not canonical.
 */
export function readCanonical<S extends z.ZodType>(
  schema: S,
  bytes: Buffer,
  most: number,
): z.output<S> | undefined {
  if (bytes.length > most) return undefined;
  const { success, data } = schema.safeParse(parseJson(bytes.toString('utf8')));
  return success && encodeCanonical(schema, data).equals(bytes) ? data : undefined;
}

/** Encodes an object as canonical JSON in UTF-8. */
export function encodeCanonical<S extends z.ZodType>(schema: S, value: z.output<S>): Buffer {
  return canonicalBytes(z.encode(schema, value));
}

export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** Signs bytes (Ed25519, 64 bytes). */
export type Sign = (bytes: Buffer) => Buffer;

/** Maximum size of `mailkeep-copy`, in bytes. */
export const MAX_FILE_BYTES = 4 * 1024;
const MARK = 'copy 1';
const COPY_FILE_DOMAIN = Buffer.from('mailkeep copy file 1\n', 'utf8');

const signedFile = z.strictObject({
  mailkeep: z.literal(MARK),
  copy: hex(16),
  /** X25519. */
  publicKey: base64(KEY_BYTES),
  /** Ed25519. */
  signer: base64(KEY_BYTES),
});
const copyFile = signedFile.extend({ signature: base64(64) });
/** Matches the output of all versions. */
const anyCopyFile = z.record(z.string(), z.string());

/** Content of the object `mailkeep-copy`. Anyone with write access can replace it, so no key is taken from it. */
interface CopyFile {
  readonly copyId: Buffer;
  readonly publicKey: Buffer;
  readonly signer: Buffer;
}

export function encodeCopyFile({ copyId, publicKey, signer }: CopyFile, sign: Sign): Buffer {
  const fields = { mailkeep: MARK, copy: copyId, publicKey, signer } as const;
  const signature = sign(signedBytes(encodeCanonical(signedFile, fields)));
  return encodeCanonical(copyFile, { ...fields, signature });
}

/**
 * Parses the object. Its signature proves that it is intact, but not who wrote it.
 * @throws `copy-file-damaged`
 */
export function decodeCopyFile(bytes: Buffer): CopyFile {
  const damaged = (reason: 'shape' | 'signature' | 'newer', found: string | null = null) =>
    offsiteError('copy-file-damaged', { reason, found });
  const fields = readCanonical(anyCopyFile, bytes, MAX_FILE_BYTES);
  if (fields === undefined) throw damaged('shape');
  const { mailkeep = '' } = fields;
  if (mailkeep !== MARK) {
    // A flipped bit can turn our version into another.
    if (isSigned({ ...fields, mailkeep: MARK }) || !/^copy [1-9]\d{0,9}$/.test(mailkeep)) {
      throw damaged('shape');
    }
    throw damaged('newer', mailkeep);
  }
  const file = copyFile.safeParse(fields).data;
  if (file === undefined) throw damaged('shape');
  if (!isSigned(fields)) throw damaged('signature');
  return { copyId: file.copy, publicKey: file.publicKey, signer: file.signer };
}

function isSigned({ signature = '', ...signed }: z.output<typeof anyCopyFile>): boolean {
  const signer = fromBase64(signed.signer ?? '', KEY_BYTES);
  const bytes = fromBase64(signature, 64);
  if (signer === undefined || bytes === undefined) return false;
  return isSignedBy(signer, signedBytes(canonicalBytes(signed)), bytes);
}

function signedBytes(text: Buffer): Buffer {
  return Buffer.concat([COPY_FILE_DOMAIN, text]);
}
