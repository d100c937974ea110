import { type FileLayer, readFully, writeAll } from '../archive/files/file-layer.ts';
import { realFiles } from '../archive/files/real-files.ts';
import { formatPath, segmentPath } from '../archive/format/layout.ts';
import { filesWithDamage } from '../archive/mend/bad-sectors.ts';
import { mendSegment } from '../archive/mend/mend-segment.ts';
import {
  allowsZstd,
  allowZstd,
  checkFormat,
  isSealedWithZstd,
} from '../archive/read/format-file.ts';
import { type ChainState, provenEnd, segmentBatches } from '../archive/read/segment-batches.ts';
import {
  damageIn,
  listSegments,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  withSegment,
} from '../archive/read/segment-files.ts';
import { batchesToTheEnd } from '../archive/read/torn-batch.ts';
import { removeGenerations } from '../archive/write/compact-segments.ts';
import { publish, writing } from '../archive/write/hot-segment.ts';
import { layOut, removeUnfinished } from '../archive/write/open-log-writer.ts';
import { logDamaged } from '../errors/archive.ts';
import { copyError } from '../errors/small-families.ts';
import { NEVER_TORN, type SegmentState, segmentState } from './segment-state.ts';

export interface CopyOptions {
  readonly from: string;
  /** The other folder; the caller holds its lock. */
  readonly to: string;
  readonly files?: FileLayer;
  readonly signal: AbortSignal;
  /** The highest commit that the catalog here has seen; 0 for none. A batch behind it may be torn by a power cut. */
  readonly seen: number;
  /**
   * Called before a payload that was purged here is removed there: it may have been copied elsewhere in that folder,
   * such as its text into a catalog. Once the payload is gone, nothing shows that there was something to forget.
   */
  readonly forget: () => Promise<void>;
  readonly progress?: (done: { readonly segments: number; readonly of: number }) => void;
}

export interface Copied {
  readonly archiveId: string | null;
  /** The last commit that both have now. */
  readonly number: number;
  readonly hash: string | null;
  readonly segments: number;
  /** Segments that were written, and bytes of them. */
  readonly written: number;
  readonly bytes: number;
  /** Records whose payload was purged here, and is now purged there. */
  readonly purged: number;
  /** Files there that a newer generation took the place of. */
  readonly dropped: readonly string[];
}

const CHUNK_BYTES = 1024 * 1024;

/**
 * Brings the log of another folder to the commits of this one, safely while a writer runs here: complete segments
 * under temporary names, read back and verified before they get their own. Nothing there becomes shorter or older.
 *
 * @throws `copy-other-archive`, `copy-unreadable`, `copy-ahead`, `copy-diverged`: nothing was changed then
 * @throws `log-damaged` for a damaged segment here; `disk-full` and its like: what was copied stays, and the same
 *   command continues from there
 */
