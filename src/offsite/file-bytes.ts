import { createReadStream } from 'node:fs';
import { openRegularFile } from '../disk/regular-file.ts';

const CHUNK_BYTES = 1024 * 1024;

/** Yields the bytes of a file from one offset to another. @throws the system's errors */
export async function* fileBytes(path: string, from: number, to: number): AsyncIterable<Buffer> {
  if (from === to) return;
  const fd = openRegularFile(path);
  yield* createReadStream(path, { fd, start: from, end: to - 1, highWaterMark: CHUNK_BYTES });
}
