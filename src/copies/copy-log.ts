import { existsSync, lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { archiveError } from '../archive/errors.ts';
import { type FileLayer, readFully, realFiles, writeAll } from '../archive/file-system.ts';
import {
  FOLDER_MODE,
  formatPath,
  logFolder,
  segmentPath,
  temporaryPath,
} from '../archive/format.ts';
import { convertWriteErrors, publishFile } from '../archive/hot-segment.ts';
import { holderPath, withLock } from '../archive/lock.ts';
import { sealedCommit } from '../archive/log-reader.ts';
import { createArchive, removeUnfinished } from '../archive/log-writer.ts';
import { mendSegment, reportUnreadable } from '../archive/mend-segment.ts';
import {
  allowsZstd,
  allowZstd,
  checkFormat,
  isSealedWithZstd,
  isUnused,
  readBatchesToEnd,
} from '../archive/recovery.ts';
import { removeGenerations } from '../archive/seal.ts';
import {
  listGenerations,
  listSegments,
  type OpenSegment,
  openCurrentGeneration,
  type SegmentListing,
  segmentDamage,
  tryOpenSegment,
  withSegment,
} from '../archive/segment-files.ts';
import {
  type ChainState,
  segmentBatches,
  verifyWrittenSegment,
} from '../archive/segment-reader.ts';
import { catalogFile } from '../catalog/database.ts';
import { readCatalogHead } from '../catalog/implied.ts';
import type { IndexingProgress } from '../catalog/indexer.ts';
import { removeCatalogs, updateCatalog } from '../catalog/open-writer.ts';
import { type FoldProgress, rebuildWithExtractors } from '../catalog/rebuild.ts';
import { usageError } from '../core/error-tables.ts';
import { errnoName } from '../core/errors.ts';
import { isWithin, makeFoldersDurably } from '../core/files.ts';
import { removeSetAsideFiles } from '../verify/prune.ts';
import { copyError } from './errors.ts';

interface SegmentState {
  readonly generation: number;
  readonly archiveId: string;
  readonly end: ChainState;
  /** Milliseconds since the epoch; null if the segment has no commit. */
  readonly endedAt: number | null;
  /** Ordinals of purged records. Only sealed files have any. */
  readonly purged: ReadonlySet<number>;
  readonly damaged: boolean;
  /** Commits of an unsealed file, in order. */
  readonly boundaries: readonly Boundary[];
}

export interface Boundary extends ChainState {
  /** Offset of its end in the generation 1 file. */
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

/** Only batches after the highest acknowledged commit can be torn. This value declares every batch acknowledged. */
export const NO_TORN_BATCH = Number.POSITIVE_INFINITY;

/**
 * Reads the state of a segment. Returns undefined if it is missing, or none of its files has an intact header.
 * @param listing a recent listing of the directory; repeated if a listed file has disappeared
 * @param seen highest commit known to have been acknowledged; `NO_TORN_BATCH` for all segments except the last
 */
export function segmentState(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
  seen: number,
): SegmentState | undefined {
  const opened = tryOpenSegment(files, dir, segment, listing);
  if (opened === undefined) return undefined;
  try {
    const { header, name, sealed } = opened;
    const about = { generation: name.generation, archiveId: header.archiveId.toString('hex') };
    const commit = sealed && sealedCommit(opened, sealed.index, sealed.offset);
    if (commit !== undefined) {
      const { number, hash, time } = commit;
      const purged = new Set(sealed?.index.purged());
      const end = { number, hash };
      return { ...about, end, endedAt: time, purged, damaged: false, boundaries: [] };
    }
    const boundaries: Boundary[] = [];
    let damaged = name.generation > 1;
    for (const item of readBatchesToEnd(opened, seen, { digest: false }, () => undefined)) {
      if (item.what === 'remainder') break;
      damaged = damaged || item.problems.length > 0;
      const { number, hash, time } = item.commit;
      boundaries.push({ number, hash, time, offset: item.end });
    }
    const last = boundaries.at(-1);
    const { number, hash } = last ?? { number: header.previousNumber, hash: header.previousHash };
    const end = { number, hash };
    return {
      ...{ ...about, end, damaged, boundaries },
      endedAt: last?.time ?? null,
      purged: new Set(),
    };
  } finally {
    opened.file.close();
  }
}

interface CopyOptions {
  readonly from: string;
  /** The caller must hold this directory's lock. */
  readonly to: string;
  readonly files?: FileLayer;
  readonly signal: AbortSignal;
  /** Highest commit recorded in the local catalog, or 0. A power cut may have torn later batches. */
  readonly seen: number;
  /**
   * Called before removing a payload from the destination because it was purged here. The destination may contain other
   * copies, such as text in a catalog. These must also be removed, because nothing would reveal them later.
   */
  readonly forget: () => Promise<void>;
  readonly progress?: (done: { readonly segments: number; readonly of: number }) => void;
}

export type CopyLogResult = Awaited<ReturnType<typeof copyLog>>;

const CHUNK_BYTES = 1024 * 1024;

/**
 * Copies a log's new commits to another directory, even while a writer is active. Writes whole segments under temporary
 * names, and renames them once they are verified. Never shortens or rolls back the destination.
 * @throws `copy-other-archive`, `copy-unreadable`, `copy-ahead`, `copy-diverged`: nothing was changed
 * @throws `log-damaged` for a damaged local segment; `disk-full` and other disk errors: copied segments are kept, and
 * repeating the command resumes the copy
 */
export async function copyLog(options: CopyOptions) {
  const { from, to, signal, forget, progress } = options;
  const files = reportUnreadable(options.files ?? realFiles);
  checkFormat(files, from);
  const ours = listSegments(files, from);
  await createArchive(files, to);
  const states = new Map<number, SegmentState>();
  const lastHere = [...ours.keys()].at(-1);
  const seenIn = (segment: number) => (segment === lastHere ? options.seen : NO_TORN_BATCH);
  for (const segment of ours.keys()) {
    const state = segmentState(files, from, segment, ours, seenIn(segment));
    if (state === undefined || state.damaged) {
      const reason = state === undefined ? 'segment-header' : 'bytes';
      throw damagedSegment(from, segment, reason, ours.get(segment));
    }
    states.set(segment, state);
  }
  // Directories with many segments are slow to list, so they are listed again only after writes.
  const theirs = listSegments(files, to);
  refuseStrangers(files, to, theirs, from, states);
  await removeUnfinished(files, to);
  const dropped: string[] = [];
  let [written, bytes, purged, done] = [0, 0, 0, 0];
  for (const [segment, here] of states) {
    signal.throwIfAborted();
    const there = segmentState(files, to, segment, theirs, NO_TORN_BATCH);
    const behind = isBehind(here, there);
    if (behind) {
      // Earlier purges are unknown if the destination's segment is unreadable.
      if ([...here.purged].some((at) => there?.purged.has(at) !== true)) await forget();
      bytes += await transfer(files, from, to, segment, here, seenIn(segment));
      written += 1;
      purged += [...here.purged].filter((at) => there?.purged.has(at) === false).length;
    }
    if (behind || (theirs.get(segment)?.length ?? 0) > 1)
      dropped.push(...(await dropReplaced(files, to, segment)));
    done += 1;
    progress?.({ segments: done, of: states.size });
  }
  const last = [...states.values()].at(-1);
  return {
    archiveId: last?.archiveId ?? null,
    /** Last commit in both directories. */
    number: last?.end.number ?? 0,
    hash: last?.end.hash ?? null,
    segments: states.size,
    written,
    bytes,
    /** Number of records removed from the destination because they had been purged here. */
    purged,
    /** Files in the destination that were replaced by a newer generation. */
    dropped,
  };
}

/** Checks the whole destination before anything is changed. */
function refuseStrangers(
  files: FileLayer,
  to: string,
  theirs: SegmentListing,
  from: string,
  states: ReadonlyMap<number, SegmentState>,
): void {
  const last = [...states.values()].at(-1);
  let isOurs = false;
  let unreadable: number | undefined;
  for (const segment of theirs.keys()) {
    const there = segmentState(files, to, segment, theirs, NO_TORN_BATCH);
    const here = states.get(segment);
    if (there === undefined) {
      unreadable ??= segment;
      continue;
    }
    isOurs = true;
    if (last !== undefined && there.archiveId !== last.archiveId) {
      throw copyError('copy-other-archive', { to, found: there.archiveId, wanted: last.archiveId });
    }
    const facts = { to, number: there.end.number, here: last?.end.number ?? 0 };
    if (here === undefined || there.end.number > here.end.number)
      throw copyError('copy-ahead', facts);
    const { number, hash } = there.end;
    const commit = here.end.number === number ? here.end : commitIn(files, from, segment, number);
    if (commit?.hash !== hash) throw copyError('copy-diverged', facts);
  }
  // Once one segment is known to belong to this archive, unreadable ones are assumed to be damaged.
  if (unreadable !== undefined && !isOurs) throw copyError('copy-unreadable', { to });
  if (unreadable !== undefined && !states.has(unreadable))
    throw copyError('copy-unreadable', { to });
}

/** Returns the commit with this number, in a segment or immediately before it; undefined if there is none. */
export function commitIn(
  files: FileLayer,
  dir: string,
  segment: number,
  number: number,
): ChainState | undefined {
  return withSegment(files, dir, segment, (opened) => {
    const { previousNumber, previousHash } = opened.header;
    if (previousNumber === number) return { number, hash: previousHash };
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      if (item.what === 'batch' && item.commit.number === number) return item.commit;
    }
    return undefined;
  });
}

function isBehind(here: SegmentState, there: SegmentState | undefined): boolean {
  return (
    there === undefined ||
    there.damaged ||
    there.end.number < here.end.number ||
    there.generation < here.generation ||
    [...here.purged].some((at) => !there.purged.has(at))
  );
}

/** Copies a segment up to the checked commit. Returns the number of bytes copied. */
async function transfer(
  files: FileLayer,
  from: string,
  to: string,
  segment: number,
  { end }: SegmentState,
  seen: number,
): Promise<number> {
  const source = openCurrentGeneration(files, from, segment);
  try {
    // A writer can switch to zstd at any time. After a file-by-file backup, FORMAT can be older than the segments.
    if (allowsZstd(files, from) || isSealedWithZstd(source)) {
      await convertWriteErrors(formatPath(to), 0, () => allowZstd(files, to));
    }
    const { generation } = source.name;
    const newest = Math.max(0, ...listGenerations(files, to, segment));
    // A segment that was mended in the destination already uses our file's generation number.
    const isTaken = newest > generation || (newest === generation && generation > 1);
    if (isTaken) {
      const mended = await mendSegment({
        dir: to,
        segment,
        files,
        sources: [source],
        find: () => undefined,
        reach: end,
      });
      if (mended === undefined) throw damageAt(source);
      return source.file.size();
    }
    return await copyFile(files, source, segmentPath(to, source.name), seen);
  } finally {
    source.file.close();
  }
}

async function copyFile(
  files: FileLayer,
  source: OpenSegment,
  path: string,
  seen: number,
): Promise<number> {
  // Excludes bytes after the last commit of the current segment.
  const length = source.sealed === undefined ? committedLength(source, seen) : source.file.size();
  await publishFile(files, path, length, {
    async write(target) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let at = 0; at < length; ) {
        const piece = chunk.subarray(0, Math.min(CHUNK_BYTES, length - at));
        if (readFully(source.file, piece, at) < piece.length) throw damageAt(source);
        await writeAll(target, piece, at);
        at += piece.length;
      }
    },
    check: (temporary) =>
      verifyWrittenSegment(files, source.name, temporary, source.sealed !== undefined, () =>
        damageAt(source),
      ),
  });
  return length;
}