export async function copyLog(options: CopyOptions): Promise<Copied> {
  const { from, to, signal, forget, progress } = options;
  const files = filesWithDamage(options.files ?? realFiles);
  checkFormat(files, from);
  const ours = listSegments(files, from);
  await layOut(files, to);
  const states = new Map<number, SegmentState>();
  const lastHere = [...ours.keys()].at(-1);
  const seenIn = (segment: number) => (segment === lastHere ? options.seen : NEVER_TORN);
  for (const segment of ours.keys()) {
    const state = segmentState(files, from, segment, ours, seenIn(segment));
    if (state === undefined || state.damaged) throw damagedHere(from, segment, state, ours);
    states.set(segment, state);
  }
  // Listed once: folders of many segments are long. Every write lists again.
  const theirs = listSegments(files, to);
  refuseStrangers(files, to, theirs, from, states);
  await removeUnfinished(files, to);
  const dropped: string[] = [];
  let [written, bytes, purged, done] = [0, 0, 0, 0];
  for (const [segment, here] of states) {
    signal.throwIfAborted();
    const there = segmentState(files, to, segment, theirs, NEVER_TORN);
    const behind = isBehind(here, there);
    if (behind) {
      // If the segment cannot be read there, it is unknown what was purged there before.
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
    number: last?.end.number ?? 0,
    hash: last?.end.hash ?? null,
    segments: states.size,
    written,
    bytes,
    purged,
    dropped,
  };
}

/** Checks everything there before anything is changed. */
function refuseStrangers(
  files: FileLayer,
  to: string,
  theirs: SegmentListing,
  from: string,
  states: ReadonlyMap<number, SegmentState>,
): void {
  const last = [...states.values()].at(-1);
  let known = false;
  let unreadable: number | undefined;
  for (const segment of theirs.keys()) {
    const there = segmentState(files, to, segment, theirs, NEVER_TORN);
    const here = states.get(segment);
    if (there === undefined) {
      unreadable ??= segment;
      continue;
    }
    known = true;
    if (last !== undefined && there.archiveId !== last.archiveId) {
      throw copyError('copy-other-archive', { to, found: there.archiveId, wanted: last.archiveId });
    }
    const facts = { to, number: there.end.number, here: last?.end.number ?? 0 };
    if (here === undefined || there.end.number > here.end.number)
      throw copyError('copy-ahead', facts);
    if (!holds(files, from, segment, here, there.end)) throw copyError('copy-diverged', facts);
  }
  // If one segment belongs to this archive, the others there are its own, damaged; if none does, that is unknown.
  if (unreadable !== undefined && !known) throw copyError('copy-unreadable', { to });
  if (unreadable !== undefined && !states.has(unreadable))
    throw copyError('copy-unreadable', { to });
}

/** Whether the segment here has this commit. */
function holds(
  files: FileLayer,
  dir: string,
  segment: number,
  here: SegmentState,
  commit: ChainState,
): boolean {
  if (here.end.number === commit.number) return here.end.hash === commit.hash;
  const generations = listSegments(files, dir).get(segment) ?? [];
  return withSegment(files, dir, segment, generations, (opened) => {
    const { previousNumber, previousHash } = opened.header;
    if (previousNumber === commit.number) return previousHash === commit.hash;
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      if (item.what === 'batch' && item.commit.number === commit.number) {
        return item.commit.hash === commit.hash;
      }
    }
    return false;
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

/** Copies the segment as it is here, up to the commit that was checked; returns the bytes of its file. */
async function transfer(
  files: FileLayer,
  from: string,
  to: string,
  segment: number,
  { end }: SegmentState,
  seen: number,
): Promise<number> {
  const source = openInForce(files, from, segment, listSegments(files, from).get(segment) ?? []);
  try {
    // Checked for each segment, after it was opened: a writer here may turn to zstd meanwhile. A backup that was made
    // by copying files one by one may have FORMAT from before that moment, and segments from after it.
    if (allowsZstd(files, from) || isSealedWithZstd(source)) {
      await writing(formatPath(to), 0, () => allowZstd(files, to));
    }
    const { generation } = source.name;
    const newest = Math.max(0, ...(listSegments(files, to).get(segment) ?? []));
    // A file there that was mended by itself has a generation of its own, which bytes of ours cannot take.
    const taken = newest > generation || (newest === generation && generation > 1);
    if (taken) {
      const mended = await mendSegment({
        dir: to,
        segment,
        files,
        sources: [source],
        find: () => undefined,
        reach: end,
      });
      if (mended === undefined) throw unsound(source);
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
  // Of the segment that is written to, what follows its last commit stays here.
  const length = source.sealed === undefined ? soundLength(source, seen) : source.file.size();
  await publish(files, path, length, {
    async write(target) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let at = 0; at < length; ) {
        const piece = chunk.subarray(0, Math.min(CHUNK_BYTES, length - at));
        if (readFully(source.file, piece, at) < piece.length) throw unsound(source);
        await writeAll(target, piece, at);
        at += piece.length;
      }
    },
    check: (temporary) =>
      provenEnd(files, source.name, temporary, source.sealed !== undefined, () => unsound(source)),
  });
  return length;
}

/** Returns where the last commit of a segment of generation 1 ends. @param seen as for `segmentState` */
export function soundLength(source: OpenSegment, seen: number): number {
  let length = source.file.size();
  for (const item of batchesToTheEnd(source, seen, { digest: false }, () => undefined)) {
    length = item.what === 'batch' ? item.end : item.offset;
  }
  return length;
}

/** What was purged here has to be gone there: an older generation has it still. */
async function dropReplaced(files: FileLayer, to: string, segment: number): Promise<string[]> {
  const generations = listSegments(files, to).get(segment) ?? [];
  if (generations.length < 2) return [];
  const { sealed, name } = withSegment(files, to, segment, generations, (opened) => opened);
  if (sealed === undefined) return [];
  return await removeGenerations(files, to, segment, name.generation);
}

function unsound(segment: OpenSegment) {
  return damageIn(segment, 0, 'bytes');
}

function damagedHere(
  dir: string,
  segment: number,
  state: SegmentState | undefined,
  listing: SegmentListing,
) {
  const [generation = 1] = listing.get(segment) ?? [];
  return logDamaged({
    file: segmentPath(dir, { segment, generation }),
    segment,
    offset: 0,
    reason: state === undefined ? 'segment-header' : 'bytes',
  });
}
