import { statSync } from 'node:fs';
import path from 'node:path';
import type { z } from 'zod';
import { parseListen } from './address.ts';
import {
  type ConfigProblem,
  configFileText,
  configFolder,
  configInvalid,
  jsonValue,
  readConfigFile,
  valueAt,
} from './config-file.ts';
import {
  canonicalTarget,
  configSchema,
  crossFieldProblems,
  fleetFileSchema,
  type fleetSchema,
  pathText,
  type Settings,
  tokenSource,
  tokenSources,
  toSettings,
  validationProblems,
} from './config-schema.ts';
import { configError } from './error-tables.ts';
import { MailkeepError } from './errors.ts';
import { readToken, type Secret } from './secrets.ts';

/** Returns conflicts in the copies' settings: two schedules or none, a lock on a directory, a duplicate target. */
function copyProblems(raw: unknown): ConfigProblem[] {
  const copies = valueAt(raw, ['copies']);
  const all: readonly unknown[] = Array.isArray(copies) ? copies : [];
  const targets = all.map((copy) => {
    const to = valueAt(copy, ['to']);
    return typeof to === 'string' ? canonicalTarget(to, '/') : undefined;
  });
  return all.flatMap((copy, i) => {
    if (typeof copy !== 'object' || copy === null) return [];
    const problem = (field: readonly string[], found: string, expected: string): ConfigProblem => ({
      path: pathText(['copies', i, ...field]),
      found,
      expected,
    });
    const [every, schedule] = ['every', 'schedule'].map(
      (name) => valueAt(copy, [name]) !== undefined,
    );
    const isLocked = typeof valueAt(copy, ['lockDays']) === 'number';
    const first = targets[i] === undefined ? i : targets.indexOf(targets[i]);
    const when = 'when to copy: "every": "1h", or a cron expression in "schedule"';
    return [
      every && schedule && problem(['schedule'], 'both every and schedule', 'one of them'),
      !every && !schedule && problem([], 'neither every nor schedule', when),
      isLocked &&
        targets[i]?.startsWith('s3://') === false &&
        problem(['lockDays'], 'a lock in a folder', 'null: only buckets lock'),
      first < i &&
        problem(
          ['to'],
          'the same place',
          `another place than ${pathText(['copies', first, 'to'])}`,
        ),
    ].filter((one) => one !== false && one !== undefined);
  });
}

function fleetSettings(fleet: z.output<typeof fleetSchema>, folder: string) {
  const { registry, store, keyFile, node, address, capacity, cache, directRegistry } = fleet;
  const listen = fleet.listen ?? address;
  const { bucket, prefix, endpoint, region, profile } = store;
  return {
    registry: tokenSource(registry, folder, 'fleet.registry'),
    /** The same database, bypassing the connection pooler. */
    directRegistry:
      directRegistry === undefined
        ? tokenSource(registry, folder, 'fleet.registry')
        : tokenSource(directRegistry, folder, 'fleet.directRegistry'),
    /** `prefix` may be empty. */
    store: { bucket, prefix, endpoint, region, profile },
    keyFile: path.resolve(folder, keyFile),
    node,
    /** Host and port at which other nodes can reach this one, if any. */
    address,
    listen: listen === undefined ? undefined : parseListen(listen),
    capacity,
    cache: path.resolve(folder, cache),
  };
}

/** One node's fleet settings, with absolute paths. */
export type FleetSettings = Readonly<ReturnType<typeof fleetSettings>>;

/**
 * Reads the registry's address from its configured source.
 * @throws registry-address-missing
 */
