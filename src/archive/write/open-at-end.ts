import { type FileLayer, writeAll } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { logFolder, segmentPath } from '../format/layout.ts';
import { filesWithDamage } from '../mend/bad-sectors.ts';
import { announceZstd } from '../read/format-file.ts';
import { type LogEnd, type MissingBytes, missingBytes, refuseStranger } from '../read/known-end.ts';
import { checkExpected, putSegmentAside, putTailAside, refuseEarlyEnd } from '../read/recovery.ts';
import { listSegments } from '../read/segment-files.ts';
import type { Durability } from './durability.ts';
import { createSegment, type HotSegment, syncing, writing } from './hot-segment.ts';
import { LogWriter } from './log-writer.ts';
import { type LogWriterOptions, layOut, removeUnfinished } from './open-log-writer.ts';

export type OpenedAtEnd =
  | { readonly is: 'open'; readonly log: LogWriter }
  | { readonly is: 'missing'; readonly missing: readonly MissingBytes[] };

export interface AtEndOptions
  extends Pick<LogWriterOptions, 'dir' | 'now' | 'files' | 'expected' | 'onTail' | 'segmentBytes'> {
  readonly end: LogEnd;
  /** What knows that end, and makes further commits durable. */
  readonly durability: Durability;
}

/**
 * Opens the local copy of a log whose end is known, and lays out an empty one where there is none. What the disk has
 * beyond the end is put aside, segments included. Segments that are sealed need not be there.
 *
 * Where the copy lacks bytes, nothing is opened: `supplyBytes` takes them, and then this can be called again. It verifies
 * what it was given; bytes of another chain make it ask for the segment.
 *
 * @throws `log-damaged` (`diverged`) when the folder holds another archive, `log-ends-early` and `log-diverged` when the
 *   catalog is not one of this log: nothing was changed
 * @throws `archive-format-newer`; `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function openLogAtEnd(options: AtEndOptions): Promise<OpenedAtEnd> {
  const { dir, end, expected } = options;
  const files = filesWithDamage(options.files ?? realFiles);
  refuseEarlyEnd(logFolder(dir), expected, end.commit.number);
  checkExpected(end.commit, expected, logFolder(dir));
  await layOut(files, dir);
  const listing = listSegments(files, dir);
  refuseStranger(files, dir, listing, end.archiveId);
  const missing = missingBytes(files, dir, listing, end, expected);

  await removeUnfinished(files, dir);
  await writing(dir, 0, () => announceZstd(files, dir, listing));
  // From the last one on, so that an interruption leaves no gap.
  for (const [segment, generations] of [...listing].reverse()) {
    if (segment <= end.hot.segment) break;
    await putAside(files, options, segment, generations);
  }
  if (missing.length > 0) return { is: 'missing', missing };
  const hot = listing.has(end.hot.segment)
    ? await openHot(files, options)
    : await createSegment(files, dir, end.archiveId, end.hot.segment, end.hot.previous);
  const { now, segmentBytes, durability } = options;
  const { archiveId, commit } = end;
  const settings = { dir, now, files, segmentBytes, durability };
  const log = new LogWriter(settings, { archiveId, hot, chain: commit, time: commit.time });
  return { is: 'open', log };
}

async function openHot(files: FileLayer, { dir, end, onTail }: AtEndOptions): Promise<HotSegment> {
  const { segment, offset, ordinal } = end.hot;
  const path = segmentPath(dir, { segment, generation: 1 });
  const file = files.open(path, 'write');
  try {
    const behind = { chain: end.commit, time: end.commit.time, ordinal, offset };
    const tail = await writing(path, 0, () => putTailAside(files, dir, file, segment, behind));
    if (tail !== undefined) onTail?.(tail);
    return { file, path, segment, offset, ordinal };
  } catch (error) {
    file.close();
    throw error;
  }
}

async function putAside(
  files: FileLayer,
  { dir, onTail }: Pick<AtEndOptions, 'dir' | 'onTail'>,
  segment: number,
  generations: readonly number[],
): Promise<void> {
  for (const generation of generations) {
    const tail = await writing(dir, 0, () => putSegmentAside(files, dir, { segment, generation }));
    onTail?.(tail);
  }
}

/**
 * Puts bytes where they are missing, durably. They are verified when the log is opened again. A file of which nothing can
 * be used is put aside.
 *
 * @param pieces the bytes of generation 1 of the segment from `missing.from` to `missing.until`
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`, and what `pieces` throw
 */
export async function supplyBytes(
  options: Pick<AtEndOptions, 'dir' | 'end' | 'files' | 'onTail'>,
  { what, segment, from, after }: MissingBytes,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const { dir, end, files = realFiles } = options;
  const path = segmentPath(dir, { segment, generation: 1 });
  if (what === 'segment') {
    await putAside(files, options, segment, listSegments(files, dir).get(segment) ?? []);
  }
  const file =
    what === 'segment'
      ? (await createSegment(files, dir, end.archiveId, segment, after)).file
      : files.open(path, 'write');
  try {
    await writing(path, 0, () => file.truncate(from));
    let at = from;
    for await (const piece of pieces) {
      await writing(path, piece.length, () => writeAll(file, piece, at));
      at += piece.length;
    }
    await syncing(path, () => file.datasync());
  } finally {
    file.close();
  }
}
