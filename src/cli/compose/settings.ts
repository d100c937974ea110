import path from 'node:path';
import { type ConfigWarning, loadConfig } from '../../config/load.ts';
import { configPlaces, locateConfig } from '../../config/locate.ts';
import type { Settings } from '../../config/settings.ts';
import { configError } from '../../errors/config.ts';
import { terminalLine } from '../../mail/terminal-safe.ts';
import type { CommandContext } from '../context.ts';

/**
 * The configuration in force, with `--data` in the place of its dataDir; warnings are told.
 *
 * @throws config-not-found and the other errors of the configuration
 */
export function settingsOf({ globals, surroundings, notices }: CommandContext): Settings {
  const file = locateConfig(globals.config, surroundings);
  if (file === undefined) {
    throw configError('config-not-found', { searched: configPlaces(surroundings) });
  }
  notices.detail(`configuration: ${terminalLine(file)}`);
  const { settings, warnings } = loadConfig(file);
  for (const warning of warnings) {
    notices.warn(warningText(warning));
  }
  const dataDir =
    globals.data === undefined ? settings.dataDir : path.resolve(surroundings.cwd, globals.data);
  notices.detail(`archive: ${terminalLine(dataDir)}`);
  return { ...settings, dataDir };
}

/** A warning about the configuration, in words. */
export function warningText({ file, mode }: ConfigWarning): string {
  return `${file} holds a token and can be read by others (mode ${mode}): chmod 600 ${file}`;
}
