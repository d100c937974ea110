import { hash as digest } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Batch } from '../archive/batch.ts';
import { type FileLayer, filesWithout, realFiles } from '../archive/file-system.ts';
import { type CommittedBatch, FOLDER_MODE, RECORD_KIND } from '../archive/format.ts';
import { type ScanEvent, scanLog } from '../archive/log-reader.ts';
import { type LogWriter, openLogWriter } from '../archive/log-writer.ts';
import { type Believed, filesOverBadSectors, type IsForgotten } from '../archive/mend-segment.ts';
import { readMessagePayload } from '../archive/payload.ts';
import type { ExpectedCommit } from '../archive/recovery.ts';
import { listSegments, openSegment } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import { settingsOf } from '../catalog/archive-settings.ts';
import { catalogFile } from '../catalog/database.ts';
import { openCompared, reachedBy } from '../catalog/implied.ts';
import { type EngineContext, withLock } from '../catalog/open-reader.ts';
import { rebuild } from '../catalog/rebuild.ts';
import { locateConfig } from '../core/config-locate.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import { openState, stateDamage } from '../core/state.ts';
import type { MessageId, Place } from '../core/types.ts';
import { AccountOrigins } from '../sync/account-origins.ts';
import { checkerOnThreads, type SegmentChecker } from './check-segment.ts';
import type { VerifyProgress } from './read-log.ts';
import {
  archiveIdOf,
  type MendedSegment,
  mendLog,
  type OtherCopy,
  openCopies,
  readableCopies,
  type SkippedCopy,
  type SkippedSegment,
  segmentsToMend,
  signedHere,
  type Wanted,
} from './repair-log.ts';
import { readArchive, rememberRead } from './verify.ts';
import { type Verification, verifyArchive } from './verify-archive.ts';

interface ProofOptions {
  readonly dir: string;
  readonly files: FileLayer;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  /** Segments that are about to be mended. */
  readonly segments: ReadonlySet<number>;
  /** The last commit that a catalog has seen. */
  readonly expected: ExpectedCommit | undefined;
  /** Commits that a key of this archive has signed, in manifests of copies. */
  readonly vouched: readonly ChainState[];
  /** In hex, where it is known. */
  readonly archiveId: string | undefined;
  /** All that the copies say is believed: their owner says so. */
  readonly trustsCopies: boolean;
}

/** A copy with commits that nothing here proves. */
interface UnprovenCopy {
  readonly copy: string;
  /** Its last commit, and the last one that is known here. */
  readonly number: number;
  readonly known: number;
}

/** What can be believed about an archive whose log is damaged. */
export interface Proof {
  /** Says what was forgotten on purpose, and until which commit: what was stored again behind it is mail. */
  readonly isForgotten: IsForgotten;
  /** How far copies are believed. */
  readonly believed: Believed;
  readonly unproven: readonly UnprovenCopy[];
}

/**
 * Reads the log and its copies, and finds out which commits of the copies lead to one that is known here: by the log,
 * the catalog, or a checkpoint or manifest that this archive's own key signed. The hash of a commit covers all before it. Whoever
 * can write to a copy can append to it, and say there that mail was purged: behind the last known commit, a copy proves
 * nothing.
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
      // Behind a gap, nothing shows that what stood before it belongs to the same chain.
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
  const believed: Believed = trustsCopies
    ? { isProven: () => true, last: Number.POSITIVE_INFINITY }
    : { isProven: ({ hash }) => proven.has(hash), last: known.last };
  return { isForgotten: purges.isForgotten, believed, unproven };
}

/** The commits that are known here: each proves all before it. */
class KnownCommits {
  readonly #hashes = new Map<number, string>();
  #reached: ChainState | undefined;

