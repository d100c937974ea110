import { configError } from '../errors/config.ts';
import { nearest } from '../names/nearest.ts';
import { readConfigFile } from './file.ts';
import { locateConfig, type Surroundings } from './locate.ts';
import type { ConfigFile } from './schema.ts';

/**
 * Returns what the archive is to be compressed with: `archive.codec` of the config file, undefined where there is no
 * file or no such field. Nothing else in the file is checked, so that commands that need no configuration work while
 * the rest is wrong.
 *
 * @throws config-invalid when the field holds something else
 */
export function locateCodec(
  config: string | undefined,
  surroundings: Surroundings,
): ConfigFile['archive']['codec'] | undefined {
  const file = locateConfig(config, surroundings);
  const codec =
    file === undefined ? undefined : fieldOf(fieldOf(readConfigFile(file), 'archive'), 'codec');
  if (codec === undefined || codec === 'zstd' || codec === 'zlib') return codec;
  throw configError('config-invalid', {
    file: file ?? '',
    paths: ['archive.codec'],
    found: [typeof codec === 'string' ? JSON.stringify(codec) : 'something else'],
    suggestions: [typeof codec === 'string' ? (nearest(codec, ['zstd', 'zlib']) ?? '') : ''],
    expected: ['"zstd" or "zlib"'],
  });
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
