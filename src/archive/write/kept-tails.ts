import { hash as digest } from 'node:crypto';
import { type FileLayer, openIfFile, readWhole } from '../files/file-layer.ts';
import { logFolder, parseTailName, tailPath } from '../format/layout.ts';
import { RECORD_HEADER_BYTES } from '../format/record-header.ts';

const MAGIC = Buffer.from([0x89, 0x4d, 0x4b, 0x52]);

/**
 * Looks for payloads in the tails that were put aside. A tail does not say where it stood, so header CRCs cannot be
 * asked; the SHA-256 of the payload is.
 *
 * @param wanted hexadecimal SHA-256 values
 */
export function payloadsInTails(
  files: FileLayer,
  dir: string,
  wanted: ReadonlySet<string>,
): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  if (wanted.size === 0) return found;
  for (const name of files.list(logFolder(dir))) {
    const number = parseTailName(name);
    if (number === undefined) continue;
    const tail = openIfFile(files, tailPath(dir, number));
    if (tail === undefined) continue;
    tail.close();
    const bytes = readWhole(files, tailPath(dir, number));
    for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
      if (at + RECORD_HEADER_BYTES > bytes.length) break;
      const hash = bytes.toString('hex', at + 16, at + 48);
      if (!wanted.has(hash)) continue;
      const start = at + RECORD_HEADER_BYTES;
      const payload = bytes.subarray(start, start + bytes.readUInt32LE(at + 12));
      if (digest('sha256', payload, 'hex') === hash) found.set(hash, payload);
    }
  }
  return found;
}
