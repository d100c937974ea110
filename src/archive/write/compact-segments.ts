import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import { type FileLayer, readFully } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { CODEC, RECORD_HEADER_BYTES, readRecordHeader } from '../format/headers.ts';
import { logFolder, type SegmentFile, segmentPath } from '../format/layout.ts';
import type { ArchiveCodec } from '../format/stored-payload.ts';
import {
  listSegments,
  localSegments,
  type OpenSegment,
  withSegment,
} from '../read/segment-files.ts';
import type { SegmentStore } from '../read/segment-store.ts';
import { syncing, writing } from './hot-segment.ts';
import type { SealedSegment } from './seal-segment.ts';
import type { Sealer } from './sealer.ts';

/**
 * Removes the generations of each segment that a sealed one has replaced for at least `keepMs`, and returns their
 * paths. Each sealed one is published before; so one is published even if sealing it was the last act of a process. The
 * caller holds the archive's lock.
 */
export async function dropOldGenerations(options: {
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly files?: FileLayer;
  readonly keepMs: number;
  /** Takes what was sealed; on one local disk, nothing does. */
  readonly segments?: SegmentStore;
  /** Segments that are left as they are. */
  readonly except?: ReadonlySet<number>;
}): Promise<string[]> {
  const { dir, now, files = realFiles, keepMs, segments = localSegments, except } = options;
  const dropped: string[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    if (except?.has(segment) === true) continue;
    const sealed = sealedInForce(files, dir, segment, generations);
    if (sealed === undefined) continue;
    await segments.publish(sealed);
    if (Math.floor(files.modifiedAt(segmentPath(dir, sealed))) > now - keepMs) continue;
    for (const generation of generations.filter((one) => one < sealed.generation)) {
      const path = segmentPath(dir, { segment, generation });
      await files.remove(path);
      dropped.push(path);
    }
  }
  if (dropped.length > 0) await files.syncFolder(logFolder(dir));
  return dropped;
}

/** The sealed file that is in force where there are other generations of its segment. */
function sealedInForce(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): SegmentFile | undefined {
  if (generations.length < 2) return undefined;
  try {
    const opened = withSegment(files, dir, segment, generations, (one) => one);
    return opened.sealed === undefined ? undefined : opened.name;
  } catch (error) {
    // Where no generation is whole, each may hold what another has lost.
    if (hasCode(error, 'log-damaged')) return undefined;
    throw error;
  }
}

/** A sealed segment that holds records of another codec than the one that is wanted. */
export interface Compactable {
  readonly segment: number;
  /** Bytes of its file. */
  readonly bytes: number;
}

/** A segment that cannot be read; it stays as it is. */
export interface Unreadable {
  readonly segment: number;
  readonly damage: MailkeepError;
}

/** Finds the sealed segments from `from` on that hold records of another codec. Reads only headers and footers. */
export function* compactableSegments(
  files: FileLayer,
  dir: string,
  codec: ArchiveCodec,
  from = 1,
): Generator<Compactable | Unreadable, void, undefined> {
  for (const [segment, generations] of listSegments(files, dir)) {
    if (segment < from) continue;
    try {
      const bytes = withSegment(files, dir, segment, generations, (opened) =>
        holdsOther(opened, codec) ? opened.file.size() : undefined,
      );
      if (bytes !== undefined) yield { segment, bytes };
    } catch (error) {
      if (!isDamage(error)) throw error;
      yield { segment, damage: error };
    }
  }
}

/** Whether an error says that a segment is damaged, so that others may still be rewritten. */
export function isDamage(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && error.family === 'damage';
}

/**
 * Rewrites one sealed segment with `codec`, publishes it, and removes the files that this replaces. The caller holds the archive's
 * lock. Interrupted at any moment, the archive reads as before, and the same call finishes the work.
 *
 * @throws `log-damaged` when the segment is not intact: it stays as it is
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`: nothing is lost, and it can be tried again
 */
export async function compactSegment(
  files: FileLayer,
  sealer: Sealer,
  job: { readonly dir: string; readonly segment: number; readonly codec: ArchiveCodec },
  segments: SegmentStore = localSegments,
): Promise<SealedSegment> {
  const sealed = await sealer.seal(job);
  const { dir, segment } = job;
  await segments.publish({ segment, generation: sealed.generation });
  // One segment at a time: the room that all old files together take may not be there twice.
  await removeGenerations(files, dir, segment, sealed.generation);
  return sealed;
}

/**
 * Removes the generations of a segment before `kept`, durably, and returns their paths.
 *
 * @throws `log-write-failed`, `log-sync-failed`
 */
export async function removeGenerations(
  files: FileLayer,
  dir: string,
  segment: number,
  kept: number,
): Promise<string[]> {
  const removed: string[] = [];
  for (const generation of listSegments(files, dir).get(segment) ?? []) {
    if (generation >= kept) continue;
    const path = segmentPath(dir, { segment, generation });
    await writing(path, 0, () => files.remove(path));
    removed.push(path);
  }
  if (removed.length > 0) await syncing(logFolder(dir), () => files.syncFolder(logFolder(dir)));
  return removed;
}

/** Unsealed segments are not compressed at all: sealing them is the writer's matter. */
function holdsOther({ file, header, sealed }: OpenSegment, codec: ArchiveCodec): boolean {
  if (sealed === undefined) return false;
  const head = Buffer.alloc(RECORD_HEADER_BYTES);
  const places = [...sealed.index.containers.map(({ offset }) => offset), sealed.offset];
  return places.some((offset) => {
    const got = readFully(file, head, offset);
    const found = readRecordHeader(head.subarray(0, got), 0, header, offset)?.codec;
    // A damaged header does not show its codec; sealing detects the damage.
    return found === undefined || (found !== CODEC.none && found !== CODEC[codec]);
  });
}
