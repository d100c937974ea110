import { closeSync, openSync, readSync } from 'node:fs';
import path from 'node:path';
import { configError } from './error-tables.ts';
import { errnoOf } from './errors.ts';
import { readRegularFile, tooLarge } from './files.ts';

/**
 * A JSON string (RFC 8259 section 7): escapes, and any character except a quote, a backslash or a control character.
 */
const STRING = /"(?:[^"\\\p{Cc}]|[\x7f-\x9f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\r\n]*/y;

/**
 * Returns the offset of the first invalid JSON token, or undefined for valid JSON. The built-in parser reports an
 * offset only for some errors; for others it quotes the text, including any secrets.
 */
export function jsonErrorOffset(text: string): number | undefined {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match !== null) at += match[0].length;
    return match !== null;
  };
  const sign = (character: string): boolean => {
    take(SPACE);
    if (text[at] !== character) return false;
    at += 1;
    return true;
  };
  const members = (close: string, member: () => boolean): boolean => {
    if (sign(close)) return true;
    do {
      take(SPACE);
      if (!member()) return false;
    } while (sign(','));
    return sign(close);
  };
  const value = (): boolean => {
    if (sign('{')) return members('}', () => take(STRING) && sign(':') && value());
    if (sign('[')) return members(']', value);
    return take(STRING) || take(SCALAR);
  };
  if (!value()) return at;
  take(SPACE);
  return at === text.length ? undefined : at;
}

/**
 * Contents of config files passed as pipes, such as `<(…)` in a shell, by absolute path. Cached because a command reads
 * its configuration several times, but can read a pipe only once.
 */
const pipes = new Map<string, Buffer | null>();

const CHUNK = 65_536;
/** Paths of open streams. Relative paths in a streamed config file cannot be resolved against the stream's path. */
const STREAM = /^\/dev\/(?:stdin|fd\/\d+)$|^\/proc\/(?:self|\d+)\/fd\/\d+$/;

/** Records that the user gave a pipe as the config file. Reading waits for a pipe's writer only after this call. */
export function markAsPipe(file: string): void {
  if (!pipes.has(file)) pipes.set(file, null);
}

export function isPiped(file: string): boolean {
  return pipes.has(file);
}

/**
 * Returns the text of a config file that is a pipe, waiting for its writer. Undefined for any other file.
 * @param most limit in bytes
 * @throws system errors; EFBIG if the text is longer than `most`
 */
function readPiped(file: string, most: number): Buffer | undefined {
  const cached = pipes.get(file);
  if (cached !== null) return cached;
  const text = readPipe(file, most);
  pipes.set(file, text);
  return text;
}

/** Returns the base for relative paths in a config file: the file's directory, or the current one for a stream. */
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

/** In bytes; more than a thousand accounts would need. */
const MAX_CONFIG = 1024 * 1024;

/**
 * Returns the parsed JSON of a config file without checking it. Waits for the writer if the user gave a pipe.
 * @throws config-unreadable, config-not-json
 */
export function readConfigFile(file: string): unknown {
  return jsonValue(configFileText(file), file);
}

/**
 * @param file where the text came from, for the error
 * @throws config-not-json
 */
export function jsonValue(text: string, file: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Report only the position: the parser's message may quote the file, including any token.
    throw configError('config-not-json', { file, ...findPosition(text) });
  }
}

/** @throws config-unreadable */
export function configFileText(file: string): string {
  try {
    return (readPiped(file, MAX_CONFIG) ?? readRegularFile(file, MAX_CONFIG))
      .toString('utf8')
      .replace(/^\uFEFF/, '');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw configError('config-unreadable', { file, reason }, error);
  }
}

function findPosition(text: string): { line: number | null; column: number | null } {
  const offset = jsonErrorOffset(text);
  if (offset === undefined) return { line: null, column: null };
  const before = text.slice(0, offset).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 };
}

export function valueAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = raw;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

/** An invalid field. `found` never contains a secret. */
export interface ConfigProblem {
  readonly path: string;
  /** Null for an unknown field, in which case `expected` lists the known fields. */
  readonly found: string | null;
  readonly expected: string;
  /** The name or value that the user probably meant. */
  readonly suggestion?: string | null;
}

/** Returns `config-invalid` with every problem. */
export function configInvalid(file: string, problems: readonly ConfigProblem[]): Error {
  return configError('config-invalid', {
    file,
    paths: problems.map((problem) => problem.path),
    found: problems.map((problem) => problem.found ?? ''),
    expected: problems.map((problem) => problem.expected),
    suggestions: problems.map((problem) => problem.suggestion ?? ''),
  });
}
