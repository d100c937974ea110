import { readdirSync } from 'node:fs';
import path from 'node:path';
import { type FileLayer, openIfFile } from '../archive/file-system.ts';
import { genesisHash, logFolder, segmentPath } from '../archive/format.ts';
import { openLogReader, scanLog } from '../archive/log-reader.ts';
import { payloadsInTails } from '../archive/log-writer.ts';
import { type Believed, mendSegment, openStraightened } from '../archive/mend-segment.ts';
import { checkFormat, type ExpectedCommit } from '../archive/recovery.ts';
import { purgedByFooter } from '../archive/sealed-footer.ts';
import {
  listSegments,
  type OpenSegment,
  openInForce,
  openSegment,
  type SegmentListing,
} from '../archive/segment-files.ts';
import { type ChainState, segmentBatches, segmentRecords } from '../archive/segment-reader.ts';
import { type ImpliedCatalog, openImplied } from '../catalog/implied.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import { type Checkpoint, publicKeyOf, readCheckpoint, readSigningKey } from './checkpoint.ts';
import { verifyError } from './errors.ts';
import type { Proof } from './repair-archive.ts';

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

export interface SkippedCopy {
  readonly copy: string;
  /** The system's name of the reason, or our code. */
  readonly reason: string;
}

/** A segment of a copy that cannot be opened. The copy's other segments still help. */
export interface SkippedSegment extends SkippedCopy {
  readonly file: string;
}

interface ReadableCopies {
  readonly copies: readonly string[];
  readonly skippedCopies: readonly SkippedCopy[];
  readonly skippedSegments: readonly SkippedSegment[];
  /** Files of the copies that cannot be read. */
  readonly hidden: ReadonlySet<string>;
}

/**
 * Sorts out copies, and segments of copies, that cannot be read: one hostile or broken copy must not keep the others
 * from helping, nor one segment the rest of its copy. Damage is no reason to skip anything, and neither is a pipe or a
 * folder instead of a segment.
 */
export function readableCopies(files: FileLayer, given: readonly string[]): ReadableCopies {
  const copies: string[] = [];
  const skippedCopies: SkippedCopy[] = [];
  const skippedSegments: SkippedSegment[] = [];
  const hidden = new Set<string>();
  for (const copy of given) {
    try {
      const { all, unreadable, refused } = segmentsOf(files, copy);
      const [first] = refused;
      if (first !== undefined && unreadable.length === all) {
        skippedCopies.push({ copy, reason: first.reason });
        continue;
      }
      for (const path of unreadable) hidden.add(path);
      skippedSegments.push(...refused);
      copies.push(copy);
    } catch (error) {
      skippedCopies.push({ copy, reason: reasonOf(error) });
    }
  }
  return { copies, skippedCopies, skippedSegments, hidden };
}

