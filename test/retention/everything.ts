import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { realFiles } from '../../src/archive/file-system.ts';
import { listSegments, openSegment } from '../../src/archive/segment-files.ts';
import { segmentRecords } from '../../src/archive/segment-reader.ts';

/** Every byte below the folder as it lies there, every payload of the log and every packed text of the catalog. */
export function everything(dir: string): string {
  const pieces = [inFilesAndLog(dir)];
  const db = new Database(path.join(dir, 'catalog.sqlite'), { readonly: true });
  for (const table of ['texts', 'attachment_texts']) {
    const rows = db.prepare<[], Buffer>(`SELECT text FROM ${table} WHERE text IS NOT NULL`).pluck();
    for (const text of rows.all()) pieces.push(lowerCase(zstdDecompressSync(text)));
  }
  db.close();
  return pieces.join('');
}

/** The same without what the catalog packs. */
export function inFilesAndLog(dir: string): string {
  const pieces = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)));
  for (const [segment, generations] of listSegments(realFiles, dir)) {
    for (const generation of generations) {
      const opened = openSegment(realFiles, dir, { segment, generation });
      if (opened === undefined) throw new Error(`segment ${segment}`);
      for (const record of segmentRecords(opened, { digest: true })) {
        if (record.what === 'record' && record.payload !== undefined) {
          pieces.push(Buffer.from(record.payload));
        }
      }
      opened.file.close();
    }
  }
  return lowerCase(Buffer.concat(pieces));
}

function lowerCase(bytes: Buffer): string {
  return bytes.toString('latin1').toLowerCase();
}
