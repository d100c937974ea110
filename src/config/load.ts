import { statSync } from 'node:fs';
import type { z } from 'zod';
import { copyProblems } from './copy-problems.ts';
import { configFolder, readConfigFile } from './file.ts';
import { type FleetSettings, fleetSettings, hasPassword } from './fleet.ts';
import { configInvalid, crossProblems, problemsOf, valueAt } from './problems.ts';
import { configSchema, fleetFileSchema } from './schema.ts';
import { type Settings, settle } from './settings.ts';

/** Something that works but should be mended: a file with a secret that others may read. */
export interface ConfigWarning {
  readonly code: 'secret-readable-by-others';
  readonly file: string;
  /** A token, unless it says something else. */
  readonly holds?: 'fleet-keys' | 'registry-password';
  /** Octal permission bits, such as `644`. */
  readonly mode: string;
}

/**
 * Reads, checks and freezes the configuration. Reports every problem of the file at once.
 *
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function loadConfig(file: string): { settings: Settings; warnings: ConfigWarning[] } {
  const settings = settle(checkedFile(file, configSchema, readConfigFile(file)), file);
  return { settings, warnings: tokenWarnings(settings) };
}

/** The configuration of a node of a fleet: what it does with every account is in `settings`. */
export interface FleetConfig {
  readonly fleet: FleetSettings;
  /** Accounts in the file, if there are any, belong to the archive of this machine, and not to the fleet. */
  readonly settings: Settings;
  readonly warnings: readonly ConfigWarning[];
}

/**
 * Reads, checks and freezes the configuration of a node of a fleet, which needs `fleet` and no accounts. Reports every
 * problem of the file at once.
 *
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function loadFleetConfig(file: string): FleetConfig {
  const { fleet: section, ...content } = checkedFile(file, fleetFileSchema, readConfigFile(file));
  const settings = settle({ ...content, accounts: content.accounts ?? [] }, file);
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

/**
 * Returns whether a config file is for a fleet alone: it has no accounts for an archive on this machine.
 *
 * @throws config-unreadable, config-not-json
 */
export function isFleetOnly(file: string): boolean {
  const raw = readConfigFile(file);
  return valueAt(raw, ['fleet']) !== undefined && valueAt(raw, ['accounts']) === undefined;
}

function checkedFile<Schema extends z.ZodType>(
  file: string,
  schema: Schema,
  raw: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(raw);
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error.issues, raw)),
    ...crossProblems(raw),
    ...copyProblems(raw),
  ];
  if (parsed.success && problems.length === 0) return parsed.data;
  throw configInvalid(file, problems);
}

function tokenWarnings({ file, accounts }: Settings): ConfigWarning[] {
  const sources = accounts.flatMap(({ token, platform }) =>
    platform === null ? [token] : [token, platform.token],
  );
  const files = sources.flatMap((source) => (source.kind === 'file' ? source.name : []));
  const isLiteral = sources.some((source) => source.kind === 'literal');
  return [...(isLiteral ? [file] : []), ...new Set(files)].flatMap((holder) =>
    permissionWarning(holder),
  );
}

function permissionWarning(file: string, holds?: ConfigWarning['holds']): ConfigWarning[] {
  // Windows has no permission bits that mean anything here.
  if (process.platform === 'win32') return [];
  const stat = statSync(file, { throwIfNoEntry: false });
  // What went through a pipe lies nowhere that others could read.
  if (stat === undefined || stat.isFIFO() || (stat.mode & 0o077) === 0) return [];
  const mode = (stat.mode & 0o777).toString(8).padStart(3, '0');
  return [
    { code: 'secret-readable-by-others', file, mode, ...(holds === undefined ? {} : { holds }) },
  ];
}
