import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { fleetKeyError } from './errors.ts';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const LINE = /^([A-Za-z0-9._-]{1,64}) +([0-9a-fA-F]{64})$/;

/** The keys of a fleet, by name. The first one encrypts; the others only decrypt what was encrypted before. */
export class FleetKeys {
  readonly #keys: ReadonlyMap<string, Buffer>;
  readonly #first: string;

  private constructor(keys: ReadonlyMap<string, Buffer>, first: string) {
    this.#keys = keys;
    this.#first = first;
  }

  /**
   * Reads keys: a name, a space and 64 hexadecimal digits a line. Skips empty lines and comments, which start with `#`.
   *
   * @param source where the text is from, for errors
   * @throws fleet-key-invalid
   */
  static parse(text: string, source: string): FleetKeys {
    const keys = new Map<string, Buffer>();
    let first: string | undefined;
    for (const [at, given] of text.split('\n').entries()) {
      const line = given.trim();
      if (line === '' || line.startsWith('#')) continue;
      const [, name, digits] = LINE.exec(line) ?? [];
      const where = { source, line: at + 1 };
      if (name === undefined || digits === undefined) {
        throw fleetKeyError('fleet-key-invalid', { ...where, problem: 'shape' });
      }
      if (keys.has(name))
        throw fleetKeyError('fleet-key-invalid', { ...where, problem: 'repeated' });
      keys.set(name, Buffer.from(digits, 'hex'));
      first ??= name;
    }
    if (first === undefined) {
      throw fleetKeyError('fleet-key-invalid', { source, line: 0, problem: 'none' });
    }
    return new FleetKeys(keys, first);
  }

  /** The name of the key that encrypts. */
  get current(): string {
    return this.#first;
  }

  /** The names of all keys, the one that encrypts first. */
  get names(): readonly string[] {
    return [...this.#keys.keys()];
  }

  /** Returns the key of a name: 32 bytes. Undefined if it is not there. */
  key(name: string): Buffer | undefined {
    return this.#keys.get(name);
  }
}

/** What a secret is for. All of it is authenticated, so that a secret counts in its place only. */
interface SecretPlace {
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly archive: number;
  /** Such as `token`. */
  readonly purpose: string;
}

/**
 * Encrypts a secret by the current key (AES-256-GCM, NIST SP 800-38D), with a nonce of 96 random bits. A key may encrypt 2³²
 * secrets so; a fleet has far fewer.
 *
 * @param random returns that many random bytes
 */
export function sealSecret(
  keys: FleetKeys,
  place: SecretPlace,
  secret: string,
  random: (bytes: number) => Buffer = randomBytes,
): SealedSecret {
  const keyId = keys.current;
  const key = keys.key(keyId);
  if (key?.length !== KEY_BYTES) throw new TypeError('a key has 32 bytes');
  const nonce = random(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(associated(place));
  const sealed = Buffer.concat([
    cipher.update(secret, 'utf8'),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  const { archive, purpose } = place;
  return { archive, purpose, keyId, nonce, sealed };
}

interface SealedSecret {
  readonly archive: number;
  readonly purpose: string;
  readonly keyId: string;
  readonly nonce: Buffer;
  readonly sealed: Buffer;
}

/**
 * Decrypts a secret of an archive.
 *
 * @param fleet the UUID of the fleet
 * @throws fleet-key-unknown, fleet-secret-damaged
 */
export function openSecret(keys: FleetKeys, fleet: string, secret: SealedSecret): string {
  const { archive, purpose, keyId, nonce, sealed } = secret;
  const facts = { archive, purpose, keyId };
  const key = keys.key(keyId);
  if (key === undefined) throw fleetKeyError('fleet-key-unknown', facts);
  const end = sealed.length - TAG_BYTES;
  if (end < 0 || nonce.length !== NONCE_BYTES) throw fleetKeyError('fleet-secret-damaged', facts);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(associated({ fleet, archive, purpose }));
  decipher.setAuthTag(sealed.subarray(end));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, end)), decipher.final()]).toString(
      'utf8',
    );
  } catch (error) {
    throw fleetKeyError('fleet-secret-damaged', facts, error);
  }
}

/** JSON, so that no two places have the same bytes. */
function associated({ fleet, archive, purpose }: SecretPlace): Buffer {
  return Buffer.from(JSON.stringify(['mailkeep fleet secret 1', fleet, archive, purpose]));
}
