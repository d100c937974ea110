import { configPlaces, isNamed, locateConfig } from '../../../config/locate.ts';
import { configError } from '../../../errors/usage.ts';
import type { CommandContext } from '../../context.ts';

/** Who named the configuration in force: an option, the environment, or nobody, so that it was searched for. */
type ConfigSource = '--config' | 'MAILKEEP_CONFIG' | 'search';

/** The configuration in force. @throws config-not-found, config-unreadable */
export function configInForce({ globals, surroundings }: CommandContext): {
  readonly file: string;
  readonly source: ConfigSource;
} {
  const file = locateConfig(globals.config, surroundings);
  if (file === undefined) {
    throw configError('config-not-found', { searched: configPlaces(surroundings) });
  }
  if (!isNamed(globals.config, surroundings)) return { file, source: 'search' };
  return { file, source: globals.config === undefined ? 'MAILKEEP_CONFIG' : '--config' };
}

/** `named by --config`, `found in the current folder` */
export function sourceText(
  { file, source }: ReturnType<typeof configInForce>,
  surroundings: CommandContext['surroundings'],
): string {
  if (source !== 'search') return `named by ${source}`;
  const where = ['the current folder', 'your configuration folder', '/etc/mailkeep'];
  return `found in ${where[configPlaces(surroundings).indexOf(file)] ?? 'a usual place'}`;
}
