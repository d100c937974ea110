import { isUtf8 } from 'node:buffer';
import { createWriteStream, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import yauzl, { type Entry, type ZipFile } from 'yauzl';
import { errnoOf } from '../errors/mailkeep-error.ts';

/**
 * Why an entry of a zip was not unpacked, or none of the rest was: its name leads out of the folder, or is none that a file
 * can have; it is a link; it is encrypted; it inflates to far more than mail does; it is damaged or packed in another way.
 */
export type ZipProblem = 'zip-name' | 'zip-link' | 'zip-encrypted' | 'zip-bomb' | 'zip-damaged';

/** What zip files may still inflate to; shared with those that lie in them. */
export interface ZipBudget {
  bytes: number;
  entries: number;
}

/** Mail packs to a twentieth at best. */
const MOST_RATIO = 200;
const SMALL_BYTES = 64 * 1024 * 1024;
const MOST_ENTRIES = 2_000_000;
const MOST_LEVELS = 64;
const MOST_NAME_BYTES = 255;

/** True for a file with the directory of a zip, whatever its entries are. @throws system errors */
export async function isZip(file: string): Promise<boolean> {
  try {
    (await yauzl.openPromise(file, { lazyEntries: true, decodeStrings: false })).close();
    return true;
  } catch (error) {
    if (errnoOf(error) !== undefined) throw error;
    return false;
  }
}

/** Returns what a zip of this size may inflate to, with all that is in it. */
export function zipBudget(file: string): ZipBudget {
  return { bytes: statSync(file).size * MOST_RATIO + SMALL_BYTES, entries: MOST_ENTRIES };
}

/**
 * Unpacks the files of a zip into a folder, as far as its budget lasts. What cannot be unpacked is reported, and the rest
 * is still unpacked.
 *
 * @param onProblem called with the name of an entry, or an empty text where the zip itself cannot be read further
 * @throws system errors of the folder, such as ENOSPC; those of the zip are reported
 */
export async function unpackZip(
  file: string,
  into: string,
  budget: ZipBudget,
  signal: AbortSignal,
  onProblem: (name: string, problem: ZipProblem | string) => void,
): Promise<void> {
  let zip: ZipFile | undefined;
  try {
    // Names are checked here: one that is not fit must not keep the others from being read.
    zip = await yauzl.openPromise(file, {
      lazyEntries: true,
      autoClose: false,
      decodeStrings: false,
    });
    for await (const entry of zip.eachEntry()) {
      if (signal.aborted) return;
      const name = nameOf(entry);
      if (name.endsWith('/') || /(?:^|\/)(?:__MACOSX\/|\._)/.test(name)) continue;
      const problem = problemOf(entry, name, budget);
      if (problem !== undefined) {
        onProblem(name, problem);
        if (budget.entries <= 0) return;
        continue;
      }
      await unpackEntry(zip, entry, path.join(into, ...levelsOf(name)), (reason) =>
        onProblem(name, reason),
      );
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOSPC' || !(error instanceof Error)) throw error;
    onProblem('', errnoOf(error) ?? 'zip-damaged');
  } finally {
    zip?.close();
  }
}

function nameOf(entry: Entry): string {
  const raw = Buffer.from(entry.fileNameRaw);
  // Many programs write UTF-8 without saying so.
  const flags = isUtf8(raw) ? entry.generalPurposeBitFlag | 0x800 : entry.generalPurposeBitFlag;
  return yauzl.getFileNameLowLevel(flags, raw, entry.extraFields, false);
}

function levelsOf(name: string): string[] {
  return name.split('/').filter((level) => level !== '' && level !== '.');
}

function problemOf(entry: Entry, name: string, budget: ZipBudget): ZipProblem | undefined {
  const levels = levelsOf(name);
  const isName =
    yauzl.validateFileName(name) === null &&
    levels.length > 0 &&
    levels.length <= MOST_LEVELS &&
    levels.every((level) => !level.includes('\0') && Buffer.byteLength(level) <= MOST_NAME_BYTES);
  if (!isName) return 'zip-name';
  // Of Unix: the kind of file is in the upper half.
  const mode = (entry.externalFileAttributes >>> 16) & 0o170000;
  if (mode !== 0 && mode !== 0o100000) return 'zip-link';
  if (entry.isEncrypted()) return 'zip-encrypted';
  const { uncompressedSize: size, compressedSize } = entry;
  budget.entries -= 1;
  if (
    size > compressedSize * MOST_RATIO + SMALL_BYTES ||
    size > budget.bytes ||
    budget.entries <= 0
  ) {
    return 'zip-bomb';
  }
  budget.bytes -= size;
  return undefined;
}

/** An entry that turns out to be damaged leaves what was read of it: a message that is cut is better than none. */
async function unpackEntry(
  zip: ZipFile,
  entry: Entry,
  to: string,
  onProblem: (problem: ZipProblem | string) => void,
): Promise<void> {
  try {
    mkdirSync(path.dirname(to), { recursive: true, mode: 0o700 });
    const stream = await zip.openReadStreamPromise(entry);
    await pipeline(stream, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOSPC') throw error;
    onProblem(errno ?? 'zip-damaged');
  }
}
