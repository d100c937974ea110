import { closeSync, openSync, readSync } from 'node:fs';
import path from 'node:path';
import { tooLarge } from '../disk/regular-file.ts';

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