/** Counts the files of a copy's segments, and names those that cannot be read and those that were refused. */
function segmentsOf(files: FileLayer, copy: string) {
  try {
    checkFormat(files, copy);
  } catch (error) {
    // Its segments are worth what they always were.
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
  let all = 0;
  const unreadable: string[] = [];
  const refused: SkippedSegment[] = [];
  for (const [segment, generations] of listSegments(files, copy)) {
    const paths = generations.map((generation) => segmentPath(copy, { segment, generation }));
    all += paths.length;
    const closed = paths.flatMap((file) => {
      const reason = whyClosed(files, file);
      return reason === undefined ? [] : [{ copy, file, reason }];
    });
    refused.push(...closed);
    // An older generation may hold mail that the unreadable one has purged.
    if (closed.length > 0) unreadable.push(...paths);
  }
  return { all, unreadable, refused };
}

function whyClosed(files: FileLayer, path: string): string | undefined {
  try {
    openIfFile(files, path)?.close();
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

/** @throws what is neither an error of the system nor one of ours */
function reasonOf(error: unknown): string {
  const reason = error instanceof MailkeepError ? error.code : errnoOf(error);
  if (reason === undefined) throw error;
  return reason;
}

export interface Wanted {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
}

export interface OtherCopy {
  /** The bytes, whose hash is not compared yet; undefined where the copy has none. */
  read(wanted: Wanted): Buffer | undefined;
  close(): void;
}

interface OpenedCopies {
  readonly others: readonly OtherCopy[];
  readonly skipped: readonly SkippedCopy[];
}

/** Opens copies by what their logs record: they may have no catalog. */
export async function openCopies(
  files: FileLayer,
  copies: readonly string[],
): Promise<OpenedCopies> {
  const others: OtherCopy[] = [];
  const skipped: SkippedCopy[] = [];
  for (const dir of copies) {
    const implied = await openImplied();
    try {
      await foldAll(files, dir, implied);
    } catch (error) {
      implied.close();
      skipped.push({ copy: dir, reason: reasonOf(error) });
      continue;
    }
    const reader = openLogReader({ dir, files, locator: implied.locator });
    others.push({
      read({ kind, hash }) {
        try {
          return kind === 'message' ? reader.readMessage(hash) : reader.readBlob(hash);
        } catch (error) {
          if (error instanceof MailkeepError) return undefined;
          throw error;
        }
      },
      close() {
        reader.close();
        implied.close();
      },
    });
  }
  return { others, skipped };
}

async function foldAll(files: FileLayer, dir: string, implied: ImpliedCatalog): Promise<void> {
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch' || event.batch.commit.number <= implied.reached().number) continue;
    implied.fold([event.batch], true);
  }
}

/**
 * The id of the archive in a folder, from what the folder itself knows: the headers of its segments, its own
 * checkpoints, or a copy that holds the commit which the catalog has reached. A copy's word alone is never enough: it
 * may be of another archive.
 *
 * @returns the id in hex; undefined if nothing here shows it and there is no copy to compare
 * @throws `repair-archive-unknown` if nothing here shows it, `repair-other-archive` for a copy of another archive:
 *   nothing was changed
 */
export function archiveIdOf(
  files: FileLayer,
  dir: string,
  copies: readonly string[],
  expected: ExpectedCommit | undefined,
): string | undefined {
  const known =
    idOfSegments(files, dir) ??
    idOfCheckpoints(dir) ??
    copies.flatMap((copy) => idByCommit(files, copy, expected) ?? []).at(0);
  for (const copy of copies) {
    const found = idOfSegments(files, copy);
    if (found === undefined) continue;
    if (known === undefined) throw verifyError('repair-archive-unknown', { dir, copy });
    if (found !== known) {
      throw verifyError('repair-other-archive', { copy, found, wanted: known });
    }
  }
  return known;
}

/** What most files of the log say: a single one may have been put there by mistake. */
function idOfSegments(files: FileLayer, dir: string): string | undefined {
  const votes = new Map<string, number>();
  for (const [segment, generations] of listSegments(files, dir)) {
    for (const generation of generations) {
      const opened = openSegment(files, dir, { segment, generation });
      if (opened === undefined) continue;
      opened.file.close();
      const id = opened.header.archiveId.toString('hex');
      votes.set(id, (votes.get(id) ?? 0) + 1);
    }
  }
  return [...votes].toSorted(([, a], [, b]) => b - a).at(0)?.[0];
}

function idOfCheckpoints(dir: string): string | undefined {
  for (const { archiveId } of signedHere(dir, dir)) return archiveId;
  return undefined;
}

/** As many files as this are looked at in a folder of checkpoints: anybody may have filled that of a copy. */
const MOST_CHECKPOINTS = 1000;

/**
 * Yields the checkpoints of a folder that this archive's own key signed, the newest names first; none where the archive
 * has no key, or the folder no checkpoints.
 *
 * @param dir the archive
 * @param folder the same, or a copy of it
 */
export function* signedHere(dir: string, folder: string): Generator<Checkpoint, void, undefined> {
  const checkpoints = path.join(folder, 'checkpoints');
  let own: string;
  let names: readonly string[];
  try {
    own = publicKeyOf(readSigningKey(path.join(dir, 'checkpoint.key')));
    names = readdirSync(checkpoints).toSorted().toReversed().slice(0, MOST_CHECKPOINTS);
  } catch (error) {
    // What cannot be read proves nothing.
    if (!hasCode(error, 'checkpoint-key') && errnoOf(error) === undefined) throw error;
    return;
  }
  for (const name of names) {
    const statement = statementIn(path.join(checkpoints, name));
    if (statement?.publicKey === own) yield statement;
  }
}

function statementIn(file: string) {
  try {
    return readCheckpoint(file);
  } catch (error) {
    if (hasCode(error, 'checkpoint-unreadable') || hasCode(error, 'checkpoint-forged')) {
      return undefined;
    }
    throw error;
  }
}

/** A commit's hash covers the archive's id: a log that has the commit which the catalog has seen is of this archive. */
function idByCommit(
  files: FileLayer,
  dir: string,
  expected: ExpectedCommit | undefined,
): string | undefined {
  if (expected === undefined || expected.number === 0) return undefined;
  for (const [segment, generations] of listSegments(files, dir)) {
    try {
      const opened = openInForce(files, dir, segment, generations);
      try {
        for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
          if (item.what !== 'batch' || item.commit.number !== expected.number) continue;
          const holds = item.commit.hash === expected.hash;
          return holds ? opened.header.archiveId.toString('hex') : undefined;
        }
      } finally {
        opened.file.close();
      }
    } catch (error) {
      if (!hasCode(error, 'log-damaged')) throw error;
    }
  }
  return undefined;
}
