import type { z } from 'zod';
import { type ConfigProblem, configInvalid, crossProblems, problemsOf } from './problems.ts';
import { accountSchema } from './schema.ts';
import { type AccountSettings, accountSettings, type TokenSource } from './settings.ts';

/** What a secret of an account is for: the names under which a registry has them. */
export type SecretPurpose = 'token' | 'platform-token' | 'webhook';

/** An entry of `accounts`, split for a registry: secrets are encrypted there, and the rest is not. */
export interface AccountEntry {
  /** As it was written, without name and tokens: defaults are those of the program that reads it. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Where the tokens are read from. */
  readonly tokens: readonly (readonly [purpose: SecretPurpose, source: TokenSource])[];
}

export interface EntryPlace {
  /** The name of the account; one in the entry has to be the same. */
  readonly name: string;
  /** Where the entry is from, for errors. */
  readonly source: string;
  /** That relative paths are relative to. */
  readonly folder: string;
}

/**
 * Checks an entry of `accounts` that stands alone.
 *
 * @param raw parsed JSON
 * @param token where the token is read from, if the entry does not say it
 * @throws config-invalid, with every problem
 */
export function accountEntry(raw: unknown, place: EntryPlace, token?: TokenSource): AccountEntry {
  const { name, source, folder } = place;
  const entry = isObject(raw)
    ? { name, ...raw, ...(token === undefined ? {} : { token: 'elsewhere' }) }
    : raw;
  const account = checked(entry, source, name);
  const { name: _name, token: _token, platform, ...rest } = isObject(entry) ? entry : {};
  const settled = accountSettings(account, folder, false);
  const tokens: AccountEntry['tokens'] = [['token', token ?? settled.token]];
  if (!isObject(platform) || settled.platform === null) return { settings: rest, tokens };
  const { token: _platformToken, ...shown } = platform;
  return {
    settings: { ...rest, platform: shown },
    tokens: [...tokens, ['platform-token', settled.platform.token]],
  };
}

/**
 * Puts an account together again.
 *
 * @param settings what `accountEntry` returned
 * @param secrets by their purposes
 * @throws config-invalid: it was written by another version, or a token is missing
 */
export function storedAccount(
  name: string,
  settings: unknown,
  secrets: ReadonlyMap<string, string>,
): AccountSettings {
  const stored = isObject(settings) ? settings : {};
  const { platform } = stored;
  const entry = {
    ...{ ...stored, name, token: secrets.get('token') },
    ...(isObject(platform)
      ? { platform: { ...platform, token: secrets.get('platform-token') } }
      : {}),
  };
  // There is nothing in it that would be relative to a folder.
  return accountSettings(checked(entry, `Account ${name} in the registry`, name), '/', false);
}

function checked(entry: unknown, source: string, name: string): z.output<typeof accountSchema> {
  const parsed = accountSchema.safeParse(entry);
  const whole = { accounts: [entry] };
  const issues = (parsed.error?.issues ?? []).map((issue) => ({
    ...issue,
    path: ['accounts', 0, ...issue.path],
  }));
  const problems = [
    ...[...problemsOf(issues, whole), ...crossProblems(whole)].map(alone),
    ...(parsed.success && parsed.data.name !== name ? [otherName(parsed.data.name, name)] : []),
  ];
  if (parsed.success && problems.length === 0) return parsed.data;
  throw configInvalid(source, problems);
}

/** The paths of an entry begin in a list of accounts; here it stands alone. */
function alone(problem: ConfigProblem): ConfigProblem {
  const path = problem.path.replace(/^accounts\[0\]\.?/, '');
  return { ...problem, path: path === '' ? '(file)' : path };
}

function otherName(found: string, name: string): ConfigProblem {
  const expected = `"${name}", as the command calls the account (or no name)`;
  return { path: 'name', found: JSON.stringify(found), expected };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
