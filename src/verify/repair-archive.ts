import { hash as digest } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { type FileLayer, hideFiles, openRegular, realFiles } from '../archive/file-system.ts';
import {
  type CommittedBatch,
  FOLDER_MODE,
  genesisHash,
  logFolder,
  RECORD_KIND,
  removedMessage,
  segmentPath,
} from '../archive/format.ts';
import { withLock } from '../archive/lock.ts';
import { openLogReader, type ScanEvent, scanLog } from '../archive/log-reader.ts';
import { findTornPayloads, type LogWriter, openLogWriter } from '../archive/log-writer.ts';
import {
  type FileTrust,
  type ForgottenCheck,
  mendSegment,
  openStraightened,
  readAroundBadSectors,
} from '../archive/mend-segment.ts';
import { readMessagePayload } from '../archive/payload.ts';
import { checkFormat, type ExpectedCommit } from '../archive/recovery.ts';
import { purgedOrdinals } from '../archive/sealed-footer.ts';
import {
  listGenerations,
  listSegments,
  type OpenSegment,
  openSegment,
  type SegmentListing,
  tryOpenSegment,
} from '../archive/segment-files.ts';
import {
  type ChainState,
  segmentBatches,
  segmentRecords,
  walkToEnd,
} from '../archive/segment-reader.ts';
import { loadSettings } from '../catalog/archive-settings.ts';
import { catalogFile } from '../catalog/database.ts';
import { folderQueries } from '../catalog/folders.ts';
import { openComparedCatalog, openImpliedCatalog, readCatalogHead } from '../catalog/implied.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { rebuildWithExtractors } from '../catalog/rebuild.ts';
import { locateConfig } from '../core/config-locate.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import { openState, stateDamage } from '../core/state.ts';
import type { MessageId, Place } from '../core/types.ts';
import { AccountOrigins } from '../sync/account-origins.ts';
import { type SegmentChecker, threadedChecker } from './check-segment.ts';
import { type Checkpoint, publicKeyOf, readCheckpoint, readSigningKey } from './checkpoint.ts';
import { verifyError } from './errors.ts';
import type { VerifyProgress } from './read-log.ts';
import { readArchive, recordRead } from './verify.ts';
import { type Verification, verifyArchive } from './verify-archive.ts';

interface MendedSegment {
  readonly segment: number;
  readonly generation: number;
  /** Current paths of the replaced files. */
  readonly putAside: readonly string[];
}

interface MendLogOptions {
  readonly dir: string;
  readonly files: FileLayer;
  /** Directories with copies of the archive. */
  readonly copies: readonly string[];
  readonly damaged: readonly number[];
  /** Last commit recorded in a catalog or checkpoint. */
  readonly expected: ExpectedCommit | undefined;
  /** True if the log ends before that commit and the copies must be searched for the rest. */
  readonly endsEarly?: boolean;
  /** Archive id in hex, if known. Files from other archives are ignored. */
  readonly archiveId?: string | undefined;
  /** Undefined if there are no copies. */
  readonly proof?: Proof | undefined;
}

/**
 * Restores damaged segments from their remains, here and in other copies of the archive. Damaged files are renamed,
 * never removed.
 *
 * A copy may have diverged since it was made, with the same id and an intact chain. Data found only in copies is
 * therefore accepted if its chain leads to a known commit: the next segment's header or the expected commit. For this
 * reason, the last segment comes first. The remaining data is accepted if it continues the local chain.
 */
export async function repairLog(options: MendLogOptions): Promise<MendedSegment[]> {
  const segments = segmentsToMend(options);
  const mending = new Mending(options);
  const mended = new Map<number, MendedSegment>();
  for (const order of [segments.toReversed(), segments]) {
    for (const segment of order) {
      if (mended.has(segment)) continue;
      const result = await mending.mend(segment, order === segments);
      if (result !== undefined) mended.set(segment, result);
    }
  }
  return segments.flatMap((segment) => mended.get(segment) ?? []);
}

type Wounds = Pick<MendLogOptions, 'dir' | 'files' | 'copies' | 'damaged' | 'endsEarly'>;

