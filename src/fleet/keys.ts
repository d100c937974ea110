import { createHash, createPrivateKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { FILE_MODE, FOLDER_MODE } from '../archive/format.ts';
import { decryptOnce, encryptOnce, publicKeyOf } from '../copies/format/sealed-object.ts';
import { LocalKey, rawPublicKey } from '../copies/local-key.ts';
import { KEY_BYTES } from '../core/ed25519.ts';
import { errnoOf } from '../core/errors.ts';
import { makeFoldersDurably, readRegularFile, syncFolder } from '../core/files.ts';
import { fleetError } from './errors.ts';

const LINE = /^([A-Za-z0-9._-]{1,64}) +([0-9a-fA-F]{64})$/;
type Several<Item> = readonly [Item, ...Item[]];

/** The keys of a fleet, by name. The first one encrypts; the others only decrypt what was encrypted before. */
export class FleetKeys {
  readonly #keys: ReadonlyMap<string, Buffer>;

  private constructor(
    /** In the order of the file. */
    readonly names: Several<string>,
    keys: ReadonlyMap<string, Buffer>,
  ) {
    this.#keys = keys;
  }

  /**
   * Reads keys: a name, a space and 64 hexadecimal digits a line. Skips empty lines and comments, which start with `#`.
   *
   * @param source name of the text, for errors
   * @throws fleet-key-invalid
   */
  static parse(text: string, source: string): FleetKeys {
    const invalid = (line: number, problem: 'shape' | 'repeated' | 'none') =>
      fleetError('fleet-key-invalid', { source, line, problem });
    const keys = new Map<string, Buffer>();
    for (const [at, given] of text.split('\n').entries()) {
      const line = given.trim();
      if (line === '' || line.startsWith('#')) continue;
      const [, name, digits] = LINE.exec(line) ?? [];
      if (name === undefined || digits === undefined) throw invalid(at + 1, 'shape');
      if (keys.has(name)) throw invalid(at + 1, 'repeated');
      keys.set(name, Buffer.from(digits, 'hex'));
    }
    const [first, ...others] = keys.keys();
    if (first === undefined) throw invalid(0, 'none');
    return new FleetKeys([first, ...others], keys);
  }

  /** The name of the key that encrypts. */
  get current(): string {
    return this.names[0];
  }

  /**
   * Derives a key of 32 bytes from the key of a name (HKDF-SHA256, RFC 5869). Undefined if the file does not have it.
   *
   * @param use each use has keys of its own
   */
  derive(name: string, use: string, salt: string | Buffer = ''): Buffer | undefined {
    const key = this.#keys.get(name);
    return key && Buffer.from(hkdfSync('sha256', key, salt, use, KEY_BYTES));
  }

  /** Derives a key from each key, in the order of the file. */
  deriveAll(use: string, salt = ''): Several<Buffer> {
    const derived = (name: string) => this.derive(name, use, salt) ?? Buffer.alloc(0);
    const [first, ...others] = this.names;
    return [derived(first), ...others.map(derived)];
  }

  /** Derives a key from the oldest key of the file, which all nodes have while a key is added. */
  deriveOldest(use: string, salt = ''): Buffer {
    const [first, ...others] = this.deriveAll(use, salt);
    return others.at(-1) ?? first;
  }
}

/** Bytes. Thousands of keys need less. */
const MAX_FILE_BYTES = 1 << 20;

/** @throws fleet-key-file-unreadable, fleet-key-invalid */
export function readFleetKeys(file: string): FleetKeys {
  return FleetKeys.parse(readKeyText(file), file);
}

function readKeyText(file: string): string {
  try {
    return readRegularFile(file, MAX_FILE_BYTES).toString('utf8');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetError('fleet-key-file-unreadable', { file, reason }, error);
  }
}

function convertErrors<Result>(file: string, write: () => Result): Result {
  try {
    return write();
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetError('fleet-key-file-unwritable', { file, reason }, error);
  }
}

function keyLine(name: string): string {
  return `${name} ${randomBytes(KEY_BYTES).toString('hex')}\n`;
}

/**
 * Makes a file with one new key, which only its owner can read. A file that exists is never replaced.
 *
 * @throws fleet-key-file-unwritable, with the reason EEXIST if there is a file
 */
export function makeKeyFile(file: string): FleetKeys {
  const temporary = `${file}.${randomBytes(8).toString('hex')}.tmp`;
  convertErrors(file, () => {
    makeFoldersDurably(path.dirname(file), FOLDER_MODE);
    // Each file names its key differently: two that were made by mistake can be told apart.
    const text = keyLine(`key-${randomBytes(4).toString('hex')}`);
    try {
      writeFileSync(temporary, text, { mode: FILE_MODE, flag: 'wx', flush: true });
      // The file is complete once it has its name, which it gets only if the name is free.
      linkSync(temporary, file);
    } finally {
      rmSync(temporary, { force: true });
    }
    syncFolder(path.dirname(file));
  });
  return readFleetKeys(file);
}

/**
 * Makes a new key the first one of a file, which encrypts from then on. The file is replaced as a whole, and keeps owner and
 * mode. Does nothing if the key of that name is the first one already.
 *
 * @returns whether a key was added
 * @throws fleet-key-exists, fleet-key-file-busy, fleet-key-file-unreadable, fleet-key-file-unwritable, fleet-key-invalid
 */
export function addKey(link: string, name: string): boolean {
  return convertErrors(link, () => {
    // What a link leads to is replaced, never the link.
    const file = existsSync(link) ? realpathSync(link) : link;
    const temporary = `${file}.new`;
    const opened = openExclusively(file, temporary);
    let isDone = false;
    try {
      // From here on nobody else changes the file: a key that another process adds would be lost.
      const text = readKeyText(file);
      const keys = FleetKeys.parse(text, file);
      if (keys.current === name) return false;
      if (keys.names.includes(name)) throw fleetError('fleet-key-exists', { file, name });
      const { mode, uid, gid } = statSync(file);
      const made = statSync(temporary);
      if (made.uid !== uid || made.gid !== gid) fchownSync(opened, uid, gid);
      fchmodSync(opened, mode & 0o777);
      writeFileSync(opened, `${keyLine(name)}${text}`, { flush: true });
      renameSync(temporary, file);
      isDone = true;
      syncFolder(path.dirname(file));
      return true;
    } finally {
      closeSync(opened);
      if (!isDone) rmSync(temporary, { force: true });
    }
  });
}

function openExclusively(file: string, temporary: string): number {
  try {
    return openSync(temporary, 'wx', FILE_MODE);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw fleetError('fleet-key-file-busy', { file, temporary });
  }
}

/** Whose secret it is. Both are authenticated, so that a secret counts in its place only. */
interface SecretOwner {
  /** UUID of the fleet. */
  readonly fleet: string;
  /** An account or a shard, such as `account 7`. */
  readonly owner: string;
}

/** A secret, encrypted by a key that is not in the registry. */
export interface SealedSecret {
  /** Such as `token`. Authenticated as well. */
  readonly purpose: string;
  readonly keyId: string;
  /** Random, and different for each version of the secret. */
  readonly nonce: Buffer;
  readonly sealed: Buffer;
}

const SECRET = 'mailkeep fleet secret 1';

/** Encrypts a secret by a key that is derived from the current key and 256 random bits (AES-256-GCM, NIST SP 800-38D). */
export function sealSecret(
  keys: FleetKeys,
  owner: SecretOwner,
  purpose: string,
  secret: string,
): SealedSecret {
  const keyId = keys.current;
  const nonce = randomBytes(KEY_BYTES);
  const key = keys.derive(keyId, SECRET, nonce) ?? Buffer.alloc(0);
  const sealed = encryptOnce(key, Buffer.from(secret, 'utf8'), boundTo(owner, purpose));
  return { purpose, keyId, nonce, sealed };
}

/** @throws fleet-key-unknown, fleet-secret-damaged */
export function openSecret(keys: FleetKeys, owner: SecretOwner, secret: SealedSecret): string {
  const { purpose, keyId, nonce, sealed } = secret;
  const facts = { owner: owner.owner, purpose, keyId };
  const key = keys.derive(keyId, SECRET, nonce);
  if (key === undefined) throw fleetError('fleet-key-unknown', facts);
  const text = decryptOnce(key, sealed, boundTo(owner, purpose));
  if (text === undefined) throw fleetError('fleet-secret-damaged', facts);
  return text.toString('utf8');
}

/** JSON, so that no two places have the same bytes. */
function boundTo({ fleet, owner }: SecretOwner, purpose: string): Buffer {
  return Buffer.from(JSON.stringify([fleet, owner, purpose]));
}

/** DER encoding that precedes the 32 bytes of an Ed25519 private key (RFC 8410). */
const ED25519_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** @param seed 32 bytes */
export function ed25519Key(seed: Buffer): KeyObject {
  const key = Buffer.concat([ED25519_PREFIX, seed]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/** Keys of a shard's copy in the bucket. */
export interface ShardKeys {
  readonly key: LocalKey;
  readonly signingKey: KeyObject;
}

/**
 * Derives the keys of a shard from those of the fleet, so that the key file is enough to open the bucket. The first key of
 * the file seals and signs, all of them open and are trusted. The last one names objects: without it, everything is
 * uploaded again.
 *
 * @param fleet UUID of the fleet
 * @param to address of the bucket and prefix
 */
export function shardKeys(keys: FleetKeys, fleet: string, shard: number, to: string): ShardKeys {
  const use = (name: string) => `mailkeep fleet shard 1\n${shard}\n${name}`;
  const [signingKey, ...earlier] = keys.deriveAll(use('signer'), fleet).map(ed25519Key);
  const privateKeys = keys.deriveAll(use('copy'), fleet);
  if (signingKey === undefined) throw new TypeError('a fleet has at least one key');
  const copyId = createHash('sha256').update(`mailkeep fleet shard 1\n${fleet}\n${shard}\n`);
  return {
    key: new LocalKey({
      copyId: copyId.digest('hex').slice(0, 32),
      to,
      publicKey: publicKeyOf(privateKeys[0]),
      nameKey: keys.deriveOldest(use('names'), fleet),
      privateKeys,
      signers: [signingKey, ...earlier].map((key) => rawPublicKey(key)),
    }),
    signingKey,
  };
}
