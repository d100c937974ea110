import path from 'node:path';
import { loadConfig } from '../core/config.ts';
import { configPaths, locateConfig } from '../core/config-locate.ts';
import type { Settings } from '../core/config-schema.ts';
import { configError } from '../core/error-tables.ts';
import type { LocatingContext } from './open-reader.ts';

/**
 * Loads the effective configuration and reports warnings. An archive specified by the user overrides its `dataDir`.
 *
 * @throws config-not-found and other configuration errors
 */
export function loadSettings({ globals, environment, report }: LocatingContext): Settings {
  const file = locateConfig(globals.config, environment);
  if (file === undefined) {
    throw configError('config-not-found', { searched: configPaths(environment) });
  }
  report({ event: 'config-located', file });
  const { settings, warnings } = loadConfig(file);
  for (const warning of warnings) report({ event: 'config-warning', warning });
  const dataDir =
    globals.data === undefined ? settings.dataDir : path.resolve(environment.cwd, globals.data);
  report({ event: 'archive-located', dataDir });
  return { ...settings, dataDir };
}
