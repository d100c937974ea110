import path from 'node:path';
import { parseJson } from '../archive/format.ts';
import { type ConfigProblem, configInvalid } from '../core/config-file.ts';
import {
  checkAccount,
  crossFieldProblems,
  isObject,
  type OAuthSettings,
  pathText,
  personalSignIn,
  type Settings,
} from '../core/config-schema.ts';
import { hasCode } from '../core/errors.ts';
import { Secret } from '../core/secrets.ts';
import { decodeTokens, encodeTokens, type StoredTokens } from '../imap/oauth-tokens.ts';
import { type FleetKeys, openSecret, type SealedSecret, sealSecret } from './keys.ts';
import type { AccountRow } from './overview.ts';

/** Where an account's settings have secrets, by purpose. */
const SECRETS: Readonly<Record<string, readonly string[]>> = {
  token: ['token'],
  'platform-token': ['platform', 'token'],
  password: ['imap', 'password'],
  'access-token': ['imap', 'accessToken'],
  'client-secret': ['imap', 'oauth', 'clientSecret'],
};

/** Not in configurations of single machines, where `account login` signs in. */
const REFRESH_TOKEN = ['imap', 'oauth', 'refreshToken'];
/** Purpose of the secret with the tokens that the sign-in of a person left behind. */
export const SIGN_IN = 'sign-in';

/** How a person has signed in to an account. */
export interface SignIn {
  readonly settings: OAuthSettings;
  readonly tokens: StoredTokens;
}

interface AccountParts {
  /** As in a configuration, without name and secrets. */
  readonly settings: object;
  /** By purpose. */
  readonly secrets: ReadonlyMap<string, string>;
}

/**
 * Checks an entry of `accounts` and takes its secrets out. They have to be in the entry: an environment variable, a file or
 * a command would have to be the same on every node.
 *
 * @param name that the entry must have, if it has one
 * @param source of the entry, for errors
 * @throws config-invalid
 */
export function splitAccount(raw: unknown, name: string, source: string): AccountParts {
  const entry = isObject(raw) ? structuredClone({ name, ...raw }) : raw;
  const secrets = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  const refreshToken = valueAt(entry, REFRESH_TOKEN);
  setAt(entry, REFRESH_TOKEN, undefined);
  const found: [path: readonly string[], value: unknown][] = [];
  for (const [purpose, path] of Object.entries(SECRETS)) {
    const value = valueAt(entry, path);
    if (value === undefined) continue;
    found.push([path, value]);
    if (typeof value === 'string') secrets.set(purpose, value);
    else {
      const expected = 'the secret itself, which the fleet encrypts: nodes share no files';
      problems.push({ path: pathText(path), found: 'an object', expected });
    }
  }
  const signIn = personalSignIn(checkAccount(entry, source, name));
  if (typeof refreshToken === 'string' && signIn !== undefined) {
    const access = { secret: new Secret(''), expiresAt: 0 };
    const tokens = { refresh: new Secret(refreshToken), access };
    secrets.set(SIGN_IN, encodeTokens(signIn, tokens));
  } else if (refreshToken !== undefined || signIn !== undefined) {
    const expected = signIn === undefined ? 'nothing: no person signs in' : 'the refresh token';
    const found = refreshToken === undefined ? 'nothing' : 'a value (not shown)';
    problems.push({ path: pathText(REFRESH_TOKEN), found, expected });
  }
  if (problems.length > 0) throw configInvalid(source, problems);
  for (const [path] of found) setAt(entry, path, undefined);
  const { name: _name, ...settings } = Object(entry);
  return { settings, secrets };
}

function joinAccount(name: string, settings: unknown, secrets: ReadonlyMap<string, string>) {
  const entry: object = structuredClone({ ...Object(settings), name });
  for (const [purpose, path] of Object.entries(SECRETS)) {
    const secret = secrets.get(purpose);
    if (secret !== undefined) setAt(entry, path, secret);
  }
  return entry;
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value);
}

function setAt(value: unknown, path: readonly string[], to: unknown): void {
  const holder = valueAt(value, path.slice(0, -1));
  const key = path.at(-1) ?? '';
  if (!isObject(holder)) return;
  if (to === undefined) Reflect.deleteProperty(holder, key);
  else Reflect.set(holder, key, to);
}

/** Name of an account in the configuration of its shard's daemon. Names of accounts are unique in their tenant only. */
export function nameInShard(account: number): string {
  return `a${account}`;
}

/** Returns the account of a name in a shard. */
export function accountOfName(name: string): number {
  return Number(name.slice(1));
}

interface ShardConfig {
  /** Configuration of the shard's daemon. Contains secrets. */
  readonly config: { readonly accounts: readonly object[] } & Readonly<Record<string, unknown>>;
  /** Accounts that were left out, with the code of the error. */
  readonly refused: ReadonlyMap<number, string>;
  /** Accounts whose access tokens the configuration reads from files. */
  readonly signIns: ReadonlyMap<number, SignIn>;
}

