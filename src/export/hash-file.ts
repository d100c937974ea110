import { createHash } from 'node:crypto';
import { readFully } from '../archive/files/file-layer.ts';
import type { ExportFiles } from './export-files.ts';

const CHUNK_BYTES = 256 * 1024;

/** The bytes of a file from `start` up to `end`, in pieces that are used again: keep none. */
export function* filePieces(
  files: ExportFiles,
  path: string,
  range: { readonly start?: number; readonly end?: number } = {},
): Generator<Buffer, void, undefined> {
  const file = files.open(path, 'read');
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const end = range.end ?? Number.POSITIVE_INFINITY;
    for (let at = range.start ?? 0; at < end; ) {
      const got = readFully(file, chunk.subarray(0, Math.min(CHUNK_BYTES, end - at)), at);
      if (got === 0) return;
      yield chunk.subarray(0, got);
      at += got;
    }
  } finally {
    file.close();
  }
}

/** SHA-256 of a file, and its size. */
export function hashFile(
  files: ExportFiles,
  path: string,
): { readonly sha256: string; readonly size: number } {
  const digest = createHash('sha256');
  let size = 0;
  for (const piece of filePieces(files, path)) {
    digest.update(piece);
    size += piece.length;
  }
  return { sha256: digest.digest('hex'), size };
}
