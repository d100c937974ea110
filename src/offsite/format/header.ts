import { hash, hkdfSync, randomBytes } from 'node:crypto';
import { type ObjectDamage, offsiteError } from '../../errors/offsite.ts';
import { decryptOnce, encryptOnce, TAG_BYTES } from './cipher.ts';
import type { ObjectKind } from './names.ts';
import { KEY_BYTES, newKeyPair, publicKeyOf, sharedSecret } from './raw-keys.ts';

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
export interface ObjectKey {
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
export function readObjectKey(opening: OpeningKey, about: About, header: Buffer): ObjectKey {
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