/**
 * Makes the configuration of a shard's daemon: the settings of its node and the accounts. Accounts whose settings are
 * invalid, such as those of another version of the program, are left out, so that the others work.
 *
 * @param tokens folder with the access tokens, by account
 */
export function shardConfig(
  node: Settings,
  dataDir: string,
  accounts: readonly AccountRow[],
  secretsOf: (account: number) => ReadonlyMap<string, string>,
  tokens: string,
): ShardConfig {
  const refused = new Map<number, string>();
  const signIns = new Map<number, SignIn>();
  let entries = accounts
    .filter(({ state }) => state === 'active')
    .flatMap(({ account, settings }) => {
      const name = nameInShard(account);
      const secrets = secretsOf(account);
      const entry = joinAccount(name, settings, secrets);
      try {
        const signIn = personalSignIn(checkAccount(entry, name, name));
        if (signIn !== undefined) {
          const stored = decodeTokens(secrets.get(SIGN_IN) ?? '', signIn);
          if (stored === undefined || stored === 'changed') {
            refused.set(account, 'imap.login-needed');
            return [];
          }
          signIns.set(account, { settings: signIn, tokens: stored });
          setAt(entry, ['imap', 'oauth'], undefined);
          const file = path.join(tokens, String(account));
          setAt(entry, ['imap', 'accessToken'], { file });
        }
        return [{ account, entry }];
      } catch (error) {
        if (!hasCode(error, 'config-invalid')) throw error;
        refused.set(account, error.code);
        return [];
      }
    });
  // Such as two accounts of one mailbox: the first one has it.
  const problems = crossFieldProblems({ accounts: entries.map(({ entry }) => entry) });
  const wrong = new Set(problems.map(({ path }) => /^accounts\[(\d+)\]/.exec(path)?.[1]));
  for (const [at, { account }] of entries.entries()) {
    if (wrong.has(String(at))) refused.set(account, 'config-invalid');
  }
  entries = entries.filter(({ account }) => !refused.has(account));
  const { archive, rateLimit, sync, schedule, retention, quota, log, brake, minFreeBytes } = node;
  const { command, url } = node.notify;
  const { confirmAfterMs, ...ofBrake } = brake;
  const config = {
    ...{ dataDir, archive, rateLimit, sync, retention, quota, log, minFreeBytes },
    // Removals are work of the fleet, which has to know of them first.
    schedule: { ...schedule, prune: null },
    brake: { ...ofBrake, confirmAfter: `${Math.ceil(confirmAfterMs / 1000)}s` },
    notify: { command, url: url?.reveal() ?? null },
    accounts: entries.map(({ entry }) => entry),
  };
  return { config, refused, signIns };
}

/** Encrypts the secrets of an account. Its id is part of what is authenticated. */
export function sealSecrets(
  keys: FleetKeys,
  fleet: string,
  account: number,
  secrets: ReadonlyMap<string, string>,
): readonly SealedSecret[] {
  const owner = { fleet, owner: `account ${account}` };
  return [...secrets].map(([purpose, secret]) => sealSecret(keys, owner, purpose, secret));
}

/** @throws fleet-key-unknown, fleet-secret-damaged */
export function openSecrets(
  keys: FleetKeys,
  fleet: string,
  account: number,
  sealed: readonly SealedSecret[],
): ReadonlyMap<string, string> {
  const owner = { fleet, owner: `account ${account}` };
  return new Map(sealed.map((secret) => [secret.purpose, openSecret(keys, owner, secret)]));
}

const WORK = 'purge';

/** Encrypts the work of a purge, which names messages and mailboxes. */
export function sealWork(keys: FleetKeys, fleet: string, shard: number, work: Buffer): Buffer {
  const owner = { fleet, owner: `shard ${shard}` };
  const { keyId, nonce, sealed } = sealSecret(keys, owner, WORK, work.toString('utf8'));
  const text = { keyId, nonce: nonce.toString('base64'), sealed: sealed.toString('base64') };
  return Buffer.from(JSON.stringify(text), 'utf8');
}

/** @throws fleet-key-unknown, fleet-secret-damaged */
export function openWork(keys: FleetKeys, fleet: string, shard: number, work: Buffer): Buffer {
  const { keyId, nonce, sealed } = Object(parseJson(work.toString('utf8')));
  const stored = {
    ...{ purpose: WORK, keyId: String(keyId) },
    nonce: Buffer.from(String(nonce), 'base64'),
    sealed: Buffer.from(String(sealed), 'base64'),
  };
  const owner = { fleet, owner: `shard ${shard}` };
  return Buffer.from(openSecret(keys, owner, stored), 'utf8');
}
