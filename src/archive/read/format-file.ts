import { NOT_REGULAR } from '../../disk/regular-file.ts';
import {
  archiveFormatNewer,
  archiveFormatUnreadable,
  archiveMissing,
} from '../../errors/archive.ts';
import { errnoName, MailkeepError } from '../../errors/mailkeep-error.ts';
import { type FileLayer, readFully, readWhole, replaceFile } from '../files/file-layer.ts';
import { CODEC, RECORD_HEADER_BYTES, readRecordHeader } from '../format/headers.ts';
import { formatPath, logFolder } from '../format/layout.ts';
import { type OpenSegment, type SegmentListing, withSegment } from './segment-files.ts';

/** What an archive is called before anything in it is compressed with zstd; every program reads it. */
const FIRST_FORMAT = 1;
/** The first format in which records may be compressed with zstd, and the newest that this program reads. */
export const ZSTD_FORMAT = 2;

const FORMAT = /^mailkeep archive (\d+)\n?$/;

/**
 * Reads FORMAT, refuses what this program cannot read, and returns the number of the format.
 *
 * @throws `archive-missing` when the folder holds no archive, `archive-format-newer`, `archive-format-unreadable`
 */
export function checkFormat(files: FileLayer, dir: string): number {
  const text = readFormat(files, dir);
  if (text === undefined) {
    throw hasLog(files, dir) ? archiveFormatUnreadable(dir, null) : archiveMissing(dir);
  }
  return refuseUnknownFormat(dir, text);
}

/**
 * Returns the number of the format that a text of FORMAT names.
 *
 * @param dir for the error
 * @throws `archive-format-newer`, `archive-format-unreadable`
 */
export function refuseUnknownFormat(dir: string, text: string): number {
  const version = FORMAT.exec(text)?.[1];
  if (version === undefined) throw archiveFormatUnreadable(dir, text.slice(0, 64));
  if (Number(version) > ZSTD_FORMAT) {
    throw archiveFormatNewer(dir, `mailkeep archive ${version}`, ZSTD_FORMAT);
  }
  return Number(version);
}

/** True when the folder holds neither FORMAT nor a log: a new archive may be laid out there. */
export function isUnused(files: FileLayer, dir: string): boolean {
  return readFormat(files, dir) === undefined && !hasLog(files, dir);
}

/** Writes the FORMAT of a new archive durably. It comes first when one is laid out: a log without it is damage. */
export async function writeFormat(files: FileLayer, dir: string): Promise<void> {
  await write(files, dir, FIRST_FORMAT);
}

/** Whether FORMAT says that records of this archive may be compressed with zstd. */
export function allowsZstd(files: FileLayer, dir: string): boolean {
  return checkFormat(files, dir) >= ZSTD_FORMAT;
}

/**
 * Makes FORMAT say, durably, that records may be compressed with zstd. A program that cannot read zstd then refuses the
 * archive instead of taking such records for damage. This has to be done before zstd gets into any file of the archive,
 * temporary ones included. The caller holds the archive's lock.
 */
export async function allowZstd(files: FileLayer, dir: string): Promise<void> {
  if (!allowsZstd(files, dir)) {
    await write(files, dir, ZSTD_FORMAT);
    return;
  }
  // A process that was killed may have left a FORMAT that shows, and would not outlive a power cut.
  await files.syncFolder(dir);
}

/** Returns whether a segment was sealed with zstd: whether its footer, which is always compressed, is stored so. */
export function isSealedWithZstd({ file, header, sealed }: OpenSegment): boolean {
  if (sealed === undefined) return false;
  const head = Buffer.alloc(RECORD_HEADER_BYTES);
  const got = readFully(file, head, sealed.offset);
  return readRecordHeader(head.subarray(0, got), 0, header, sealed.offset)?.codec === CODEC.zstd;
}

/**
 * Makes FORMAT allow zstd where a log holds zstd that FORMAT does not announce: a backup that was made by copying files
 * one by one may have FORMAT from before the first zstd, and segments from after it. Checks the first and the last
 * sealed segment, since an archive is compacted from its beginning and sealed at its end. The caller holds the archive's
 * lock.
 */
export async function announceZstd(
  files: FileLayer,
  dir: string,
  listing: SegmentListing,
): Promise<void> {
  if (allowsZstd(files, dir)) return;
  const sealed = [...listing].filter(([, generations]) => Math.max(...generations) > 1);
  for (const one of new Set([sealed.at(0), sealed.at(-1)])) {
    if (one === undefined || !holdsZstd(files, dir, ...one)) continue;
    await allowZstd(files, dir);
    return;
  }
}

function holdsZstd(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): boolean {
  try {
    return withSegment(files, dir, segment, generations, isSealedWithZstd);
  } catch (error) {
    // A damaged segment does not prevent writing after it; verification reports it.
    if (error instanceof MailkeepError && error.family === 'damage') return false;
    throw error;
  }
}

async function write(files: FileLayer, dir: string, version: number): Promise<void> {
  const text = `mailkeep archive ${version}\n`;
  await replaceFile(files, formatPath(dir), Buffer.from(text, 'latin1'));
}

function readFormat(files: FileLayer, dir: string): string | undefined {
  try {
    return readWhole(files, formatPath(dir)).toString('utf8');
  } catch (error) {
    const errno = errnoName(error);
    if (errno === 'ENOENT') return undefined;
    // Something other than a file has its name.
    if (errno === NOT_REGULAR || errno === 'EISDIR') return '';
    throw error;
  }
}

function hasLog(files: FileLayer, dir: string): boolean {
  try {
    return files.list(logFolder(dir)).some((name) => name.endsWith('.seg'));
  } catch (error) {
    if (errnoName(error) === 'ENOENT') return false;
    throw error;
  }
}