/** Returns the end of the last commit in a segment of generation 1. @param seen as for `segmentState` */
export function committedLength(source: OpenSegment, seen: number): number {
  let length = source.file.size();
  for (const item of readBatchesToEnd(source, seen, { digest: false }, () => undefined)) {
    length = item.what === 'batch' ? item.end : item.offset;
  }
  return length;
}

/** Removes replaced generations, which still contain purged payloads. */
async function dropReplaced(files: FileLayer, to: string, segment: number): Promise<string[]> {
  const generations = listGenerations(files, to, segment);
  if (generations.length < 2) return [];
  const { sealed, name } = withSegment(files, to, segment, (opened) => opened, generations);
  if (sealed === undefined) return [];
  return await removeGenerations(files, to, segment, name.generation);
}

function damageAt(segment: OpenSegment) {
  return segmentDamage(segment, 0, 'bytes');
}

/** @param generations the segment's generations in a listing */
export function damagedSegment(
  dir: string,
  segment: number,
  reason: 'segment-header' | 'segment-missing' | 'bytes',
  [generation = 1]: readonly number[] = [],
) {
  const file = segmentPath(dir, { segment, generation });
  return archiveError('log-damaged', { file, segment, offset: 0, reason });
}

export type CopiedCatalogState = 'rebuilt' | 'updated' | 'none' | 'removed' | 'as it was';

