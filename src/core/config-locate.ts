import { existsSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import {
  configFolder,
  configInvalid,
  isPiped,
  markAsPipe,
  readConfigFile,
  valueAt,
} from './config-file.ts';
import type { ConfigFile } from './config-schema.ts';
import { configError } from './error-tables.ts';
import { errnoOf, hasCode } from './errors.ts';
import { nearest } from './names.ts';
import { pathProblem } from './s3-target.ts';

/** The parts of the process needed to find a config file. Passed in, so that tests need no real home directory. */
export interface ProcessEnvironment {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Returns the user's folder for configurations: `XDG_CONFIG_HOME`, or ~/.config. */
export function configHome({ XDG_CONFIG_HOME: xdg, HOME }: ProcessEnvironment['env']): string {
  if (xdg !== undefined && path.isAbsolute(xdg)) return xdg;
  return path.join(HOME ?? homedir(), '.config');
}

export function configPaths({ cwd, env }: ProcessEnvironment): string[] {
  return [
    path.join(cwd, 'config.json'),
    path.join(configHome(env), 'mailkeep', 'config.json'),
    '/etc/mailkeep/config.json',
  ];
}

/**
 * Returns the config file to use: `--config`, `MAILKEEP_CONFIG`, or the first default path that exists; otherwise
 * undefined. A file given by the user must exist, and can be a pipe.
 * @throws config-not-found if that file does not exist, config-unreadable if access is denied
 */
export function locateConfig(
  flag: string | undefined,
  environment: ProcessEnvironment,
): string | undefined {
  const explicit = explicitConfig(flag, environment);
  if (explicit !== undefined) {
    const file = path.resolve(environment.cwd, explicit);
    if (!fileExists(file)) throw configError('config-not-found', { searched: [file] });
    return file;
  }
  return configPaths(environment).find((file) => existsSync(file));
}

/** @throws config-unreadable if the system denies access */
function fileExists(file: string): boolean {
  // A pipe may have disappeared once it has been read.
  if (isPiped(file)) return true;
  try {
    if (statSync(file).isFIFO()) markAsPipe(file);
    return true;
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return false;
    throw configError('config-unreadable', { file, reason }, error);
  }
}

/** Reports whether `--config` or `MAILKEEP_CONFIG` specifies the file, which disables the search for one. */
export function isConfigGiven(flag: string | undefined, environment: ProcessEnvironment): boolean {
  return explicitConfig(flag, environment) !== undefined;
}

function explicitConfig(flag: string | undefined, { env }: ProcessEnvironment): string | undefined {
  return flag ?? env.MAILKEEP_CONFIG;
}

/** The archive directory if neither the command line nor a config file sets one. */
export const DEFAULT_DATA_DIR = 'data';

/**
 * Returns the archive directory for read-only commands: `--data`, else the config file's `dataDir`, else `./data`.
 * Reads only that field and does not load the schema, so it works even if other fields are invalid.
 */
export function locateDataDir(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  environment: ProcessEnvironment,
): string {
  if (options.data !== undefined) return path.resolve(environment.cwd, options.data);
  const file = locateConfig(options.config, environment);
  if (file === undefined) return path.resolve(environment.cwd, DEFAULT_DATA_DIR);
  const dataDir = valueAt(readConfigFile(file), ['dataDir']) ?? null;
  const folder = configFolder(file, environment.cwd);
  if (dataDir === null) return path.resolve(folder, DEFAULT_DATA_DIR);
  const isText = typeof dataDir === 'string' && dataDir !== '';
  const problem = isText ? pathProblem(dataDir) : undefined;
  if (isText && problem === undefined) return path.resolve(folder, dataDir);
  const found = problem ?? (typeof dataDir === 'string' ? 'an empty text' : 'something else');
  throw configInvalid(file, [{ path: 'dataDir', found, expected: 'the path of a folder' }]);
}

type Codec = ConfigFile['archive']['codec'];

/**
 * Returns `archive.codec` from the config file, or undefined if it is not set. Checks no other field, so that an
 * invalid configuration does not affect commands that do not need one.
 *
 * If `data` is set, a config file found by searching is used only if it configures that directory, because a file named
 * `config.json` may belong to another program.
 * @throws config-invalid for any other value; config-not-found, config-unreadable, config-not-json
 */
export function locateCodec(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  environment: ProcessEnvironment,
): Codec | undefined {
  const file = locateConfig(options.config, environment);
  if (file === undefined) return undefined;
  if (options.data !== undefined && !isConfigGiven(options.config, environment)) {
    if (!configuresArchive(file, locateDataDir(options, environment), environment))
      return undefined;
  }
  return readCodec(file);
}

/** Reports whether a config file found by searching configures the archive in `dataDir`. */
export function configuresArchive(
  file: string,
  dataDir: string,
  environment: ProcessEnvironment,
): boolean {
  try {
    return locateDataDir({ data: undefined, config: file }, environment) === dataDir;
  } catch (error) {
    // A file belongs to another program if it is not JSON or has no usable `dataDir`.
    const codes = ['config-not-json', 'config-unreadable', 'config-invalid'] as const;
    if (codes.some((code) => hasCode(error, code))) return false;
    throw error;
  }
}

function readCodec(file: string): Codec | undefined {
  const codec = valueAt(readConfigFile(file), ['archive', 'codec']);
  if (codec === undefined || codec === 'zstd' || codec === 'zlib') return codec;
  const isText = typeof codec === 'string';
  const found = isText ? JSON.stringify(codec) : 'something else';
  const suggestion = isText ? nearest(codec, ['zstd', 'zlib']) : null;
  const problem = { path: 'archive.codec', found, expected: '"zstd" or "zlib"', suggestion };
  throw configInvalid(file, [problem]);
}