  constructor({ dir, files, copies, expected, vouched, archiveId }: ProofOptions) {
    if (expected !== undefined) this.#add(expected);
    for (const commit of vouched) this.#add(commit);
    for (const [segment, generations] of listSegments(files, dir)) {
      for (const generation of generations) {
        const opened = openSegment(files, dir, { segment, generation });
        if (opened === undefined) continue;
        opened.file.close();
        const { previousNumber, previousHash } = opened.header;
        this.#add({ number: previousNumber, hash: previousHash });
      }
    }
    for (const folder of [dir, ...copies]) {
      for (const statement of signedHere(dir, folder))
        if (archiveId === undefined || statement.archiveId === archiveId) this.#add(statement);
    }
  }

  /** Takes note of the last commit of the log that was read so far. */
  reach(commit: ChainState): void {
    this.#reached = commit;
  }

  /** The highest number among them; 0 for none. */
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

/** What was forgotten on purpose, by the name of each message and blob, and until which commit. */
class Purges {
  readonly #until = new Map<string, number>();

  areIn({ records }: CommittedBatch): boolean {
    return records.some((record) => record.kind === 'fact' && record.fact.fact === 'purged');
  }

  add({ commit: { number }, records }: CommittedBatch): void {
    for (const record of records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
      const { message, blobs = [], again = false } = record.fact;
      if (again) continue;
      for (const name of [`message ${message}`, ...blobs.map((blob) => `blob ${blob}`)]) {
        this.#until.set(name, Math.max(number, this.#until.get(name) ?? 0));
      }
    }
  }

