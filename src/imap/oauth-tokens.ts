import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { type Clock, sleep } from '../core/concurrency.ts';
import type { OAuthSettings } from '../core/config-schema.ts';
import { errnoOf, hasCode } from '../core/errors.ts';
import { makeFolders, readRegularFile, syncFolder } from '../core/files.ts';
import { Secret } from '../core/secrets.ts';
import { fields, nullable, number, parseJson, text } from '../core/stored-values.ts';
import { imapError } from './errors.ts';

/** An access token with its end. */
export interface AccessToken {
  readonly secret: Secret;
  /** Milliseconds since the epoch; null if the server did not say, so the token is used until it is refused. */
  readonly expiresAt: number | null;
}

/** What a sign-in of a person leaves behind. */
export interface StoredTokens {
  readonly refresh: Secret;
  readonly access: AccessToken;
}

const readStored = fields({
  issuer: text,
  clientId: text,
  scope: text,
  refreshToken: text,
  accessToken: text,
  expiresAt: nullable(number),
});
/** Longest wait for another process that replaces the same tokens. A refresh takes less. */
const MAX_WAIT_MS = 120_000;
const LOOK_AGAIN_MS = 100;
/** In bytes. Tokens of Microsoft have several kilobytes. */
const MAX_FILE = 262_144;

/** Returns the file with an account's tokens, which only `account login` and a refresh write. */
export function tokensFile(dataDir: string, account: string): string {
  return path.join(dataDir, 'oauth', `${account}.json`);
}

/**
 * Returns the stored tokens, or why there are none that fit the settings: no sign-in yet, or one with another client.
 *
 * @throws imap.tokens-unreadable
 */
export function readTokens(
  file: string,
  settings: OAuthSettings,
): StoredTokens | 'never' | 'changed' {
  let bytes: Buffer;
  try {
    bytes = readRegularFile(file, MAX_FILE);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'ENOENT') return 'never';
    throw imapError('imap.tokens-unreadable', { file, reason }, error);
  }
  const stored = decodeTokens(bytes.toString('utf8'), settings);
  if (stored === undefined) throw imapError('imap.tokens-unreadable', { file, reason: 'content' });
  return stored;
}

/** Returns tokens that `encodeTokens` made; `changed` if they do not fit the settings, undefined for anything else. */
export function decodeTokens(
  content: string,
  { issuer, clientId, scope }: OAuthSettings,
): StoredTokens | 'changed' | undefined {
  const stored = readStored(parseJson(content));
  if (stored === undefined) return undefined;
  if (stored.issuer !== issuer || stored.clientId !== clientId || stored.scope !== scope) {
    return 'changed';
  }
  const access = { secret: new Secret(stored.accessToken), expiresAt: stored.expiresAt };
  return { refresh: new Secret(stored.refreshToken), access };
}

/** Contains secrets. */
export function encodeTokens(
  { issuer, clientId, scope }: OAuthSettings,
  { refresh, access }: StoredTokens,
): string {
  const content = {
    ...{ issuer, clientId, scope },
    refreshToken: refresh.reveal(),
    accessToken: access.secret.reveal(),
    expiresAt: access.expiresAt,
  };
  return JSON.stringify(content, null, 2);
}

/**
 * Replaces the stored tokens durably. The file has mode 0600.
 *
 * @throws imap.tokens-unwritable
 */
export function writeTokens(file: string, settings: OAuthSettings, tokens: StoredTokens): void {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    makeFolders(path.dirname(file), 0o700);
    // One of a process that was killed can have other permissions.
    rmSync(temporary, { force: true, recursive: true });
    const handle = openSync(temporary, 'wx', 0o600);
    try {
      writeSync(handle, `${encodeTokens(settings, tokens)}\n`);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(temporary, file);
    syncFolder(path.dirname(file));
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw imapError('imap.tokens-unwritable', { file, reason }, error);
  }
}

/**
 * Runs `act` while no other process replaces the account's tokens: many servers accept a refresh token only once, and
 * end the sign-in if they see it again.
 *
 * @throws imap.tokens-unwritable, the errors of `act`
 */
export async function withTokensLocked<T>(
  file: string,
  clock: Clock,
  act: () => Promise<T>,
): Promise<T> {
  const { acquireLock } = await import('../archive/lock.ts');
  const acquire = async (): Promise<ReturnType<typeof acquireLock>> => {
    for (let waited = 0; ; waited += LOOK_AGAIN_MS) {
      try {
        return acquireLock(`${file}.lock`);
      } catch (error) {
        const isHeld = hasCode(error, 'archive-in-use');
        if (!isHeld && !hasCode(error, 'archive-lock-failed')) throw error;
        const reason = isHeld ? 'EBUSY' : String(error.facts.errno);
        if (!isHeld || waited >= MAX_WAIT_MS) {
          throw imapError('imap.tokens-unwritable', { file, reason }, error);
        }
      }
      await sleep(clock, LOOK_AGAIN_MS);
    }
  };
  const lock = await acquire();
  try {
    return await act();
  } finally {
    lock.release();
  }
}