function segmentsToMend({ dir, files, copies, damaged, endsEarly = false }: Wounds): number[] {
  if (!endsEarly) return [...new Set(damaged)].sort((a, b) => a - b);
  // The last local segment, and later ones that a copy has.
  const last = [...listSegments(files, dir).keys()].at(-1) ?? 1;
  const newer = copies.flatMap((copy) =>
    [...listSegments(files, copy).keys()].filter((segment) => segment > last),
  );
  return [...new Set([...damaged, last, ...newer])].sort((a, b) => a - b);
}

/** Yields the log files in a directory that can be opened, closing each of them afterwards. */
function* openedIn(
  files: FileLayer,
  dir: string,
  only?: number,
): Generator<OpenSegment, void, undefined> {
  for (const [segment, generations] of listSegments(files, dir)) {
    if (only !== undefined && segment !== only) continue;
    for (const generation of generations) {
      const opened = openSegment(files, dir, { segment, generation });
      if (opened === undefined) continue;
      try {
        yield opened;
      } finally {
        opened.file.close();
      }
    }
  }
}

const UNBELIEVED: FileTrust = { isProven: () => false, last: 0 };

class Mending {
  constructor(private readonly options: MendLogOptions) {}

  /** @param follows whether data found only in copies must continue the local chain or lead to a known commit */
  async mend(segment: number, follows: boolean): Promise<MendedSegment | undefined> {
    const { dir, files, copies, damaged, expected, proof } = this.options;
    const listing = listSegments(files, dir);
    const next = this.#endOf([dir], segment);
    const isDamaged = damaged.includes(segment);
    const isWhole = !isDamaged && next !== undefined && isAt(this.#lastCommitOf(segment), next);
    const local = this.#sourcesOf([dir], segment);
    const others = this.#sourcesOf(copies, segment);
    try {
      // The second round is for data found only in copies.
      if (isWhole || (follows && local.length > 0)) return undefined;
      const start = follows ? this.#startOf(segment) : undefined;
      const proven = ({ header }: OpenSegment): boolean => {
        if (local.length > 0) return true;
        if (follows) return header.previousHash === start?.hash;
        return next !== undefined || header.previousNumber < (expected?.number ?? 0);
      };
      const sources = [...local, ...others.filter(proven)];
      const isLast = segment === [...listing.keys()].at(-1);
      const isEndInCopies = isDamaged && local.length > 0 && !isLast;
      const tails = findTornPayloads(files, dir, hashesOfDamaged(sources));
      const generation = await mendSegment({
        ...{ dir, segment, files, sources },
        foreign: new Map(others.map((source) => [source, proof?.believed ?? UNBELIEVED])),
        find: (hash) => tails.get(hash.toString('hex')),
        purged: this.#purgedIn(segment),
        ...(proof === undefined ? {} : { isForgotten: proof.isForgotten }),
        end: next ?? (isEndInCopies ? this.#endOf(copies, segment) : undefined),
        reach: expected,
      });
      if (generation === undefined) return undefined;
      return { segment, generation, putAside: await setAside(files, dir, segment, listing) };
    } finally {
      for (const { file } of [...local, ...others]) file.close();
    }
  }

  /** Returns the commit before a segment, if it can be read from local files. */
  #startOf(segment: number): ChainState | undefined {
    if (segment > 1) return this.#lastCommitOf(segment - 1);
    const { archiveId } = this.options;
    if (archiveId === undefined) return undefined;
    return { number: 0, hash: genesisHash(Buffer.from(archiveId, 'hex')) };
  }

  #lastCommitOf(segment: number): ChainState | undefined {
    for (const opened of openedIn(this.options.files, this.options.dir, segment)) {
      return walkToEnd(opened);
    }
    return undefined;
  }

  /** Opens every file of this archive that contains the segment, and corrects single bit flips. */
  #sourcesOf(dirs: readonly string[], segment: number): OpenSegment[] {
    const { files } = this.options;
    return dirs.flatMap((dir) =>
      listGenerations(files, dir, segment).flatMap((generation) => {
        const opened = openStraightened(files, dir, { segment, generation });
        if (opened === undefined || this.#isOwn(opened)) return opened ?? [];
        opened.file.close();
        return [];
      }),
    );
  }

