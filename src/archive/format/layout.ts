import { join } from 'node:path';

/** A batch starts in a new segment once the hot one has reached this many bytes. */
export const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Folders and files of an archive hold private mail: nobody but the owner may look. */
export const FOLDER_MODE = 0o700;
export const FILE_MODE = 0o600;

/** A segment's file: `log/<number>.<generation>.seg`. Generation 1 is hot or not yet sealed, higher ones are sealed. */
export interface SegmentFile {
  readonly segment: number;
  readonly generation: number;
}

export function formatPath(dir: string): string {
  return join(dir, 'FORMAT');
}

export function logFolder(dir: string): string {
  return join(dir, 'log');
}

export function segmentName({ segment, generation }: SegmentFile): string {
  return `${String(segment).padStart(10, '0')}.${generation}.seg`;
}

export function segmentPath(dir: string, file: SegmentFile): string {
  return join(logFolder(dir), segmentName(file));
}

/** Files under this name are unfinished work: nobody reads them, and the writer removes them when it opens. */
export function temporaryPath(path: string): string {
  return `${path}.tmp`;
}

export function isTemporary(name: string): boolean {
  return name.endsWith('.seg.tmp');
}

/** Where torn tails are put aside. */
export function tailPath(dir: string, number: number): string {
  return join(logFolder(dir), `tail-${number}.bin`);
}

const SEGMENT_NAME = /^(\d{10})\.([1-9]\d{0,4})\.seg$/;
const TAIL_NAME = /^tail-([1-9]\d*)\.bin$/;

export function parseSegmentName(name: string): SegmentFile | undefined {
  const match = SEGMENT_NAME.exec(name);
  return match === null ? undefined : { segment: Number(match[1]), generation: Number(match[2]) };
}

/** The number of a file that holds a torn tail, or undefined when the name is another's. */
export function parseTailName(name: string): number | undefined {
  const match = TAIL_NAME.exec(name);
  return match === null ? undefined : Number(match[1]);
}
