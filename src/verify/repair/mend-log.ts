import { type FileLayer, openIfFile } from '../../archive/files/file-layer.ts';
import { genesisHash } from '../../archive/format/headers.ts';
import { logFolder, segmentPath } from '../../archive/format/layout.ts';
import { purgedByFooter } from '../../archive/format/sealed-footer.ts';
import { type Believed, mendSegment } from '../../archive/mend/mend-segment.ts';
import { openStraightened } from '../../archive/mend/straightened.ts';
import type { ExpectedCommit } from '../../archive/read/recovery.ts';
import { type ChainState, segmentBatches } from '../../archive/read/segment-batches.ts';
import {
  listSegments,
  type OpenSegment,
  openSegment,
  type SegmentListing,
} from '../../archive/read/segment-files.ts';
import { segmentRecords } from '../../archive/read/segment-records.ts';
import { payloadsInTails } from '../../archive/write/open-log-writer.ts';
import type { Proof } from './proven.ts';

export interface MendedSegment {
  readonly segment: number;
  readonly generation: number;
  /** Where the files are now that it takes the place of. */
  readonly putAside: readonly string[];
}

interface MendLogOptions {
  readonly dir: string;
  readonly files: FileLayer;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  readonly damaged: readonly number[];
  /** The last commit that a catalog or checkpoint has seen. */
  readonly expected: ExpectedCommit | undefined;
  /** The log ends before that commit: the copies are searched for what follows. */
  readonly endsEarly?: boolean;
  /** The archive's id in hex, where it is known: files of another archive are left out. */
  readonly archiveId?: string | undefined;
  /** What can be believed; undefined where there are no copies. */
  readonly proof?: Proof | undefined;
}

/**
 * Makes damaged segments whole from what is left of them, here and in other copies of the archive. Their files are
 * put aside under another name, never removed.
 *
 * A copy may have gone its own way since it was made: it has the same id, and its chain holds. So what only copies have
 * is taken where its chain leads to a commit that is known here, of the next segment's header or the expected one; the
 * last segment therefore comes first. What is left then is taken where it follows on what is here.
 */
export async function mendLog(options: MendLogOptions): Promise<MendedSegment[]> {
  const segments = segmentsToMend(options);
  const mended = new Map<number, MendedSegment>();
  for (const order of [segments.toReversed(), segments]) {
    for (const segment of order) {
      if (mended.has(segment)) continue;
      const done = await mendOne(options, segment, order === segments);
      if (done !== undefined) mended.set(segment, done);
    }
  }
  return segments.flatMap((segment) => mended.get(segment) ?? []);
}

/** Returns the numbers of the segments that are damaged or missing, in order. */
export function segmentsToMend({
  dir,
  files,
  copies,
  damaged,
  endsEarly = false,
}: Pick<MendLogOptions, 'dir' | 'files' | 'copies' | 'damaged' | 'endsEarly'>): number[] {
  const short = endsEarly ? atTheEnd(files, dir, copies) : [];
  return [...new Set([...damaged, ...short])].sort((a, b) => a - b);
}

/** The last segment that is here, and those behind it that a copy has. */
function atTheEnd(files: FileLayer, dir: string, copies: readonly string[]): number[] {
  const last = [...listSegments(files, dir).keys()].at(-1) ?? 1;
  const behind = copies.flatMap((copy) =>
    [...listSegments(files, copy).keys()].filter((segment) => segment > last),
  );
  return [last, ...behind];
}

const UNBELIEVED: Believed = { isProven: () => false, last: 0 };

/** @param follows take what only copies have where it follows on what is here, else where it leads to what is known */
async function mendOne(
  options: MendLogOptions,
  segment: number,
  follows: boolean,
): Promise<MendedSegment | undefined> {
  const { dir, files, copies, damaged, expected, archiveId, proof } = options;
  const listing = listSegments(files, dir);
  const next = endOf(files, [dir], segment, archiveId);
  const isDamaged = damaged.includes(segment);
  const isWhole = !isDamaged && next !== undefined && isAt(lastOf(files, dir, segment), next);
  const own = sourcesOf(files, [dir], segment, archiveId);
  const others = sourcesOf(files, copies, segment, archiveId);
  try {
    // The second look is for what only copies have.
    if (isWhole || (follows && own.length > 0)) return undefined;
    const start = follows ? startOf(files, dir, segment, archiveId) : undefined;
    const proven = ({ header }: OpenSegment): boolean => {
      if (own.length > 0) return true;
      if (follows) return header.previousHash === start?.hash;
      return next !== undefined || header.previousNumber < (expected?.number ?? 0);
    };
    const sources = [...own, ...others.filter(proven)];
    const isLast = segment === [...listing.keys()].at(-1);
    const saidByCopies = isDamaged && own.length > 0 && !isLast;
    const tails = payloadsInTails(files, dir, hashesOfDamaged(sources));
    const generation = await mendSegment({
      dir,
      segment,
      files,
      sources,
      foreign: new Map(others.map((source) => [source, proof?.believed ?? UNBELIEVED])),
      find: (hash) => tails.get(hash.toString('hex')),
      purged: purgedIn(files, dir, segment, archiveId),
      ...(proof === undefined ? {} : { isForgotten: proof.isForgotten }),
      end: next ?? (saidByCopies ? endOf(files, copies, segment, archiveId) : undefined),
      reach: expected,
    });
    if (generation === undefined) return undefined;
    return { segment, generation, putAside: await asideOf(files, dir, segment, listing) };
  } finally {
    for (const { file } of [...own, ...others]) file.close();
  }
}

/** Returns the commit that a segment follows, as far as the files here show it. */
function startOf(
  files: FileLayer,
  dir: string,
  segment: number,
  archiveId: string | undefined,
): ChainState | undefined {
  if (segment > 1) return lastOf(files, dir, segment - 1);
  if (archiveId === undefined) return undefined;
  return { number: 0, hash: genesisHash(Buffer.from(archiveId, 'hex')) };
}

/** The last commit in a segment that is here; undefined where no file of it can be read. */
function lastOf(files: FileLayer, dir: string, segment: number): ChainState | undefined {
  for (const generation of listSegments(files, dir).get(segment) ?? []) {
    const opened = openSegment(files, dir, { segment, generation });
    if (opened === undefined) continue;
    try {
      const batches = segmentBatches(opened, { digest: false }, () => undefined);
      let step = batches.next();
      while (step.done !== true) step = batches.next();
      return step.value;
    } finally {
      opened.file.close();
    }
  }
  return undefined;
}

function isAt(last: ChainState | undefined, { number, hash }: ChainState): boolean {
  return last?.number === number && last.hash === hash;
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

/** Returns whether a segment belongs to an archive. Without a known id there is no copy: what is here is its own. */
function isOf({ header }: OpenSegment, archiveId: string | undefined): boolean {
  return archiveId === undefined || header.archiveId.toString('hex') === archiveId;
}

/** What footers say, which can be read with the archive's id though the header of their file cannot. */
function purgedIn(
  files: FileLayer,
  dir: string,
  segment: number,
  archiveId: string | undefined,
): Set<number> {
  const purged = new Set<number>();
  if (archiveId === undefined) return purged;
  const space = { archiveId: Buffer.from(archiveId, 'hex'), segment };
  for (const generation of listSegments(files, dir).get(segment) ?? []) {
    const file = openIfFile(files, segmentPath(dir, { segment, generation }));
    if (file === undefined) continue;
    try {
      for (const at of purgedByFooter(file, space)) purged.add(at);
    } finally {
      file.close();
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
