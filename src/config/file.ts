import { closeSync, openSync, readSync } from 'node:fs';
import path from 'node:path';
import { readRegularFile, tooLarge } from '../disk/regular-file.ts';
import { configError } from '../errors/config.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { jsonErrorOffset } from './json-position.ts';

/**
 * Config files that were named and are pipes, such as `<(…)` of a shell, by absolute path. A pipe can be read only once, and
 * a command reads its configuration several times: the text stays for as long as the process lives.
 */
const pipes = new Map<string, Buffer | null>();

const CHUNK = 65_536;
/** Paths of what is open in this process. No folder of the user's is next to them. */
const STREAM = /^\/dev\/(?:stdin|fd\/\d+)$|^\/proc\/(?:self|\d+)\/fd\/\d+$/;

/** Notes that the user named a pipe as the config file: only then is it worth waiting for its writer. */
export function notePipe(file: string): void {
  if (!pipes.has(file)) pipes.set(file, null);
}

/** Returns whether a config file is a pipe that the user named. */
export function isPiped(file: string): boolean {
  return pipes.has(file);
}

/**
 * Returns the text of a config file that is a pipe; undefined for any other. Waits for whoever writes to it.
 *
 * @param most bytes
 * @throws system errors; EFBIG for more than `most`
 */
export function pipedText(file: string, most: number): Buffer | undefined {
  const known = pipes.get(file);
  if (known !== null) return known;
  const text = readPipe(file, most);
  pipes.set(file, text);
  return text;
}

/** Returns the folder that relative paths in a config file are relative to: its own, or the current one for a stream. */
export function configFolder(file: string, cwd = process.cwd()): string {
  return STREAM.test(file) ? cwd : path.dirname(file);
}

function readPipe(file: string, most: number): Buffer {
  const descriptor = openSync(file, 'r');
  try {
    const chunks: Buffer[] = [];
    let length = 0;
    for (;;) {
      const chunk = Buffer.alloc(CHUNK);
      const read = readSync(descriptor, chunk);
      if (read === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, read));
      length += read;
      if (length > most) throw tooLarge(file);
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Bytes. A configuration of a thousand accounts has less. */
const LONGEST_CONFIG = 1024 * 1024;

/**
 * Returns the parsed JSON of a config file, unchecked. A pipe that the user named is read to its end.
 *
 * @throws config-unreadable, config-not-json
 */
export function readConfigFile(file: string): unknown {
  return jsonValue(fileText(file), file);
}

/**
 * Returns the value of a JSON text, unchecked.
 *
 * @param file where the text is from, for the error
 * @throws config-not-json
 */
export function jsonValue(text: string, file: string): unknown {
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
