import {
  createPrivateKey,
  createPublicKey,
  hash as digest,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import { canonicalJson, isCount, isHash, isObject, parseJson } from '../archive/format.ts';
import type { LogHead } from '../archive/log-reader.ts';
import { isSignedBy } from '../core/ed25519.ts';
import { usageError } from '../core/error-tables.ts';
import { errnoName } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import { verifyError } from './errors.ts';

const DOMAIN = 'mailkeep checkpoint 1\n';

/**
 * A signed statement of an archive's last commit at a given time. A commit's hash covers everything before it, so a
 * checkpoint stored elsewhere can prove that nothing has been changed or removed since.
 */
export interface Checkpoint extends LogHead {
  readonly mailkeep: 'checkpoint 1';
  /** ISO 8601. */
  readonly signedAt: string;
  /** Ed25519 key: 32 bytes in base64. */
  readonly publicKey: string;
  /** Base64 signature of `mailkeep checkpoint 1\n` and the canonical JSON of all other fields. */
  readonly signature: string;
}

/** Returns a new key (PKCS #8, PEM), to be stored with mode 0600. */
export function newSigningKey(): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** @throws `checkpoint-key` */
export function readSigningKey(file: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(readRegularFile(file));
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'not a key';
    throw verifyError('checkpoint-key', { file, reason }, error);
  }
  if (key.asymmetricKeyType !== 'ed25519') {
    throw verifyError('checkpoint-key', { file, reason: String(key.asymmetricKeyType) });
  }
  return key;
}

/** @param now milliseconds since the epoch */
export function signCheckpoint(head: LogHead, key: KeyObject, now: number): Checkpoint {
  const { archiveId, number, hash } = head;
  const statement = {
    mailkeep: 'checkpoint 1',
    archiveId,
    number,
    hash,
    signedAt: new Date(now).toISOString(),
    publicKey: publicKeyOf(key),
  } as const;
  return { ...statement, signature: sign(null, signed(statement), key).toString('base64') };
}

/**
 * Reads a checkpoint and checks its signature. Ignores unknown fields.
 *
 * @throws `checkpoint-unreadable`, `checkpoint-forged`
 */
export function readCheckpoint(file: string): Checkpoint {
  let text: string;
  try {
    text = readRegularFile(file).toString('utf8');
  } catch (error) {
    throw verifyError('checkpoint-unreadable', { file, reason: errnoName(error) }, error);
  }
  const value = parseJson(text);
  if (!isObject(value)) throw verifyError('checkpoint-unreadable', { file });
  const { mailkeep, archiveId, number, hash, signedAt, publicKey, signature } = value;
  const shaped =
    mailkeep === 'checkpoint 1' &&
    typeof archiveId === 'string' &&
    isCount(number) &&
    isHash(hash) &&
    typeof signedAt === 'string' &&
    typeof publicKey === 'string' &&
    typeof signature === 'string';
  if (!shaped) throw verifyError('checkpoint-unreadable', { file });
  const statement = { mailkeep, archiveId, number, hash, signedAt, publicKey } as const;
  const isSigned = isSignedBy(
    Buffer.from(publicKey, 'base64'),
    signed(statement),
    Buffer.from(signature, 'base64'),
  );
  if (!isSigned) throw verifyError('checkpoint-forged', { file });
  return { ...statement, signature };
}

/** Returns the first part of the SHA-256 of the key's 32 bytes. */
export function fingerprintOf(publicKey: string): string {
  return digest('sha256', Buffer.from(publicKey, 'base64')).slice(0, 16);
}

/**
 * Reads a public key: 32 bytes in base64, or a file that contains them or a PEM key.
 *
 * @returns 32 bytes in base64, as in a checkpoint
 * @throws `checkpoint-public-key`
 */
export function readPublicKey(given: string, file: string): string {
  const raw = rawKey(given);
  if (raw !== undefined) return raw;
  let text: string;
  try {
    text = readRegularFile(file).toString('utf8');
  } catch (error) {
    throw verifyError('checkpoint-public-key', { given }, error);
  }
  const found = rawKey(text.trim()) ?? pemKey(text);
  if (found === undefined) throw verifyError('checkpoint-public-key', { given });
  return found;
}

function rawKey(text: string): string | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text)
    ? Buffer.from(text, 'base64').toString('base64')
    : undefined;
}

function pemKey(text: string): string | undefined {
  try {
    const key = createPublicKey(text);
    return key.asymmetricKeyType === 'ed25519' ? rawOf(key) : undefined;
  } catch {
    return undefined;
  }
}

function signed(statement: Omit<Checkpoint, 'signature'>): Buffer {
  return Buffer.from(`${DOMAIN}${canonicalJson(statement)}`, 'utf8');
}

/** Returns 32 bytes in base64, as in a checkpoint. */
export function publicKeyOf(key: KeyObject): string {
  return rawOf(createPublicKey(key));
}

function rawOf(key: KeyObject): string {
  const { x = '' } = key.export({ format: 'jwk' });
  return Buffer.from(x, 'base64url').toString('base64');
}

/**
 * Returns the file with an archive's signing key (Ed25519, PKCS #8, PEM), creating it if missing.
 *
 * @throws usage-save-failed
 */
export async function ensureSigningKey(dataDir: string): Promise<string> {
  const file = path.join(dataDir, 'checkpoint.key');
  if (existsSync(file)) return file;
  try {
    await replaceFile(realFiles, file, Buffer.from(newSigningKey(), 'utf8'));
  } catch (error) {
    throw usageError('usage-save-failed', { file, reason: errnoName(error) });
  }
  return file;
}
