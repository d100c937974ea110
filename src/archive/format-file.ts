import {
  archiveFormatNewer,
  archiveFormatUnreadable,
  archiveMissing,
  errnoOf,
} from '../errors/archive.ts';
import { type FileLayer, readWhole, replaceFile } from './file-layer.ts';
import { formatPath, logFolder } from './layout.ts';
import { FORMAT_VERSION } from './segment-header.ts';

const FORMAT = /^mailkeep archive (\d+)\n?$/;

/**
 * Reads FORMAT and refuses what this program cannot read.
 *
 * @throws `archive-missing` when the folder holds no archive, `archive-format-newer`, `archive-format-unreadable`
 */
export function checkFormat(files: FileLayer, dir: string): void {
  const text = readFormat(files, dir);
  if (text === undefined) {
    throw hasLog(files, dir) ? archiveFormatUnreadable(dir, null) : archiveMissing(dir);
  }
  const version = FORMAT.exec(text)?.[1];
  if (version === undefined) throw archiveFormatUnreadable(dir, text.slice(0, 64));
  if (Number(version) > FORMAT_VERSION) {
    throw archiveFormatNewer(dir, `mailkeep archive ${version}`, FORMAT_VERSION);
  }
}

/** True when the folder holds neither FORMAT nor a log: a new archive may be laid out there. */
export function isUnused(files: FileLayer, dir: string): boolean {
  return readFormat(files, dir) === undefined && !hasLog(files, dir);
}

/** Writes FORMAT durably. It comes first when an archive is laid out: a log without it is damage. */
export async function writeFormat(files: FileLayer, dir: string): Promise<void> {
  const text = `mailkeep archive ${FORMAT_VERSION}\n`;
  await replaceFile(files, formatPath(dir), Buffer.from(text, 'latin1'));
}

function readFormat(files: FileLayer, dir: string): string | undefined {
  try {
    return readWhole(files, formatPath(dir)).toString('utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function hasLog(files: FileLayer, dir: string): boolean {
  try {
    return files.list(logFolder(dir)).some((name) => name.endsWith('.seg'));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}