  /** If there are no copies, the id may be unknown, and local files belong to the archive. */
  #isOwn({ header }: OpenSegment): boolean {
    const { archiveId } = this.options;
    return archiveId === undefined || header.archiveId.toString('hex') === archiveId;
  }

  /** Returns the records that footers mark as purged. Footers are readable even if a file's header is damaged. */
  #purgedIn(segment: number): Set<number> {
    const { dir, files, archiveId } = this.options;
    const purged = new Set<number>();
    if (archiveId === undefined) return purged;
    const space = { archiveId: Buffer.from(archiveId, 'hex'), segment };
    for (const generation of listGenerations(files, dir, segment)) {
      const file = openRegular(files, segmentPath(dir, { segment, generation }));
      if (file === undefined) continue;
      try {
        for (const at of purgedOrdinals(file, space)) purged.add(at);
      } finally {
        file.close();
      }
    }
    return purged;
  }

  /** Returns a segment's last commit, as recorded in the next segment's header. */
  #endOf(dirs: readonly string[], segment: number): ChainState | undefined {
    for (const dir of dirs)
      for (const next of openedIn(this.options.files, dir, segment + 1))
        if (this.#isOwn(next)) return commitBefore(next);
    return undefined;
  }
}

function commitBefore({ header }: OpenSegment): ChainState {
  return { number: header.previousNumber, hash: header.previousHash };
}

function isAt(last: ChainState | undefined, { number, hash }: ChainState): boolean {
  return last?.number === number && last.hash === hash;
}

function hashesOfDamaged(sources: readonly OpenSegment[]): Set<string> {
  const hashes = new Set<string>();
  for (const source of sources)
    for (const record of segmentRecords(source, { digest: false }))
      if (record.what === 'record' && record.state === 'damaged')
        hashes.add(record.hash.toString('hex'));
  return hashes;
}

async function setAside(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
): Promise<string[]> {
  const aside: string[] = [];
  const paths = new Set(files.list(logFolder(dir)).map((name) => `${logFolder(dir)}/${name}`));
  for (const generation of listing.get(segment) ?? []) {
    const path = segmentPath(dir, { segment, generation });
    let to = `${path}.damaged`;
    for (let n = 2; paths.has(to); n += 1) to = `${path}.damaged-${n}`;
    await files.rename(path, to);
    aside.push(to);
  }
  if (aside.length > 0) await files.syncFolder(logFolder(dir));
  return aside;
}

interface SkippedCopy {
  readonly copy: string;
  readonly reason: string;
}

/** A skipped segment. The copy's other segments are still used. */
interface SkippedSegment extends SkippedCopy {
  readonly file: string;
}

/**
 * Separates unreadable copies and segments, so that one hostile or broken copy cannot block the others. Damage is not a
 * reason to skip a segment, nor is a pipe or directory in its place.
 */
function readableCopies(files: FileLayer, dirs: readonly string[]) {
  const copies: string[] = [];
  const skippedCopies: SkippedCopy[] = [];
  const skippedSegments: SkippedSegment[] = [];
  const hidden = new Set<string>();
  for (const copy of dirs) {
    try {
      checkReadable(files, copy);
      const segments = [...listSegments(files, copy)].map(([segment, generations]) => {
        const paths = generations.map((generation) => segmentPath(copy, { segment, generation }));
        return { paths, refused: paths.flatMap((file) => refusedFile(files, copy, file)) };
      });
      // An older generation may contain mail that the unreadable one has purged.
      const bad = segments.filter(({ refused }) => refused.length > 0);
      const refused = bad.flatMap((segment) => segment.refused);
      const [first] = refused;
      if (first !== undefined && bad.length === segments.length) {
        skippedCopies.push({ copy, reason: first.reason });
        continue;
      }
      for (const path of bad.flatMap(({ paths }) => paths)) hidden.add(path);
      skippedSegments.push(...refused);
      copies.push(copy);
    } catch (error) {
      skippedCopies.push({ copy, reason: reasonOf(error) });
    }
  }
  return { copies, skippedCopies, skippedSegments, hidden };
}

