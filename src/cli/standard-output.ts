import { fstatSync, writeSync } from 'node:fs';
import { Writable } from 'node:stream';

const STANDARD_OUTPUT = 1;

type Stdout = Writable & { isTTY?: boolean; columns?: number };

/**
 * Returns standard output. Node.js takes a short write to a file for a complete one, so that the end of a result would
 * be missing on a disk that has just become full, without an error: to a file all bytes are written here.
 */
export function standardOutput(): Stdout {
  return fstatSync(STANDARD_OUTPUT).isFile() ? new FileOutput() : process.stdout;
}

class FileOutput extends Writable {
  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      for (let at = 0; at < chunk.length; ) at += writeSync(STANDARD_OUTPUT, chunk, at);
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
