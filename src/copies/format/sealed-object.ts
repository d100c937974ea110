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
import { canonicalJson, isObject, parseJson } from '../../archive/format.ts';
import { isSignedBy } from '../../core/ed25519.ts';
import { type ObjectDamage, offsiteError } from './errors.ts';
import type { ObjectKind } from './manifest.ts';

/** Bytes that authenticate a text, after it. */
const TAG_BYTES = 16;
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
function decryptChunk(
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

/** Bytes of a public or private key of X25519. */
export const KEY_BYTES = 32;
/** What stands before the 32 bytes in DER (RFC 8410). */
const PUBLIC_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');

/** A key pair of X25519, as the 32 bytes each. */
interface KeyPair {
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

/** What a writer needs. It cannot open what it sealed. */
export interface SealingKey {
  /** 16 bytes. */
  readonly copyId: Buffer;
  /** X25519, 32 bytes. */
  readonly publicKey: Buffer;
}

/** What a reader needs. */
export interface OpeningKey {
  /** 16 bytes. */
  readonly copyId: Buffer;
  /** X25519, 32 bytes each, the newest first: several after a rotation. */
  readonly privateKeys: readonly Buffer[];
}

/** What an object is for. It is bound to both: under another name or as another kind it does not open. */
export interface About {
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
};
/** Where the fields of a header begin; docs/copy-format.md has the table. */
const AT = { version: 4, kind: 5, zeros: 6, copyId: 8, keyId: 24, ephemeral: 32, wrapped: 64 };
/** Bytes of the header that an object begins with. */
export const HEADER_BYTES = AT.wrapped + KEY_BYTES + TAG_BYTES;
const DOMAIN = Buffer.from('mailkeep copy 1\n', 'utf8');
const NOTHING = Buffer.alloc(0);

/** A header, and what its chunks are encrypted with. */
interface ObjectKey {
  readonly header: Buffer;
  /** AES-256; of this object only. */
  readonly key: Buffer;
  /** SHA-256 of the header, which every chunk is bound to. */
  readonly bound: Buffer;
}

/** Returns the id of a public key of a copy: the first 8 bytes of its SHA-256. */
export function keyIdOf(publicKey: Buffer): Buffer {
  return hash('sha256', publicKey, 'buffer').subarray(0, 8);
}

/** Returns the id (hex) of the key that an object was encrypted for, by its header. */
export function keyIdIn(sealed: Buffer): string {
  return sealed.subarray(AT.keyId, AT.ephemeral).toString('hex');
}

/** Returns the header of a new object, with a fresh key of its own. */
export function newObjectKey({ copyId, publicKey }: SealingKey, about: About): ObjectKey {
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
 * Returns the key of the object that begins with a header.
 *
 * @throws `copy-object-damaged`, `copy-key-unknown`
 */
function readObjectKey(opening: OpeningKey, about: About, header: Buffer): ObjectKey {
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
  let known = false;
  for (const privateKey of opening.privateKeys) {
    const recipient = publicKeyOf(privateKey);
    const isNamed = keyIdOf(recipient).equals(keyId);
    const key = unwrapped(privateKey, recipient, about, header);
    // It opens, but the header names another key: the name was changed.
    if (key !== undefined && !isNamed) throw damaged('header');
    if (key !== undefined) return { header, key, bound: boundTo(header) };
    known ||= isNamed;
  }
  if (known) throw damaged('key');
  throw offsiteError('copy-key-unknown', { name, keyId: keyId.toString('hex') });
}

function unwrapped(
  privateKey: Buffer,
  recipient: Buffer,
  about: About,
  header: Buffer,
): Buffer | undefined {
  const ephemeral = header.subarray(AT.ephemeral, AT.wrapped);
  const copyId = header.subarray(AT.copyId, AT.keyId);
  const wrapping = wrappingKey(privateKey, ephemeral, { ephemeral, recipient, copyId, about });
  return wrapping === undefined
    ? undefined
    : decryptOnce(wrapping, header.subarray(AT.wrapped), NOTHING);
}

/** The key that encrypts the key of one object, and nothing else: the ephemeral key is used once. */
function wrappingKey(
  privateKey: Buffer,
  publicKey: Buffer,
  context: {
    readonly ephemeral: Buffer;
    readonly recipient: Buffer;
    readonly copyId: Buffer;
    readonly about: About;
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

/** Bytes of text in every chunk but the last. */
export const CHUNK_BYTES = 1024 * 1024;
/** The length, before the bytes themselves. */
const LENGTH_BYTES = 8;
const PADDED_TO = 64 * 1024;
/** Padding is cut from here. */
const ZEROS = Buffer.alloc(PADDED_TO);

/** Returns the length of bytes with their length before them and zeros after them. */
function framedLength(length: number): number {
  return Math.ceil((LENGTH_BYTES + length) / PADDED_TO) * PADDED_TO;
}

/** Returns the length of the object that bytes of a length become: the only thing that is known of them without a key. */
export function sealedLength(length: number): number {
  const framed = framedLength(length);
  return HEADER_BYTES + framed + Math.ceil(framed / CHUNK_BYTES) * TAG_BYTES;
}

/** An object on its way. */
interface Sealed {
  readonly length: number;
  /** Once only: a second attempt is sealed again, with a new key. */
  readonly bytes: AsyncIterable<Buffer>;
  /** Returns the SHA-256 of all bytes in hexadecimal, once they ended. */
  readonly sha256: () => string;
}

/**
 * Seals bytes for a copy, without keeping them: pieces are encrypted as they come. Closes `plain` if the reader leaves.
 *
 * @param length of `plain`; `bytes` throws `copy-source-changed` if there are more or fewer
 */
export function seal(
  sealing: SealingKey,
  about: About,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): Sealed {
  const digest = createHash('sha256');
  let hex: string | undefined;
  async function* bytes(): AsyncGenerator<Buffer> {
    for await (const piece of encrypted(sealing, about, length, plain)) {
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

async function* encrypted(
  sealing: SealingKey,
  about: About,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const { header, key, bound } = newObjectKey(sealing, about);
  yield header;
  let left = framedLength(length);
  const chunkAt = (index: number) => {
    const last = left <= CHUNK_BYTES;
    return { cipher: chunkEncryption(key, index, last, bound), left: last ? left : CHUNK_BYTES };
  };
  let index = 0;
  let chunk = chunkAt(index);
  for await (const piece of framed(about.name, length, plain)) {
    for (let at = 0; at < piece.length; ) {
      const part = piece.subarray(at, at + chunk.left);
      yield chunk.cipher.update(part);
      at += part.length;
      left -= part.length;
      chunk.left -= part.length;
      if (chunk.left > 0) continue;
      chunk.cipher.final();
      yield chunk.cipher.getAuthTag();
      index += 1;
      if (left > 0) chunk = chunkAt(index);
    }
  }
}

async function* framed(
  name: string,
  length: number,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const before = Buffer.alloc(LENGTH_BYTES);
  before.writeBigUInt64LE(BigInt(length));
  yield before;
  let found = 0;
  for await (const piece of plain) {
    found += piece.length;
    if (found > length) break;
    yield piece;
  }
  if (found !== length)
    throw offsiteError('copy-source-changed', { name, announced: length, found });
  yield ZEROS.subarray(0, framedLength(length) - LENGTH_BYTES - length);
}

/**
 * Opens an object of a copy. Yields authentic bytes only, but the last of them come before the end was seen: until it
 * ended without an error, the object may be cut. That it opens does not show who sealed it: compare its SHA-256 with the
 * manifest's.
 *
 * @throws `copy-object-damaged`, `copy-key-unknown`
 */
export async function* open(
  opening: OpeningKey,
  about: About,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const header = Buffer.alloc(HEADER_BYTES);
  let headed = 0;
  let chunks: Chunks | undefined;
  for await (const piece of sealed) {
    let at = 0;
    if (chunks === undefined) {
      at = Math.min(piece.length, HEADER_BYTES - headed);
      header.set(piece.subarray(0, at), headed);
      headed += at;
      if (headed < HEADER_BYTES) continue;
      chunks = new Chunks(opening, about, header);
    }
    while (at < piece.length) {
      // More follows a full chunk, so it is not the last one.
      if (chunks.isFull) yield chunks.opened(false);
      at += chunks.fill(piece, at);
    }
  }
  if (chunks === undefined) throw damaged(about, 'cut');
  yield chunks.opened(true);
}

/** One chunk after the other of an object, in one buffer. */
class Chunks {
  readonly #about: About;
  readonly #key: Buffer;
  readonly #bound: Buffer;
  readonly #buffer = Buffer.allocUnsafe(CHUNK_BYTES + TAG_BYTES);
  #filled = 0;
  #index = 0;
  /** Bytes that the first chunk announces, and those with their frame; of both, those not seen yet. */
  #contentLeft = 0;
  #framedLeft = 0;

  constructor(opening: OpeningKey, about: About, header: Buffer) {
    const { key, bound } = readObjectKey(opening, about, header);
    this.#about = about;
    this.#key = key;
    this.#bound = bound;
  }

  get isFull(): boolean {
    return this.#filled === this.#buffer.length;
  }

  /** Returns how many bytes of a piece, from an offset on, were taken. */
  fill(piece: Uint8Array, at: number): number {
    const part = piece.subarray(at, at + this.#buffer.length - this.#filled);
    this.#buffer.set(part, this.#filled);
    this.#filled += part.length;
    return part.length;
  }

  /** Returns the content of the chunk, and empties the buffer. */
  opened(last: boolean): Buffer {
    const text = this.#decrypted(last);
    let from = 0;
    if (this.#index === 0) {
      from = LENGTH_BYTES;
      const length = text.length < from ? -1n : text.readBigUInt64LE();
      if (length < 0n || length > Number.MAX_SAFE_INTEGER) throw damaged(this.#about, 'frame');
      this.#contentLeft = Number(length);
      this.#framedLeft = framedLength(this.#contentLeft);
    }
    this.#framedLeft -= text.length;
    if (this.#framedLeft < 0 || (this.#framedLeft === 0) !== last)
      throw damaged(this.#about, 'frame');
    const content = text.subarray(from, from + this.#contentLeft);
    const padding = text.subarray(from + content.length);
    if (!padding.equals(ZEROS.subarray(0, padding.length))) throw damaged(this.#about, 'frame');
    this.#contentLeft -= content.length;
    this.#index += 1;
    this.#filled = 0;
    return content;
  }

  #decrypted(last: boolean): Buffer {
    const sealed = this.#buffer.subarray(0, this.#filled);
    const decrypt = (asLast: boolean) =>
      decryptChunk(this.#key, this.#index, asLast, this.#bound, sealed);
    const text = decrypt(last);
    if (text !== undefined) return text;
    // For the reason only: it is damaged in any case.
    if (decrypt(!last) === undefined) throw damaged(this.#about, 'chunk');
    throw damaged(this.#about, last ? 'cut' : 'appended');
  }
}

function damaged({ name }: About, reason: ObjectDamage) {
  return offsiteError('copy-object-damaged', { name, reason });
}

/** Fields of a JSON object that are not checked yet. */
export type Fields = Readonly<Record<string, unknown>>;

/**
 * Returns the object that canonical JSON describes, or undefined for other bytes: longer than `most`, no JSON, or the
 * same content written in another way, so that no byte can change without a trace. `isShaped` sees it first, because
 * writing it again takes a stack as deep as it is nested.
 */
export function readCanonical(
  bytes: Buffer,
  most: number,
  isShaped: (fields: Fields) => boolean,
): Fields | undefined {
  if (bytes.length > most) return undefined;
  const value = parseJson(bytes.toString('utf8'));
  if (!isObject(value) || !isShaped(value)) return undefined;
  return canonicalBytes(value).equals(bytes) ? value : undefined;
}

/** Returns canonical JSON in UTF-8. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** True if there are no other fields than these, and all that are not optional. */
export function hasOnly(
  fields: Fields,
  names: readonly string[],
  optional: readonly string[] = [],
): boolean {
  return (
    names.every((name) => Object.hasOwn(fields, name)) &&
    Object.keys(fields).every((name) => names.includes(name) || optional.includes(name))
  );
}

/** Returns the bytes of canonical base64 (RFC 4648, padded), or undefined if they are others or of another length. */
export function fromBase64(value: unknown, length?: number): Buffer | undefined {
  if (typeof value !== 'string') return undefined;
  const bytes = Buffer.from(value, 'base64');
  if (length !== undefined && bytes.length !== length) return undefined;
  return bytes.toString('base64') === value ? bytes : undefined;
}

/** Returns the bytes of lower-case hexadecimal digits, or undefined. */
export function fromHex(value: unknown, length: number): Buffer | undefined {
  if (typeof value !== 'string' || value.length !== 2 * length) return undefined;
  const bytes = Buffer.from(value, 'hex');
  return bytes.toString('hex') === value ? bytes : undefined;
}

/** What the object `mailkeep-copy` says. Whoever can write to the place can replace it: no key is taken from it. */
interface CopyFile {
  readonly copyId: Buffer;
  /** X25519, 32 bytes. */
  readonly publicKey: Buffer;
  /** Ed25519, 32 bytes. */
  readonly signer: Buffer;
}

/** Returns the signature (Ed25519, 64 bytes) of bytes. */
export type Sign = (bytes: Buffer) => Buffer;

/** Bytes of the object `mailkeep-copy`. */
export const MOST_FILE_BYTES = 4 * 1024;
const MARK = 'copy 1';
const COPY_FILE_DOMAIN = Buffer.from('mailkeep copy file 1\n', 'utf8');
const NAMES = ['mailkeep', 'copy', 'publicKey', 'signer', 'signature'];

/** Returns the object that describes a copy to people. */
export function encodeCopyFile({ copyId, publicKey, signer }: CopyFile, sign: Sign): Buffer {
  const fields = {
    mailkeep: MARK,
    copy: copyId.toString('hex'),
    publicKey: publicKey.toString('base64'),
    signer: signer.toString('base64'),
  };
  const signature = sign(signedBytes(fields)).toString('base64');
  return canonicalBytes({ ...fields, signature });
}

/**
 * Returns what the object says. Its signature shows that it is intact, not who made it.
 *
 * @throws `copy-file-damaged`
 */
export function decodeCopyFile(bytes: Buffer): CopyFile {
  const damaged = (reason: 'shape' | 'signature' | 'newer') =>
    offsiteError('copy-file-damaged', { reason, found: null });
  const fields = readCanonical(bytes, MOST_FILE_BYTES, isFlat);
  if (fields === undefined) throw damaged('shape');
  const { mailkeep } = fields;
  if (mailkeep !== MARK) {
    const found = /^copy [1-9]\d{0,9}$/.exec(String(mailkeep))?.[0];
    // One flipped bit makes another number of ours.
    if (found === undefined || isSigned({ ...fields, mailkeep: MARK })) throw damaged('shape');
    throw offsiteError('copy-file-damaged', { reason: 'newer', found });
  }
  const copyId = fromHex(fields.copy, 16);
  const publicKey = fromBase64(fields.publicKey, KEY_BYTES);
  const signer = fromBase64(fields.signer, KEY_BYTES);
  const isWhole = copyId !== undefined && publicKey !== undefined && signer !== undefined;
  if (!isWhole || !hasOnly(fields, NAMES)) throw damaged('shape');
  if (!isSigned(fields)) throw damaged('signature');
  return { copyId, publicKey, signer };
}

function isSigned({ signature, ...signed }: Fields): boolean {
  const signer = fromBase64(signed.signer, KEY_BYTES);
  const made = fromBase64(signature, 64);
  if (signer === undefined || made === undefined) return false;
  return isSignedBy(signer, signedBytes(signed), made);
}

function signedBytes(fields: Fields): Buffer {
  return Buffer.concat([COPY_FILE_DOMAIN, canonicalBytes(fields)]);
}

function isFlat(fields: Fields): boolean {
  return Object.values(fields).every((one) => typeof one === 'string');
}
