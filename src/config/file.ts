import { readRegularFile } from '../disk/regular-file.ts';
import { configError } from '../errors/config.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { jsonErrorOffset } from './json-position.ts';
import { pipedText } from './piped.ts';

/** Bytes. A configuration of a thousand accounts has less. */
const LONGEST_CONFIG = 1024 * 1024;

/**
 * Returns the parsed JSON of a config file, unchecked. A pipe that the user named is read to its end.
 *
 * @throws config-unreadable, config-not-json
 */
export function readConfigFile(file: string): unknown {
  const text = fileText(file);
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's own words may quote the file, and with it a token: only the place is passed on.
    throw configError('config-not-json', { file, ...positionOf(text) });
  }
}

function fileText(file: string): string {
  try {
    return (pipedText(file, LONGEST_CONFIG) ?? readRegularFile(file, LONGEST_CONFIG))
      .toString('utf8')
      .replace(/^\uFEFF/, '');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw configError('config-unreadable', { file, reason }, error);
  }
}

function positionOf(text: string): { line: number | null; column: number | null } {
  const offset = jsonErrorOffset(text);
  if (offset === undefined) return { line: null, column: null };
  const before = text.slice(0, offset).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 };
}
