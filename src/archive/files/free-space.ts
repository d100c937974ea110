import { statfs } from 'node:fs/promises';

/** Bytes that an ordinary user can still write on the disk that holds `dir` (which must exist). */
export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
