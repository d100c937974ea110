import { errnoName, hasCode } from '../core/errors.ts';
import { archiveError, type DamageReason } from './errors.ts';
import { type FileLayer, type LogFile, openRegular, readFully } from './file-system.ts';
import {
  decodeSegmentHeader,
  logFolder,
  parseSegmentName,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  type SegmentHeader,
  segmentPath,
} from './format.ts';
import { readFooter, type SealedIndex } from './sealed-footer.ts';

/** The segments in the log directory, in order, each with its generations, highest first. */
export type SegmentListing = ReadonlyMap<number, readonly number[]>;

export function listSegments(files: FileLayer, dir: string): SegmentListing {
  const found = files
    .list(logFolder(dir))
    .map(parseSegmentName)
    .filter((file) => file !== undefined)
    .sort((a, b) => a.segment - b.segment || b.generation - a.generation);
  const listing = new Map<number, number[]>();
  for (const { segment, generation } of found) {
    const generations = listing.get(segment);
    if (generations === undefined) listing.set(segment, [generation]);
    else generations.push(generation);
  }
  return listing;
}

/** Returns a segment's generations, highest first. */
export function listGenerations(files: FileLayer, dir: string, segment: number): readonly number[] {
  return listSegments(files, dir).get(segment) ?? [];
}

export interface OpenSegment {
  readonly file: LogFile;
  readonly name: SegmentFile;
  readonly path: string;
  readonly header: SegmentHeader;
  /** Undefined unless the file is sealed. Records in a sealed file are found by ordinal. */
  readonly sealed: { readonly index: SealedIndex; readonly offset: number } | undefined;
}

export function isSealed({ sealed }: OpenSegment): boolean {
  return sealed !== undefined;
}

export function segmentDamage({ path, name }: OpenSegment, offset: number, reason: DamageReason) {
  return archiveError('log-damaged', { file: path, segment: name.segment, offset, reason });
}

/**
 * Opens a segment's current generation: the highest with an intact footer; failing that, the
 * unsealed generation 1; failing that, the highest with an intact header, whose records can be walked.
 *
 * @throws `log-damaged` if no generation has an intact header; the system's error if a file has disappeared
 */
export function openCurrentGeneration(
  files: FileLayer,
  dir: string,
  segment: number,
  generations = listGenerations(files, dir, segment),
): OpenSegment {
  let unsealed: OpenSegment | undefined;
  let footerless: OpenSegment | undefined;
  try {
    for (const generation of generations) {
      const opened = openSegment(files, dir, { segment, generation });
      if (opened === undefined) continue;
      if (opened.sealed !== undefined) {
        unsealed?.file.close();
        footerless?.file.close();
        return opened;
      }
      if (generation === 1) unsealed = opened;
      else if (footerless === undefined) footerless = opened;
      else opened.file.close();
    }
  } catch (error) {
    unsealed?.file.close();
    footerless?.file.close();
    throw error;
  }
  const fallback = unsealed ?? footerless;
  if (fallback === undefined) {
    throw archiveError('log-damaged', {
      file: segmentPath(dir, { segment, generation: generations[0] ?? 1 }),
      segment,
      offset: 0,
      reason: generations.length === 0 ? 'segment-missing' : 'segment-header',
    });
  }
  if (fallback === unsealed) footerless?.file.close();
  return fallback;
}

/** Opens a segment even if sealing replaced its file after the listing. Returns undefined if no header is intact. */
export function tryOpenSegment(
  files: FileLayer,
  dir: string,
  segment: number,
  listing?: SegmentListing,
): OpenSegment | undefined {
  try {
    return openCurrentGeneration(files, dir, segment, listing?.get(segment));
  } catch (error) {
    if (hasCode(error, 'log-damaged')) return undefined;
    if (errnoName(error) !== 'ENOENT' || listing === undefined) throw error;
    return tryOpenSegment(files, dir, segment);
  }
}

/** Calls `act` with the generation in force, then closes it. @throws errors from `openCurrentGeneration` and `act` */
export function withSegment<T>(
  files: FileLayer,
  dir: string,
  segment: number,
  act: (opened: OpenSegment) => T,
  generations = listGenerations(files, dir, segment),
): T {
  const opened = openCurrentGeneration(files, dir, segment, generations);
  try {
    return act(opened);
  } finally {
    opened.file.close();
  }
}

/** Returns undefined if the path is not a file, or its header is damaged or foreign. The caller closes the file. */
export function openSegment(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
  path = segmentPath(dir, name),
): OpenSegment | undefined {
  const file = openRegular(files, path);
  if (file === undefined) return undefined;
  try {
    const header = readSegmentHeader(file, name);
    if (header !== undefined) {
      const sealed = name.generation === 1 ? undefined : readFooter(file, header);
      return { file, name, path, header, sealed };
    }
  } catch (error) {
    file.close();
    throw error;
  }
  file.close();
  return undefined;
}

function readSegmentHeader(file: LogFile, name: SegmentFile): SegmentHeader | undefined {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const header = decodeSegmentHeader(bytes.subarray(0, readFully(file, bytes, 0)));
  return header?.segment === name.segment && header.generation === name.generation
    ? header
    : undefined;
}
