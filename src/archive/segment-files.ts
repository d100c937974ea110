import { hasCode } from '../core/errors.ts';
import { archiveError, type DamageReason } from './errors.ts';
import { type FileLayer, type LogFile, openIfFile, readFully } from './file-system.ts';
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

/** The generations of each segment that the log's folder holds, highest first; segments in order. */
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

/** One local disk, which has everything. */
export const localSegments: SegmentStore = {
  present: () => true,
  async fetch() {},
  async publish() {},
};

/** The segments of a folder that may lack some: whoever gets `segment-elsewhere` has them brought there. */
export function segmentsHere(files: FileLayer, dir: string): SegmentStore {
  const refuse = async (): Promise<void> => {
    throw new Error('segments are not brought here');
  };
  return {
    present: (segment) => listSegments(files, dir).has(segment),
    ...{ fetch: refuse, publish: refuse },
  };
}

/**
 * Returns the numbers of the log's segments in order. One disk has what it lists; where segments can be elsewhere, all up to
 * the last one exist.
 */
export function segmentNumbers(listing: SegmentListing, store: SegmentStore): number[] {
  const here = [...listing.keys()];
  if (store === localSegments) return here;
  return Array.from({ length: here.at(-1) ?? 0 }, (_, index) => index + 1);
}

export interface OpenSegment {
  readonly file: LogFile;
  readonly name: SegmentFile;
  readonly path: string;
  readonly header: SegmentHeader;
  /** Present when the file is sealed: records are then found by ordinal. */
  readonly sealed: { readonly index: SealedIndex; readonly offset: number } | undefined;
}

/** Returns the error for bytes of a segment that are not as they were written. */
export function damageIn({ path, name }: OpenSegment, offset: number, reason: DamageReason) {
  return archiveError('log-damaged', { file: path, segment: name.segment, offset, reason });
}

/**
 * Opens the generation of a segment that is in force: the highest with a whole footer, else the unsealed first one, else
 * the highest with an intact header (its footer is damaged, but its records can be walked).
 *
 * @throws `log-damaged` when no generation has an intact header; the system's error when a file went away meanwhile
 */
export function openInForce(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
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

/** Opens the generation that is in force, hands it to `act` and closes it. Throws as `openInForce` and `act` do. */
export function withSegment<T>(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
  act: (opened: OpenSegment) => T,
): T {
  const opened = openInForce(files, dir, segment, generations);
  try {
    return act(opened);
  } finally {
    opened.file.close();
  }
}

/**
 * Undefined when the file's header is not intact or belongs to another file, and where something other than a file has
 * its name. The caller closes the file.
 */
export function openSegment(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
  path = segmentPath(dir, name),
): OpenSegment | undefined {
  const file = openIfFile(files, path);
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

/** Where the files of segments are when they are not in the log's folder. The segment that is written to always is. */
export interface SegmentStore {
  /** False where the log has a segment whose file in force is not in the folder: `fetch` brings it. */
  present(segment: number): boolean;
  /**
   * Brings files into the log's folder, intact and under their own names. Resolves when all are there; it may be asked for
   * some that are.
   */
  fetch(segments: readonly number[]): Promise<void>;
  /**
   * Takes the sealed file of a segment. The generations before it are removed when this has resolved, and stay when it
   * fails. An interruption may have it asked again for a file that it has.
   */
  publish(sealed: SegmentFile): Promise<void>;
}

/**
 * Brings every segment up to `last` into the log's folder, for what reads the folder alone. They are asked for one at a time,
 * and only those that are elsewhere.
 *
 * @throws what `fetch` throws
 */
export async function fetchAll(store: SegmentStore, last: number): Promise<void> {
  for (let segment = 1; segment <= last; segment += 1) {
    if (!store.present(segment)) await store.fetch([segment]);
  }
}

/**
 * Reads what may need segments that are elsewhere: fetches them and reads again.
 *
 * @param read may be called several times, from its beginning
 * @throws `segment-elsewhere` when a segment is still elsewhere after it was fetched; what `fetch` and `read` throw
 */
export async function fetching<T>(store: SegmentStore, read: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!hasCode(error, 'segment-elsewhere')) throw error;
      const segment = Number(error.facts.segment);
      await store.fetch([segment]);
      if (!store.present(segment)) throw error;
    }
  }
}