  readonly isForgotten: IsForgotten = ({ kind, hash, payload }, commit) => {
    if (this.#until.size === 0) return false;
    let name: string | undefined;
    if (kind === RECORD_KIND.blob) name = `blob ${hash.toString('hex')}`;
    else if (kind === RECORD_KIND.message && payload !== undefined) {
      name = `message ${readMessagePayload(payload)?.recipe.sha256}`;
    }
    return name !== undefined && commit < (this.#until.get(name) ?? 0);
  };
}

/**
 * Reads what batches there are; damage is passed over. Reads nothing from a folder whose FORMAT is damaged: what its
 * files mark as purged is known without it.
 */
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

/** Gives a message's source from where it came from, or undefined where it cannot. Its hash is compared here. */
type FetchAgain = (id: MessageId) => Promise<Buffer | undefined>;

interface RepairOptions {
  /** The caller holds its lock, and has no catalog open. */
  readonly dir: string;
  readonly files?: FileLayer;
  readonly checker: SegmentChecker;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  /** Commits that a key of this archive has signed, in manifests of copies; none by default. */
  readonly vouched?: readonly ChainState[];
  /** Believe all that the copies say, also what nothing here proves. */
  readonly trustsCopies?: boolean;
  readonly fetchAgain?: FetchAgain | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

export interface Repaired {
  /** What was found before anything was done. */
  readonly before: Verification;
  readonly mended: readonly MendedSegment[];
  readonly restored: readonly {
    readonly kind: 'message' | 'blob';
    readonly hash: string;
    readonly from: 'copy' | 'origin';
  }[];
  /**
   * Not recoverable. Recorded as missing until they are found, unless something was skipped: it may hold them, and the
   * next repair searches there.
   */
  readonly missing: readonly { readonly kind: 'message' | 'blob'; readonly hash: string }[];
  /** Copies that cannot be read. Nothing was taken from them. */
  readonly skippedCopies: readonly SkippedCopy[];
  /** Segments that cannot be read, of copies that were used. */
  readonly skippedSegments: readonly SkippedSegment[];
  /** Copies with commits behind the last one that is known here, which were not taken. */
  readonly unproven: readonly UnprovenCopy[];
  /** Why nothing could be appended to the log: its last segment is damaged beyond mending. */
  readonly unwritable: string | null;
}

/** A batch is committed from this size on. */
const BATCH_BYTES = 8 * 1024 * 1024;
const BATCH_MESSAGES = 128;

/**
 * Recovers damaged and missing bytes, accepts them only when their hash is right, and records what cannot be
 * recovered. Deletes nothing. Leaves the catalog as it is: the caller rebuilds it.
 *
 * @throws `repair-archive-unknown`, `repair-other-archive`: nothing was changed
 * @throws `disk-full` and the other errors of writing: what was mended before is whole, and it can be done again
 */
export async function repairArchive(options: RepairOptions): Promise<Repaired> {
  const { dir, files = realFiles, checker, signal } = options;
  // What the disk does not give back is damage like any other; only the writer has to know of it.
  const sectors = filesOverBadSectors(files);
  const { copies, hidden, ...skipped } = readableCopies(sectors, options.copies);
  const readable = hidden.size === 0 ? sectors : filesWithout(sectors, hidden);
  const verify = () => verifyArchive({ dir, files, checker, full: true, signal });
  const before = await verify();
  const expected = reachedBy(dir);
  const archiveId = archiveIdOf(readable, dir, copies, expected);
  const damaged = damagedSegments(before);
  const short = endsEarly(before);
  const wounds = { dir, files: readable, copies, damaged, endsEarly: short };
  const proof =
    damaged.length === 0 && !short
      ? undefined
      : await proveCopies({
          ...{ dir, files: readable, copies, expected, archiveId },
          segments: new Set(segmentsToMend(wounds)),
          vouched: options.vouched ?? [],
          trustsCopies: options.trustsCopies ?? false,
        });
  const mended = await mendLog({ ...wounds, expected, archiveId, proof });
  const after = mended.length > 0 ? await verify() : before;
  const wanted = wantedOf(after);
  const done = {
    ...{ before, mended, restored: [], missing: [], ...skipped, unwritable: null },
    unproven: proof?.unproven ?? [],
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
    const declare = isAllRead ? { except: await declared(readable, dir) } : null;
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

/** The catalog has seen a commit that the log has not, or has another one in its place. */
function endsEarly({ findings }: Verification): boolean {
  return findings.some((finding) => finding.what === 'commit' && finding.by === 'catalog');
}

function wantedOf({ findings }: Verification): Map<string, Wanted> {
  const wanted = new Map<string, Wanted>();
  for (const finding of findings) {
    if (finding.what === 'missing') {
      const { kind, hash } = finding;
      wanted.set(`${kind} ${hash}`, { kind, hash });
    } else if (finding.what === 'message' && finding.message.id !== null) {
      const { id } = finding.message;
      if (finding.reason !== 'purged') wanted.set(`message ${id}`, { kind: 'message', hash: id });
    }
  }
  return wanted;
}

/** Returns what earlier repairs recorded as missing, so that it is not recorded twice. */
async function declared(files: FileLayer, dir: string): Promise<Set<string>> {
  const known = new Set<string>();
  for await (const event of scanLog({ dir, files })) {
    if (event.what !== 'batch') continue;
    for (const record of event.batch.records) {
      if (record.kind === 'fact' && record.fact.fact === 'missing') {
        known.add(`${record.fact.kind} ${record.fact.hash}`);
      }
    }
  }
  return known;
}

/** @param declare record what is found nowhere as missing, except what is recorded already; null: record nothing */
async function append(
  { fetchAgain, signal }: RepairOptions,
  writer: LogWriter,
  others: readonly OtherCopy[],
  wanted: ReadonlyMap<string, Wanted>,
  declare: { readonly except: ReadonlySet<string> } | null,
): Promise<Pick<Repaired, 'restored' | 'missing'>> {
  const restored: Repaired['restored'][number][] = [];
  const missing: Wanted[] = [];
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
      add(batch, it, bytes);
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

/** All of a message's blobs are stored again: which of those here are sound is not asked. */
function add(batch: Batch, { kind, hash }: Wanted, bytes: Buffer): void {
  if (kind === 'message') batch.addSource(bytes, hash);
  else batch.addBlob(bytes);
}

/**
 * Fetches sources again from the mailboxes of the configuration, by the places that the catalog knows. Without a
 * configuration nothing is fetched; a service that does not answer is reported, and the message counts as not found.
 */
function fetchingAgain(
  context: EngineContext,
  dataDir: string,
): { readonly fetch: FetchAgain | undefined; close(): Promise<void> } {
  const { globals, surroundings, signal, report } = context;
  if (locateConfig(globals.config, surroundings) === undefined) {
    return { fetch: undefined, close: async () => {} };
  }
  const settings = settingsOf(context);
  const spoolDir = path.join(dataDir, 'tmp');
  makeFolders(spoolDir, FOLDER_MODE);
  const { accounts, rateLimit } = settings;
  const origins = new AccountOrigins({ accounts, rateLimit, env: surroundings.env, spoolDir });
  const fetch = async (place: Place): Promise<Buffer | undefined> => {
    for (const account of origins.all()) {
      if (account.host !== place.host) continue;
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
      for (const place of placesOf(dataDir, id)) {
        const bytes = await fetch(place);
        if (bytes !== undefined) return bytes;
      }
      return undefined;
    },
    async close() {
      await origins.close();
    },
  };
}

function placesOf(dataDir: string, id: MessageId): Place[] {
  try {
    const catalog = openCompared(dataDir);
    try {
      return catalog.openPlaces(id);
    } finally {
      catalog.close();
    }
  } catch (error) {
    // Without a catalog nobody knows where to ask; what was found elsewhere is restored all the same.
    if (error instanceof MailkeepError) return [];
    throw error;
  }
}

/** Folders of copies, the commits that are signed, and whether all that the copies say is believed. */
export type OtherCopies = Pick<RepairOptions, 'copies' | 'vouched' | 'trustsCopies'>;

/** What a repair came to. */
interface RepairOutcome {
  readonly repaired: Repaired;
  readonly catalog: CatalogOutcome;
  /** The verification of everything after the repair. */
  readonly after: Verification;
  /** Whether the archive's state has the result. */
  readonly remembered: boolean;
}

export interface CatalogOutcome {
  readonly catalogRebuilt: boolean;
  /** Where the old one was moved to, because it could not be copied there, and why: an errno or `not a file`. */
  readonly unread: { readonly file: string; readonly reason: string } | null;
}

/** Shows a part of the work for as long as `act` takes. */
type ShowRepair = <T>(
  part: 'mending' | 'reading',
  act: (progress: (progress: VerifyProgress) => void) => Promise<T>,
) => Promise<T>;

/**
 * Repairs an archive from copies of it and from the service, and verifies all of it afterwards.
 *
 * @param others copies; one that cannot be read is named in the result and skipped
 * @throws archive-in-use
 */
export async function repairAndVerify(
  context: EngineContext,
  dataDir: string,
  others: OtherCopies,
  show: ShowRepair,
): Promise<RepairOutcome> {
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
    const remembered = rememberRead(context, dataDir, run, after, true);
    return { repaired, catalog, after, remembered };
  });
}

async function mendAll(
  context: EngineContext,
  dir: string,
  others: OtherCopies,
): Promise<Repaired> {
  const checker = checkerOnThreads();
  const again = fetchingAgain(context, dir);
  try {
    const { now, signal } = context;
    return await repairArchive({ dir, checker, ...others, fetchAgain: again.fetch, now, signal });
  } finally {
    await again.close();
    await checker.close();
  }
}

/** Rebuilds a catalog that is not what the log implies, and keeps the old one where the log lost facts. */
async function mendCatalog(
  { signal, report }: EngineContext,
  dir: string,
  { before, mended, restored, missing }: Repaired,
): Promise<CatalogOutcome> {
  const untouched = mended.length + restored.length + missing.length === 0;
  if (untouched && (before.catalog === 'equal' || before.catalog === 'behind')) {
    return { catalogRebuilt: false, unread: null };
  }
  const keepAs = before.found > 0 ? freeName(`${catalogFile(dir)}.before-repair`) : undefined;
  report({ event: 'rebuilding-catalog', because: 'repair' });
  const expected = reachedBy(dir);
  const { unread: reason } = await rebuild({ dir, signal, expected, keepAs });
  const moved = keepAs === undefined || reason === null ? null : { file: keepAs, reason };
  return { catalogRebuilt: true, unread: moved };
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}
