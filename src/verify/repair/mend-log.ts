import type { FileLayer } from '../../archive/file-layer.ts';
import { payloadsInTails } from '../../archive/kept-tails.ts';
import { logFolder, segmentPath } from '../../archive/layout.ts';
import { type IsForgotten, mendSegment } from '../../archive/mend-segment.ts';
import type { ExpectedCommit } from '../../archive/recovery.ts';
import { purgedByFooter } from '../../archive/sealed-footer.ts';
import type { ChainState } from '../../archive/segment-batches.ts';
import {
  listSegments,
  type OpenSegment,
  openSegment,
  type SegmentListing,
} from '../../archive/segment-files.ts';
import { segmentRecords } from '../../archive/segment-records.ts';
import { openStraightened } from '../../archive/straightened.ts';

export interface MendedSegment {
  readonly segment: number;
  readonly generation: number;
  /** Where the files are now that it takes the place of. */
  readonly putAside: readonly string[];
}

/**
 * Makes damaged segments whole from what is left of them, here and in other copies of the archive. Their files are
 * put aside under another name, never removed.
 */
export async function mendLog(options: {
  readonly dir: string;
  readonly files: FileLayer;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  readonly damaged: readonly number[];
  /** The last commit that somebody has seen. */
  readonly expected: ExpectedCommit | undefined;
  /** The last commit that there is, where it comes before the expected one: what follows it is looked for in the copies. */
  readonly endsAt?: number | undefined;
  /** The archive's id in hex, where it is known: files of another archive are left out. */
  readonly archiveId?: string | undefined;
  readonly isForgotten?: IsForgotten | undefined;
}): Promise<MendedSegment[]> {
  const { dir, files, copies, damaged, expected, endsAt, archiveId, isForgotten } = options;
  const mended: MendedSegment[] = [];
  const dirs = [dir, ...copies];
  const short = endsAt === undefined ? [] : atTheEnd(files, dir, copies);
  for (const segment of [...new Set([...damaged, ...short])].sort((a, b) => a - b)) {
    const listing = listSegments(files, dir);
    const isLast = segment === [...listing.keys()].at(-1) && endsAt === undefined;
    const end = isLast ? expected : (endOf(files, dirs, segment, archiveId) ?? expected);
    const isWhole = listing.has(segment) && end !== undefined && end.number <= (endsAt ?? 0);
    if (isWhole && !damaged.includes(segment)) continue;
    const sources = sourcesOf(files, dirs, segment, archiveId);
    try {
      const wanted = hashesOfDamaged(sources);
      const tails = payloadsInTails(files, dir, wanted);
      const generation = await mendSegment({
        dir,
        segment,
        files,
        sources,
        find: (hash) => tails.get(hash.toString('hex')),
        purged: purgedIn(files, dirs, segment, archiveId),
        ...(isForgotten === undefined ? {} : { isForgotten }),
        end,
      });
      if (generation === undefined) continue;
      const putAside = await asideOf(files, dir, segment, listing);
      mended.push({ segment, generation, putAside });
    } finally {
      for (const { file } of sources) file.close();
    }
  }
  return mended;
}

/** The last segment that is here, and those behind it that a copy has. */
function atTheEnd(files: FileLayer, dir: string, copies: readonly string[]): number[] {
  const last = [...listSegments(files, dir).keys()].at(-1) ?? 1;
  const behind = copies.flatMap((copy) =>
    [...listSegments(files, copy).keys()].filter((segment) => segment > last),
  );
  return [last, ...behind];
}

/** Every file of this archive that has the segment, its single flipped bits turned back. */
function sourcesOf(
  files: FileLayer,
  dirs: readonly string[],
  segment: number,
  archiveId: string | undefined,
): OpenSegment[] {
  return dirs.flatMap((dir) =>
    (listSegments(files, dir).get(segment) ?? []).flatMap((generation) => {
      const opened = openStraightened(files, dir, { segment, generation });
      if (opened === undefined) return [];
      if (isOf(opened, archiveId)) return [opened];
      opened.file.close();
      return [];
    }),
  );
}

/** Where nobody knows the archive's id there is no copy: what is here is its own. */
function isOf({ header }: OpenSegment, archiveId: string | undefined): boolean {
  return archiveId === undefined || header.archiveId.toString('hex') === archiveId;
}

/** What footers say, which can be read with the archive's id though the header of their file cannot. */
function purgedIn(
  files: FileLayer,
  dirs: readonly string[],
  segment: number,
  archiveId: string | undefined,
): Set<number> {
  const purged = new Set<number>();
  if (archiveId === undefined) return purged;
  const space = { archiveId: Buffer.from(archiveId, 'hex'), segment };
  for (const dir of dirs) {
    for (const generation of listSegments(files, dir).get(segment) ?? []) {
      const file = files.open(segmentPath(dir, { segment, generation }), 'read');
      try {
        for (const at of purgedByFooter(file, space)) purged.add(at);
      } finally {
        file.close();
      }
    }
  }
  return purged;
}

function hashesOfDamaged(sources: readonly OpenSegment[]): Set<string> {
  const wanted = new Set<string>();
  for (const source of sources) {
    for (const record of segmentRecords(source, { digest: false })) {
      if (record.what === 'record' && record.state === 'damaged') {
        wanted.add(record.hash.toString('hex'));
      }
    }
  }
  return wanted;
}

/** What the segment behind says about this one's last commit. */
function endOf(
  files: FileLayer,
  dirs: readonly string[],
  segment: number,
  archiveId: string | undefined,
): ChainState | undefined {
  for (const dir of dirs) {
    for (const generation of listSegments(files, dir).get(segment + 1) ?? []) {
      const next = openSegment(files, dir, { segment: segment + 1, generation });
      if (next === undefined) continue;
      next.file.close();
      if (!isOf(next, archiveId)) continue;
      return { number: next.header.previousNumber, hash: next.header.previousHash };
    }
  }
  return undefined;
}

async function asideOf(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
): Promise<string[]> {
  const aside: string[] = [];
  const taken = new Set(files.list(logFolder(dir)).map((name) => `${logFolder(dir)}/${name}`));
  for (const generation of listing.get(segment) ?? []) {
    const path = segmentPath(dir, { segment, generation });
    let to = `${path}.damaged`;
    for (let n = 2; taken.has(to); n += 1) to = `${path}.damaged-${n}`;
    await files.rename(path, to);
    aside.push(to);
  }
  if (aside.length > 0) await files.syncFolder(logFolder(dir));
  return aside;
}
