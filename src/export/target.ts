import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  exportFormatDiffers,
  exportManifestDamaged,
  exportTargetForeign,
} from '../errors/export.ts';
import { type ExportFiles, isRunning, writerOf, writing } from './export-files.ts';
import { filePieces } from './hash-file.ts';
import {
  type ExportFormat,
  MANIFEST_NAME,
  ManifestDamaged,
  type ManifestEvent,
  readManifest,
  UNFINISHED_NAME,
} from './manifest.ts';

/** Names in a folder that belong to the system, not to anybody's export. */
const SYSTEMS_OWN = /^(?:\.|lost\+found$|desktop\.ini$|thumbs\.db$|\$recycle\.bin$|system volume)/i;

/** What is at the target of an export into a folder. */
export interface FolderTarget {
  /** True when an earlier export is there, whole. */
  readonly finished: boolean;
  /** True when one was begun and did not end. */
  readonly unfinished: boolean;
}

/**
 * Inspects the folder that an export is to go to. Changes nothing.
 *
 * @throws export-target-foreign when it holds anything else, export-write-failed when it cannot be read
 */
export async function inspectFolder(files: ExportFiles, folder: string): Promise<FolderTarget> {
  return await writing(folder, async () => {
    const kind = files.kindOf(folder);
    if (kind === undefined) return { finished: false, unfinished: false };
    if (kind !== 'folder') throw exportTargetForeign(folder, 'folder');
    const finished = files.kindOf(path.join(folder, MANIFEST_NAME)) === 'file';
    const unfinished = files.kindOf(path.join(folder, UNFINISHED_NAME)) === 'file';
    // The marker is the first file of an export: before it there is nothing, or an unfinished one of itself.
    const foreign = (name: string): boolean =>
      !SYSTEMS_OWN.test(name) && writerOf(name) === undefined;
    if (!finished && !unfinished && files.list(folder).some(foreign)) {
      throw exportTargetForeign(folder, 'folder');
    }
    return { finished, unfinished };
  });
}

/** Removes temporary files that killed runs left next to a zip. */
export async function sweepZip(files: ExportFiles, zip: string): Promise<void> {
  const folder = path.dirname(zip);
  if (files.kindOf(folder) !== 'folder') return;
  for (const name of files.list(folder)) {
    const pid = name.startsWith(`.${path.basename(zip)}`)
      ? writerOf(name.slice(path.basename(zip).length + 1))
      : undefined;
    if (pid === undefined || isRunning(pid)) continue;
    await writing(name, () => files.remove(path.join(folder, name)));
  }
}

/** Yields everything in a manifest; proven only when it ends. @throws export-manifest-damaged, export-format-differs */
export async function* manifestEvents(
  file: string,
  lines: AsyncIterable<string> | Iterable<string>,
  wanted?: ExportFormat,
): AsyncGenerator<ManifestEvent, void, undefined> {
  try {
    for await (const event of readManifest(lines)) {
      if (event.what === 'head' && wanted !== undefined && event.head.format !== wanted) {
        throw exportFormatDiffers(path.dirname(file), event.head.format, wanted);
      }
      yield event;
    }
  } catch (error) {
    throw error instanceof ManifestDamaged ? exportManifestDamaged(file) : error;
  }
}

/** The longest line of a manifest: an entry with the longest names is a few kilobytes. */
const LONGEST_LINE_BYTES = 1024 * 1024;
const LF = 10;

/**
 * The lines of a text that comes in pieces of UTF-8. Other work gets its turn between pieces, an interruption too.
 *
 * @param longest bytes of a line
 * @throws ManifestDamaged for a longer one
 */
export async function* linesOf(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  longest = LONGEST_LINE_BYTES,
): AsyncGenerator<string, void, undefined> {
  let begun: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    await nextTurn();
    let from = 0;
    for (;;) {
      const found = piece.indexOf(LF, from);
      const end = found === -1 ? piece.length : found;
      bytes += end - from;
      if (bytes > longest) throw new ManifestDamaged('a line that is too long');
      // A copy: pieces are used again.
      begun.push(Buffer.from(piece.subarray(from, end)));
      if (found === -1) break;
      yield Buffer.concat(begun).toString('utf8');
      begun = [];
      bytes = 0;
      from = found + 1;
    }
  }
  if (bytes > 0) yield Buffer.concat(begun).toString('utf8');
}

/** The lines of a file. */
export function fileLines(files: ExportFiles, file: string): AsyncIterable<string> {
  return linesOf(filePieces(files, file));
}
