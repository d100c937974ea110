import { existsSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { configError } from '../errors/config.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { isPiped, notePipe } from './file.ts';

/** What the search for a config file depends on; given as arguments so that tests need no real home. */
export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The places where a config file is looked for, in order, when none is named. */
export function configPlaces({ cwd, env }: Surroundings): string[] {
  const xdg = env.XDG_CONFIG_HOME;
  const base = xdg !== undefined && path.isAbsolute(xdg) ? xdg : path.join(homedir(), '.config');
  return [
    path.join(cwd, 'config.json'),
    path.join(base, 'mailkeep', 'config.json'),
    '/etc/mailkeep/config.json',
  ];
}

/**
 * The config file in force: `--config`, `MAILKEEP_CONFIG`, then the usual places. One that is named must
 * exist, and may be a pipe; without any, undefined.
 *
 * @throws config-not-found when the named file does not exist, config-unreadable when access is denied
 */
export function locateConfig(
  named: string | undefined,
  surroundings: Surroundings,
): string | undefined {
  const asked = askedFor(named, surroundings);
  if (asked !== undefined) {
    const file = path.resolve(surroundings.cwd, asked);
    if (!namedExists(file)) throw configError('config-not-found', { searched: [file] });
    return file;
  }
  return configPlaces(surroundings).find((file) => existsSync(file));
}

/** Returns whether a file that the user named exists. @throws config-unreadable where the system denies access */
function namedExists(file: string): boolean {
  // It may be gone once it was read.
  if (isPiped(file)) return true;
  try {
    if (statSync(file).isFIFO()) notePipe(file);
    return true;
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return false;
    throw configError('config-unreadable', { file, reason }, error);
  }
}

/** Returns whether `--config` or `MAILKEEP_CONFIG` names the file, so that no search takes place. */
export function isNamed(named: string | undefined, surroundings: Surroundings): boolean {
  return askedFor(named, surroundings) !== undefined;
}

function askedFor(named: string | undefined, { env }: Surroundings): string | undefined {
  return named ?? env.MAILKEEP_CONFIG;
}
