import path from 'node:path';
import { configError } from '../errors/config.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import { nearest } from '../names/nearest.ts';
import { noPathProblem } from '../objects/s3-target.ts';
import { configFolder, readConfigFile } from './file.ts';
import { isNamed, locateConfig, type Surroundings } from './locate.ts';
import type { ConfigFile } from './schema.ts';

/** Where the archive is when neither the command line nor a config file says so. */
export const DEFAULT_DATA_DIR = 'data';

/**
 * Returns the archive's folder for commands that only read: `--data`, else the config file's `dataDir`, else
 * `./data`. Reads only that field of a config file, so that reading works while the rest is wrong, and without
 * loading the validation.
 */
export function locateDataDir(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  surroundings: Surroundings,
): string {
  if (options.data !== undefined) return path.resolve(surroundings.cwd, options.data);
  const file = locateConfig(options.config, surroundings);
  if (file === undefined) return path.resolve(surroundings.cwd, DEFAULT_DATA_DIR);
  const dataDir = fieldOf(readConfigFile(file), 'dataDir') ?? null;
  const folder = configFolder(file, surroundings.cwd);
  if (dataDir === null) return path.resolve(folder, DEFAULT_DATA_DIR);
  const isText = typeof dataDir === 'string' && dataDir !== '';
  const problem = isText ? noPathProblem(dataDir) : undefined;
  if (isText && problem === undefined) return path.resolve(folder, dataDir);
  throw configError('config-invalid', {
    file,
    paths: ['dataDir'],
    found: [problem ?? (typeof dataDir === 'string' ? 'an empty text' : 'something else')],
    suggestions: [''],
    expected: ['the path of a folder'],
  });
}

type Codec = ConfigFile['archive']['codec'];

/**
 * Returns the codec for sealed records: `archive.codec` of the config file, undefined where there is no file or no such
 * field. Checks nothing else in the file, so that commands that need no configuration work while the rest is wrong.
 *
 * With `data`, a file that only the search found counts only if its archive is that folder: `config.json` is a common
 * name, and the file may belong to another program.
 *
 * @throws config-invalid when the field holds something else; config-not-found, config-unreadable, config-not-json
 */
export function locateCodec(
  options: { readonly data: string | undefined; readonly config: string | undefined },
  surroundings: Surroundings,
): Codec | undefined {
  const file = locateConfig(options.config, surroundings);
  if (file === undefined) return undefined;
  if (options.data !== undefined && !isNamed(options.config, surroundings)) {
    if (!isConfigOf(file, locateDataDir(options, surroundings), surroundings)) return undefined;
  }
  return codecIn(file);
}

/** Returns whether a file that the user did not name is the configuration of the archive in `dataDir`. */
export function isConfigOf(file: string, dataDir: string, surroundings: Surroundings): boolean {
  try {
    return locateDataDir({ data: undefined, config: file }, surroundings) === dataDir;
  } catch (error) {
    // Not JSON, or without a folder that could be this one: some other program's file.
    const codes = ['config-not-json', 'config-unreadable', 'config-invalid'] as const;
    if (codes.some((code) => hasCode(error, code))) return false;
    throw error;
  }
}

function codecIn(file: string): Codec | undefined {
  const codec = fieldOf(fieldOf(readConfigFile(file), 'archive'), 'codec');
  if (codec === undefined || codec === 'zstd' || codec === 'zlib') return codec;
  throw configError('config-invalid', {
    file,
    paths: ['archive.codec'],
    found: [typeof codec === 'string' ? JSON.stringify(codec) : 'something else'],
    suggestions: [typeof codec === 'string' ? (nearest(codec, ['zstd', 'zlib']) ?? '') : ''],
    expected: ['"zstd" or "zlib"'],
  });
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