interface CopyOrder {
  /** Absolute. */
  readonly from: string;
  readonly to: string;
  /** True to rebuild the copy's catalog. By default, an existing catalog is updated. */
  readonly rebuild: boolean;
  readonly signal: AbortSignal;
  readonly onCopy: (progress: { readonly segments: number; readonly of: number }) => void;
  readonly onFold: (progress: FoldProgress) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

/**
 * Creates or updates a copy of an archive. Verifies every byte.
 * @throws copy-onto-itself, copy-elsewhere, copy-linked, copy-other-archive, copy-ahead, copy-diverged, archive-in-use;
 * usage-save-failed if the directory cannot be created
 */
export async function copyArchive(
  order: CopyOrder,
): Promise<CopyLogResult & { readonly catalog: CopiedCatalogState }> {
  const { from, to, signal, onCopy, onFold, onIndex } = order;
  if (isWithin(to, from)) throw copyError('copy-onto-itself', { to });
  makeCopyFolder(to);
  refuseOtherFiles(to);
  const log = logFolder(to);
  if (lstatSync(log, { throwIfNoEntry: false })?.isSymbolicLink() === true) {
    throw copyError('copy-linked', { file: log });
  }
  return withLock(to, async () => {
    let forgotten = false;
    const copied = await copyLog({
      from,
      to,
      signal,
      seen: readCatalogHead(from)?.number ?? 0,
      progress: onCopy,
      forget: async () => {
        forgotten = (await removeCatalogs(to)) || forgotten;
        await removeSetAsideFiles(realFiles, to);
      },
    });
    if (!order.rebuild) return { ...copied, catalog: await refreshCatalog(to, forgotten, signal) };
    await rebuildWithExtractors({ dir: to, signal, onFold, onIndex });
    return { ...copied, catalog: 'rebuilt' };
  });
}

/** @throws usage-save-failed if the directory cannot be created */
export function makeCopyFolder(to: string): void {
  try {
    makeFoldersDurably(to, FOLDER_MODE);
  } catch (error) {
    throw usageError('usage-save-failed', { file: to, reason: errnoName(error) });
  }
}

/** Files found on any disk, or left behind by an archive's lock. SQLite creates the journal. */
export const INCIDENTAL = new Set([
  'lost+found',
  'lock',
  'lock-journal',
  path.basename(holderPath('.')),
]);
/** Files left behind by an early interruption. */
const STARTED = new Set(
  [logFolder('.'), temporaryPath(formatPath('.'))].map((one) => path.basename(one)),
);

/** Refuses a directory that contains other files, where somebody could overlook the archive and delete it. */
function refuseOtherFiles(to: string): void {
  if (!isUnused(realFiles, to)) return;
  const stranger = readdirSync(to).find((name) => !INCIDENTAL.has(name) && !STARTED.has(name));
  if (stranger !== undefined) throw copyError('copy-elsewhere', { to, stranger });
}

async function refreshCatalog(
  dir: string,
  forgotten: boolean,
  signal: AbortSignal,
): Promise<CopiedCatalogState> {
  if (existsSync(catalogFile(dir))) return updateCatalog(dir, signal);
  return forgotten ? 'removed' : 'none';
}
