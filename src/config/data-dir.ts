import path from 'node:path';
import { configError } from '../errors/config.ts';
import { readConfigFile } from './file.ts';
import { locateConfig, type Surroundings } from './locate.ts';
import { configFolder } from './piped.ts';

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
  const raw = readConfigFile(file);
  const dataDir = typeof raw === 'object' && raw !== null && 'dataDir' in raw ? raw.dataDir : null;
  const folder = configFolder(file, surroundings.cwd);
  if (dataDir === null) return path.resolve(folder, DEFAULT_DATA_DIR);
  if (typeof dataDir === 'string' && dataDir !== '') {
    return path.resolve(folder, dataDir);
  }
  throw configError('config-invalid', {
    file,
    paths: ['dataDir'],
    found: [typeof dataDir === 'string' ? 'an empty text' : 'something else'],
    suggestions: [''],
    expected: ['the path of a folder'],
  });
}