export async function readRegistryAddress(
  { registry }: Pick<FleetSettings, 'registry'>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Secret> {
  try {
    return await readToken(registry, env);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { kind: source, name } = registry;
    const reason = typeof error.facts.reason === 'string' ? error.facts.reason : error.code;
    throw configError('registry-address-missing', { source, name, reason }, error);
  }
}

/** Reports whether the address contains a password, which makes the config file secret. */
function hasPassword(fleet: Pick<FleetSettings, 'registry' | 'directRegistry'>): boolean {
  return [fleet.registry, fleet.directRegistry].some((source) => {
    if (source.kind !== 'literal') return false;
    const text = source.secret.reveal();
    return URL.canParse(text) && new URL(text).password !== '';
  });
}

/** A problem that does not stop mailkeep: other users can read a file that contains a secret. */
export interface ConfigWarning {
  readonly code: 'secret-readable-by-others';
  readonly file: string;
  /** The kind of secret in the file; defaults to a token. */
  readonly holds?: 'fleet-keys' | 'registry-password';
  /** Octal permission bits, such as `644`. */
  readonly mode: string;
}

/**
 * Reads, checks and freezes the configuration. Reports every problem in the file at once.
 * @param file absolute path
 * @param text the file's content, if it is not read from there
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function loadConfig(
  file: string,
  text = configFileText(file),
): { settings: Settings; warnings: ConfigWarning[] } {
  const settings = toSettings(readChecked(file, configSchema, jsonValue(text, file)), file);
  return { settings, warnings: tokenWarnings(settings) };
}

/**
 * Reads, checks and freezes a fleet node's configuration, which needs `fleet` but no accounts. Reports every problem in
 * the file at once. `settings` apply to every account. Any accounts in the file belong to the local archive and not to
 * the fleet.
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function loadFleetConfig(file: string) {
  const { fleet: section, ...content } = readChecked(file, fleetFileSchema, readConfigFile(file));
  const settings = toSettings({ ...content, accounts: content.accounts ?? [] }, file);
  const fleet = Object.freeze(fleetSettings(section, configFolder(file)));
  const { registry, directRegistry, keyFile } = fleet;
  const files = new Set(
    [registry, directRegistry].flatMap((one) => (one.kind === 'file' ? one.name : [])),
  );
  const warnings = [
    ...tokenWarnings(settings),
    ...(hasPassword(fleet) ? permissionWarning(file, 'registry-password') : []),
    ...[...files].flatMap((name) => permissionWarning(name, 'registry-password')),
    ...permissionWarning(keyFile, 'fleet-keys'),
  ];
  return { fleet, settings, warnings };
}
export type FleetConfig = Readonly<ReturnType<typeof loadFleetConfig>>;

/**
 * Reports whether a config file sets up a fleet node but no local archive.
 * @throws config-unreadable, config-not-json
 */
export function isFleetOnly(file: string): boolean {
  const raw = readConfigFile(file);
  return valueAt(raw, ['fleet']) !== undefined && valueAt(raw, ['accounts']) === undefined;
}

function readChecked<Schema extends z.ZodType>(
  file: string,
  schema: Schema,
  raw: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(raw);
  const problems = [
    ...(parsed.success ? [] : validationProblems(parsed.error.issues, raw)),
    ...crossFieldProblems(raw),
    ...copyProblems(raw),
  ];
  if (parsed.success && problems.length === 0) return parsed.data;
  throw configInvalid(file, problems);
}

function tokenWarnings({ file, accounts }: Settings): ConfigWarning[] {
  const sources = tokenSources(accounts);
  const files = sources.flatMap((source) => (source.kind === 'file' ? source.name : []));
  const isLiteral = sources.some((source) => source.kind === 'literal');
  return [...(isLiteral ? [file] : []), ...new Set(files)].flatMap((holder) =>
    permissionWarning(holder),
  );
}

function permissionWarning(file: string, holds?: ConfigWarning['holds']): ConfigWarning[] {
  // Windows has no meaningful permission bits.
  if (process.platform === 'win32') return [];
  const stat = statSync(file, { throwIfNoEntry: false });
  // A pipe leaves nothing on disk for others to read.
  if (stat === undefined || stat.isFIFO() || (stat.mode & 0o077) === 0) return [];
  const mode = (stat.mode & 0o777).toString(8).padStart(3, '0');
  return [
    { code: 'secret-readable-by-others', file, mode, ...(holds === undefined ? {} : { holds }) },
  ];
}