/** A copy with a damaged FORMAT still has usable segments. @throws errors from `checkFormat` */
function checkReadable(files: FileLayer, copy: string): void {
  try {
    checkFormat(files, copy);
  } catch (error) {
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
}

function refusedFile(files: FileLayer, copy: string, file: string): SkippedSegment[] {
  try {
    openRegular(files, file)?.close();
    return [];
  } catch (error) {
    return [{ copy, file, reason: reasonOf(error) }];
  }
}

/** @throws errors that are neither system errors nor mailkeep errors */
function reasonOf(error: unknown): string {
  const reason = error instanceof MailkeepError ? error.code : errnoOf(error);
  if (reason === undefined) throw error;
  return reason;
}

interface MissingRecord {
  readonly kind: 'message' | 'blob';
  readonly hash: string;
}

interface Restored extends MissingRecord {
  readonly from: 'copy' | 'origin';
}

type OtherCopy = Awaited<ReturnType<typeof openCopies>>['others'][number];

/** Opens copies by reading their logs, because they may have no catalog. */
async function openCopies(files: FileLayer, copies: readonly string[]) {
  const skipped: SkippedCopy[] = [];
  const opened = [];
  for (const dir of copies) {
    const implied = await openImpliedCatalog();
    try {
      for await (const event of scanLog({ dir, files })) {
        const isNew =
          event.what === 'batch' && event.batch.commit.number > implied.reached().number;
        if (isNew) implied.fold([event.batch], true);
      }
      opened.push({ implied, reader: openLogReader({ dir, files, locator: implied.locator }) });
    } catch (error) {
      implied.close();
      skipped.push({ copy: dir, reason: reasonOf(error) });
    }
  }
  const others = opened.map(({ implied, reader }) => ({
    read({ kind, hash }: MissingRecord): Buffer | undefined {
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
  }));
  return { others, skipped };
}

/**
 * Determines the archive's id from local evidence: segment headers, its own checkpoints, or a copy that contains the
 * catalog's last commit. A copy alone proves nothing, because it can belong to another archive.
 *
 * @returns the id in hex; undefined if there is neither evidence nor a copy
 * @throws `repair-archive-unknown` if there is no evidence, `repair-other-archive` for a copy of another archive:
 * nothing was changed
 */
function archiveIdOf(
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

/** Returns the id found in the most log files, because a single file may have been misplaced. */
function idOfSegments(files: FileLayer, dir: string): string | undefined {
  const votes = new Map<string, number>();
  for (const { header } of openedIn(files, dir)) {
    const id = header.archiveId.toString('hex');
    votes.set(id, (votes.get(id) ?? 0) + 1);
  }
  return [...votes].toSorted(([, a], [, b]) => b - a).at(0)?.[0];
}

function idOfCheckpoints(dir: string): string | undefined {
  for (const { archiveId } of signedHere(dir, dir)) return archiveId;
  return undefined;
}

/** Maximum number of files to read, because anyone may have filled a copy's directory. */
const MAX_CHECKPOINTS = 1000;

/**
 * Yields the checkpoints signed by this archive's own key, in reverse name order.
 *
 * @param dir the archive
 * @param folder the archive or a copy
 */
function* signedHere(dir: string, folder: string): Generator<Checkpoint, void, undefined> {
  const checkpoints = path.join(folder, 'checkpoints');
  let ownKey: string;
  let names: readonly string[];
  try {
    ownKey = publicKeyOf(readSigningKey(path.join(dir, 'checkpoint.key')));
    names = readdirSync(checkpoints).toSorted().toReversed().slice(0, MAX_CHECKPOINTS);
  } catch (error) {
    if (!hasCode(error, 'checkpoint-key') && errnoOf(error) === undefined) throw error;
    return;
  }
  for (const name of names) {
    const statement = statementIn(path.join(checkpoints, name));
    if (statement?.publicKey === ownKey) yield statement;
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

/** A commit's hash covers the archive's id, so a log with the catalog's last commit belongs to this archive. */
function idByCommit(
  files: FileLayer,
  dir: string,
  expected: ExpectedCommit | undefined,
): string | undefined {
  if (expected === undefined || expected.number === 0) return undefined;
  const listing = listSegments(files, dir);
  for (const segment of listing.keys()) {
    const opened = tryOpenSegment(files, dir, segment, listing);
    if (opened === undefined) continue;
    try {
      for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
        if (item.what !== 'batch' || item.commit.number !== expected.number) continue;
        const isMatch = item.commit.hash === expected.hash;
        return isMatch ? opened.header.archiveId.toString('hex') : undefined;
      }
    } finally {
      opened.file.close();
    }
  }
  return undefined;
}

interface ProofOptions
  extends Pick<MendLogOptions, 'dir' | 'files' | 'copies' | 'expected' | 'archiveId'> {
  readonly segments: ReadonlySet<number>;
  /** From manifests in copies, signed by a key of this archive. */
  readonly vouched: readonly ChainState[];
  readonly trustsCopies: boolean;
}

interface UnprovenCopy {
  readonly copy: string;
  readonly number: number;
  readonly known: number;
}

interface Proof {
  /** Reports whether a record was deliberately forgotten. Data stored again later is mail. */
  readonly isForgotten: ForgottenCheck;
  readonly believed: FileTrust;
  readonly unproven: readonly UnprovenCopy[];
}

/**
 * Reads the log and its copies to find the commits in copies that lead to a known one. A commit is known from the log,
 * the catalog, or a checkpoint or manifest signed by this archive's own key. A commit's hash covers everything before
 * it. After the last known commit, a copy proves nothing, because anyone who can write to it can append purges.
 */
async function proveCopies(options: ProofOptions): Promise<Proof> {
  const { dir, files, copies, segments, trustsCopies } = options;
  const known = new KnownCommits(options);
  const purges = new Purges();
  for await (const { batch } of batchesIn(files, dir)) {
    purges.add(batch);
    known.reach(batch.commit);
  }
  const proven = new Set<string>();
  const unproven: UnprovenCopy[] = [];
  for (const copy of copies) {
    let last: ChainState = { number: 0, hash: '' };
    let [waiting, hashes]: [CommittedBatch[], string[]] = [[], []];
    for await (const { batch, sound } of batchesIn(files, copy)) {
      const { commit, previousHash } = batch;
      // After a gap, earlier batches may belong to another chain.
      if (!sound || previousHash !== last.hash) [waiting, hashes] = [[], []];
      last = commit;
      if (!sound && !trustsCopies) continue;
      if (purges.areIn(batch)) waiting.push(batch);
      const isWanted = batch.records.some(({ position }) => segments.has(position.segment));
      if (isWanted || batch.records.length === 0) hashes.push(commit.hash);
      if (!trustsCopies && !known.has(commit)) continue;
      for (const one of waiting) purges.add(one);
      for (const hash of hashes) proven.add(hash);
      [waiting, hashes] = [[], []];
    }
    if (!trustsCopies && last.number > known.last && !known.has(last)) {
      unproven.push({ copy, number: last.number, known: known.last });
    }
  }
  const believed: FileTrust = trustsCopies
    ? { isProven: () => true, last: Number.POSITIVE_INFINITY }
    : { isProven: ({ hash }) => proven.has(hash), last: known.last };
  return { isForgotten: purges.isForgotten, believed, unproven };
}

/** Locally known commits, each of which proves everything before it. */
class KnownCommits {
  readonly #hashes = new Map<number, string>();
  #reached: ChainState | undefined;

  constructor({ dir, files, copies, expected, vouched, archiveId }: ProofOptions) {
    if (expected !== undefined) this.#add(expected);
    for (const commit of vouched) this.#add(commit);
    for (const opened of openedIn(files, dir)) this.#add(commitBefore(opened));
    for (const folder of [dir, ...copies]) {
      for (const statement of signedHere(dir, folder))
        if (archiveId === undefined || statement.archiveId === archiveId) this.#add(statement);
    }
  }

  reach(commit: ChainState): void {
    this.#reached = commit;
  }

  /** Returns 0 if no commit is known. */
  get last(): number {
    return Math.max(0, this.#reached?.number ?? 0, ...this.#hashes.keys());
  }

  has({ number, hash }: ChainState): boolean {
    return number > 0 && (this.#hashes.get(number) === hash || this.#reached?.hash === hash);
  }

  #add({ number, hash }: ChainState): void {
    if (number > 0) this.#hashes.set(number, hash);
  }
}

/** Deliberately forgotten messages and blobs, each with the last commit to which this applies. */
class Purges {
  readonly #until = new Map<string, number>();

  areIn({ records }: CommittedBatch): boolean {
    return records.some((record) => record.kind === 'fact' && record.fact.fact === 'purged');
  }

  add({ commit: { number }, records }: CommittedBatch): void {
    for (const record of records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
      const { blobs = [], again = false } = record.fact;
      if (again) continue;
      for (const name of [
        `message ${removedMessage(record.fact)}`,
        ...blobs.map((blob) => `blob ${blob}`),
      ]) {
        this.#until.set(name, Math.max(number, this.#until.get(name) ?? 0));
      }
    }
  }

  readonly isForgotten: ForgottenCheck = ({ kind, hash, payload }, commit) => {
    if (this.#until.size === 0) return false;
    let name: string | undefined;
    if (kind === RECORD_KIND.blob) name = `blob ${hash.toString('hex')}`;
    else if (kind === RECORD_KIND.message && payload !== undefined) {
      name = `message ${readMessagePayload(payload)?.recipe.sha256}`;
    }
    return name !== undefined && commit < (this.#until.get(name) ?? 0);
  };
}

/** Yields the readable batches. There are none if FORMAT is damaged, but purge marks can still be read. */
async function* batchesIn(
  files: FileLayer,
  dir: string,
): AsyncGenerator<Extract<ScanEvent, { what: 'batch' }>, void, undefined> {
  try {
    for await (const event of scanLog({ dir, files })) if (event.what === 'batch') yield event;
  } catch (error) {
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
}

/** Fetches a message's source again, if possible. The caller checks its hash. */
type FetchAgain = (id: MessageId) => Promise<Buffer | undefined>;

interface RepairOptions {
  readonly dir: string;
  readonly files?: FileLayer;
  readonly checker: SegmentChecker;
  readonly copies: readonly string[];
  /** From manifests in copies, signed by a key of this archive. */
  readonly vouched?: readonly ChainState[];
  readonly trustsCopies?: boolean;
  readonly fetchAgain?: FetchAgain | undefined;
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export type RepairResult = Awaited<ReturnType<typeof repairArchive>>;

const BATCH_BYTES = 8 * 1024 * 1024;
const BATCH_MESSAGES = 128;

/**
 * Recovers damaged and missing bytes if their hashes match, and records those that cannot be recovered. Deletes
 * nothing. The caller rebuilds the catalog.
 *
 * @throws `repair-archive-unknown`, `repair-other-archive`: nothing was changed
 * @throws `disk-full` and other write errors: finished repairs are kept, and the call can be repeated
 */
export async function repairArchive(options: RepairOptions) {
  const { dir, files = realFiles, checker, signal } = options;
  // Treat unreadable sectors as damage. Only the writer must see their errors.
  const sectors = readAroundBadSectors(files);
  const { copies, hidden, ...skipped } = readableCopies(sectors, options.copies);
  const readable = hidden.size === 0 ? sectors : hideFiles(sectors, hidden);
  const verify = () => verifyArchive({ dir, files, checker, full: true, signal });
  const before = await verify();
  const expected = readCatalogHead(dir);
  const archiveId = archiveIdOf(readable, dir, copies, expected);
  const damaged = damagedSegments(before);
  const isShort = endsEarly(before);
  const wounds = { dir, files: readable, copies, damaged, endsEarly: isShort };
  const proof =
    damaged.length === 0 && !isShort
      ? undefined
      : await proveCopies({
          ...{ dir, files: readable, copies, expected, archiveId },
          segments: new Set(segmentsToMend(wounds)),
          vouched: options.vouched ?? [],
          trustsCopies: options.trustsCopies ?? false,
        });
  const mended = await repairLog({ ...wounds, expected, archiveId, proof });
  const after = mended.length > 0 ? await verify() : before;
  const wanted = listMissing(after);
  const done = {
    ...{ before, mended, ...skipped },
    restored: [] as Restored[],
    /** Records marked as missing, unless a copy or segment was skipped. The next repair searches again. */
    missing: [] as MissingRecord[],
    /** Copies with commits after the last known one, which were not used. */
    unproven: proof?.unproven ?? [],
    /** Reason why nothing could be appended to the log, whose last segment is beyond repair. */
    unwritable: null as string | null,
  };
  if (wanted.size === 0) return done;
  let writer: LogWriter;
  try {
    writer = await openLogWriter({ dir, files, now: options.now, expected });
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { ...done, unwritable: error.code };
  }
  const opened = await openCopies(readable, copies);
  try {
    const skippedCopies = [...skipped.skippedCopies, ...opened.skipped];
    const isAllRead = skippedCopies.length + skipped.skippedSegments.length === 0;
    const declare = isAllRead ? { except: await recordedAsMissing(readable, dir) } : null;
    const appended = await append(options, writer, opened.others, wanted, declare);
    return { ...done, ...appended, skippedCopies };
  } finally {
    for (const { close } of opened.others) close();
    await writer.close();
  }
}

function damagedSegments({ findings }: Verification): number[] {
  const found = findings.flatMap((finding) => (finding.what === 'log' ? [finding.segment] : []));
  return [...new Set(found)].sort((a, b) => a - b);
}

/** Reports whether the catalog's last commit is missing from the log or differs there. */
function endsEarly({ findings }: Verification): boolean {
  return findings.some((finding) => finding.what === 'commit' && finding.by === 'catalog');
}

function listMissing({ findings }: Verification): Map<string, MissingRecord> {
  const missing = new Map<string, MissingRecord>();
  for (const finding of findings) {
    if (finding.what === 'missing') {
      const { kind, hash } = finding;
      missing.set(`${kind} ${hash}`, { kind, hash });
    } else if (finding.what === 'message' && finding.message.id !== null) {
      const { id } = finding.message;
      if (finding.reason !== 'purged') missing.set(`message ${id}`, { kind: 'message', hash: id });
    }
  }
  return missing;
}

async function recordedAsMissing(files: FileLayer, dir: string): Promise<Set<string>> {
  const keys = new Set<string>();
  for await (const { batch } of batchesIn(files, dir))
    for (const record of batch.records)
      if (record.kind === 'fact' && record.fact.fact === 'missing')
        keys.add(`${record.fact.kind} ${record.fact.hash}`);
  return keys;
}

/** @param declare marks data as missing unless it is in `except`; null marks nothing */
async function append(
  { fetchAgain, signal }: RepairOptions,
  writer: LogWriter,
  others: readonly OtherCopy[],
  wanted: ReadonlyMap<string, MissingRecord>,
  declare: { readonly except: ReadonlySet<string> } | null,
) {
  const restored: Restored[] = [];
  const missing: MissingRecord[] = [];
  let batch = writer.newBatch();
  const flush = async (): Promise<void> => {
    if (batch.records === 0) return;
    const full = batch;
    batch = writer.newBatch();
    await writer.commit(full);
  };
  for (const [key, it] of wanted) {
    signal.throwIfAborted();
    const copied = others.map((other) => other.read(it)).find((bytes) => bytes !== undefined);
    const bytes = copied ?? (it.kind === 'message' ? await fetchAgain?.(it.hash) : undefined);
    if (bytes !== undefined && digest('sha256', bytes, 'hex') === it.hash) {
      // Stores all of a message's blobs again, without checking which ones are intact.
      if (it.kind === 'message') batch.addSource(bytes, it.hash);
      else batch.addBlob(bytes);
      restored.push({ ...it, from: copied === undefined ? 'origin' : 'copy' });
    } else {
      const isNew = declare !== null && !declare.except.has(key);
      if (isNew) batch.addFact({ fact: 'missing', ...it, size: 0 });
      missing.push(it);
    }
    if (batch.bytes >= BATCH_BYTES || batch.messages >= BATCH_MESSAGES) await flush();
  }
  await flush();
  return { restored, missing };
}

/**
 * Fetches sources from the configured mailboxes, using the places in the catalog. Fetches nothing if there is no
 * configuration. If a service does not respond, reports this and treats the message as not found.
 */
function fetchingAgain(
  context: EngineContext,
  dataDir: string,
): { readonly fetch: FetchAgain | undefined; close(): Promise<void> } {
  const { globals, environment, signal, report } = context;
  if (locateConfig(globals.config, environment) === undefined) {
    return { fetch: undefined, close: async () => {} };
  }
  const settings = loadSettings(context);
  const spoolDir = path.join(dataDir, 'tmp');
  makeFolders(spoolDir, FOLDER_MODE);
  const { accounts, rateLimit } = settings;
  const origins = new AccountOrigins({
    ...{ accounts, rateLimit, env: environment.env, spoolDir, dataDir },
    archived: () =>
      fromCatalog(dataDir, ({ connection }) => folderQueries(connection).accountMailboxes()),
  });
  const fetch = async (place: Place): Promise<Buffer | undefined> => {
    for (const account of origins.all()) {
      if (account.host !== place.host) continue;
      const { settings: each } = account;
      if (each.kind === 'imap' && each.imap.id !== place.mailbox) continue;
      try {
        const origin = origins.fresh(account);
        const source = await origin.source(place, place.uid, signal);
        if (source.kind === 'buffer') return source.bytes;
        const bytes = readFileSync(source.path);
        rmSync(source.path, { force: true });
        return bytes;
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        report({ event: 'not-fetched', place, error });
      }
    }
    return undefined;
  };
  return {
    async fetch(id) {
      for (const place of fromCatalog(dataDir, (catalog) => catalog.openPlaces(id))) {
        const bytes = await fetch(place);
        if (bytes !== undefined) return bytes;
      }
      return undefined;
    },
    close: () => origins.close(),
  };
}

function fromCatalog<T>(
  dataDir: string,
  read: (catalog: ReturnType<typeof openComparedCatalog>) => readonly T[],
): readonly T[] {
  try {
    const catalog = openComparedCatalog(dataDir);
    try {
      return read(catalog);
    } finally {
      catalog.close();
    }
  } catch (error) {
    // Without a catalog, mailboxes and places are unknown. Data found elsewhere is still restored.
    if (error instanceof MailkeepError) return [];
    throw error;
  }
}

export type OtherCopies = Pick<RepairOptions, 'copies' | 'vouched' | 'trustsCopies'>;

export type CatalogOutcome = Awaited<ReturnType<typeof mendCatalog>>;

type ShowRepair = <T>(
  part: 'mending' | 'reading',
  act: (progress: (progress: VerifyProgress) => void) => Promise<T>,
) => Promise<T>;

/**
 * Repairs an archive from copies and the service, then verifies it in full.
 *
 * @param others unreadable copies are skipped and listed in the result
 * @returns `after`: the verification after the repair; `remembered`: whether the archive's state contains the result
 * @throws archive-in-use
 */
export async function repairAndVerify(
  context: EngineContext,
  dataDir: string,
  others: OtherCopies,
  show: ShowRepair,
) {
  const startedAt = context.now();
  return withLock(dataDir, async () => {
    const repaired = await show('mending', () => mendAll(context, dataDir, others));
    const catalog = await mendCatalog(context, dataDir, repaired);
    const { signal, report } = context;
    if (stateDamage(dataDir) !== undefined)
      openState(dataDir, (file) => report({ event: 'state-put-aside', file })).close();
    const after = await show('reading', (progress) =>
      readArchive(dataDir, { full: true, vouched: [], signal, progress }),
    );
    const run = { at: startedAt, mode: 'repair', checkpoint: null } as const;
    const remembered = recordRead(context, dataDir, run, after, true);
    return { repaired, catalog, after, remembered };
  });
}

async function mendAll(
  context: EngineContext,
  dir: string,
  others: OtherCopies,
): Promise<RepairResult> {
  const checker = threadedChecker();
  const fetcher = fetchingAgain(context, dir);
  try {
    const { now, signal } = context;
    return await repairArchive({ dir, checker, ...others, fetchAgain: fetcher.fetch, now, signal });
  } finally {
    await fetcher.close();
    await checker.close();
  }
}

/** Rebuilds a catalog that differs from the log. Keeps the old one if the log has lost facts. */
async function mendCatalog(
  { signal, report }: EngineContext,
  dir: string,
  { before, mended, restored, missing }: RepairResult,
) {
  const untouched = mended.length + restored.length + missing.length === 0;
  if (untouched && (before.catalog === 'equal' || before.catalog === 'behind')) {
    return { catalogRebuilt: false, unread: null };
  }
  const keepAs = before.found > 0 ? freeName(`${catalogFile(dir)}.before-repair`) : undefined;
  report({ event: 'rebuilding-catalog', because: 'repair' });
  const expected = readCatalogHead(dir);
  const { unread: reason } = await rebuildWithExtractors({ dir, signal, expected, keepAs });
  const move = keepAs === undefined || reason === null ? null : { file: keepAs, reason };
  // Path and reason if the old catalog was moved because it could not be copied: an errno or `not a file`.
  return { catalogRebuilt: true, unread: move };
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}
