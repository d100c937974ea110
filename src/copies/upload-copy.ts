import { createHash, type KeyObject, sign } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readSmallFile, realFiles } from '../archive/file-system.ts';
import { formatPath } from '../archive/format.ts';
import { checkFormat } from '../archive/recovery.ts';
import { listSegments, withSegment } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import { readCatalogHead } from '../catalog/implied.ts';
import { forEachConcurrent } from '../core/concurrency.ts';
import type { PortableConfig } from '../core/config-shown.ts';
import { errnoName, hasCode, MailkeepError } from '../core/errors.ts';
import { openRegularFile } from '../core/files.ts';
import { openExistingState } from '../core/state.ts';
import { type SegmentProver, threadedProver } from '../verify/check-segment.ts';
import { ensureSigningKey, readSigningKey } from '../verify/checkpoint.ts';
import { damagedObjects } from '../verify/copy-facts.ts';
import type { CopyFinding } from './check-copy.ts';
import {
  type Boundary,
  commitIn,
  committedLength,
  damagedSegment,
  NO_TORN_BATCH,
  segmentState,
} from './copy-log.ts';
import { copiesError, objectError } from './errors.ts';
import {
  bytesAsStream,
  type ClearManifest,
  commitMark,
  encodeManifest,
  FOLDERS,
  manifestName,
  markOfName,
  objectName,
  segmentMark,
  tailMark,
} from './format/manifest.ts';
import { seal } from './format/sealed-object.ts';
import {
  readLocalManifest,
  repairKeptObjects,
  settingsText,
  storeLocalManifest,
  storeSettings,
} from './kept-objects.ts';
import {
  extendLocks,
  type LocalKey,
  type Locks,
  lockEnd,
  lockKeys,
  putWithLock,
  rawPublicKey,
  withOwnKey,
} from './local-key.ts';
import {
  type CopyMemory,
  copyMemory,
  type FoundManifest,
  type FoundManifests,
  findManifests,
  type ListedManifest,
  readManifest,
} from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

interface ClosedSegment {
  readonly segment: number;
  readonly end: ChainState;
  /** Digest of its purged records; empty if there are none. */
  readonly purged: string;
}

export type CopyScan = ReturnType<typeof scanArchive>;

/**
 * Lists an archive's segments, even while a writer is active. Reads the footers and the last segment.
 * @param seen highest commit recorded in the catalog, or 0
 * @throws `log-damaged` if a segment is unreadable or missing; `archive-missing` and other format errors
 */
export function scanArchive(dir: string, seen: number) {
  checkFormat(realFiles, dir);
  const listing = listSegments(realFiles, dir);
  const last = [...listing.keys()].at(-1);
  if (last === undefined) throw damagedSegment(dir, 1, 'segment-missing');
  const closed: ClosedSegment[] = [];
  /** Current segment, with its commits in order; undefined if the last segment is sealed. */
  let open: { readonly segment: number; readonly boundaries: readonly Boundary[] } | undefined;
  let archiveId: string | undefined;
  let end: ChainState | undefined;
  let time = 0;
  for (const [at, segment] of [...listing.keys()].entries()) {
    if (segment !== at + 1) throw damagedSegment(dir, at + 1, 'segment-missing');
    const isLast = segment === last;
    const state = segmentState(realFiles, dir, segment, listing, isLast ? seen : NO_TORN_BATCH);
    if (state === undefined || state.damaged)
      throw damagedSegment(dir, segment, 'bytes', listing.get(segment));
    archiveId ??= state.archiveId;
    end = state.end;
    time = state.endedAt ?? time;
    const { boundaries } = state;
    if (isLast && state.generation === 1) open = { segment, boundaries };
    else closed.push({ segment, end, purged: digestOf(state.purged) });
  }
  if (archiveId === undefined || end === undefined) throw damagedSegment(dir, 1, 'segment-missing');
  return {
    archiveId,
    /** Text of FORMAT without its line ending. */
    format: readSmallFile(realFiles, formatPath(dir)).toString('latin1').trimEnd(),
    /** Last commit, or number 0 and the genesis hash. `time` is in milliseconds since the epoch. */
    commit: { number: end.number, hash: end.hash, time },
    closed,
    open,
  };
}

/** Returns the archive's commit with this number, or undefined if there is none. */
function commitAt(
  dir: string,
  { commit, open, closed }: CopyScan,
  number: number,
): ChainState | undefined {
  const commits = [commit, ...(open?.boundaries ?? []), ...closed.map(({ end }) => end)];
  const within = closed.find(({ end }) => end.number > number);
  return (
    commits.find((one) => one.number === number) ??
    (within && commitIn(realFiles, dir, within.segment, number))
  );
}

function digestOf(ordinals: ReadonlySet<number>): string {
  if (ordinals.size === 0) return '';
  const sorted = [...ordinals].sort((a, b) => a - b);
  return createHash('sha256').update(sorted.join(',')).digest('hex');
}

const CHUNK_BYTES = 1024 * 1024;

async function* fileBytes(path: string, from: number, to: number): AsyncIterable<Buffer> {
  if (from === to) return;
  const fd = openRegularFile(path);
  yield* createReadStream(path, { fd, start: from, end: to - 1, highWaterMark: CHUNK_BYTES });
}

/** An object at the target. Length and hash refer to its stored bytes. */
export type ObjectEntry = Readonly<ClearManifest['objects'][number]>;

export interface PlannedObject<T> {
  readonly what: T;
  readonly mark: string;
  readonly there: ObjectEntry | undefined;
}

/** A range of whole batches in the current segment's generation 1 file. */
export interface TailRange {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
  readonly end: Boundary;
}

/** Maximum number of objects in the tail. Ranges double in size, so 64 MiB needs about ten. */
export const MAX_TAIL = 32;
/** Objects are padded to this length, so smaller ranges cost the same. */
const PADDING = 64 * 1024;

/**
 * Plans a copy's uploads. Keeps segments that exist at the target, regardless of their generation here. Adds new
 * batches of the open segment to its tail as one more object, merged with earlier objects that are not much larger. The
 * tail therefore stays short, and each byte is uploaded only a few times before its segment is closed.
 * @param known existing objects by mark
 */
export function planCopy(
  archiveScan: CopyScan,
  known: ReadonlyMap<string, ObjectEntry>,
  nameKey: Buffer,
) {
  const segments = archiveScan.closed.map((what) => {
    const mark = segmentMark(nameKey, what);
    return { what, mark, there: known.get(mark) };
  });
  const { open } = archiveScan;
  const tail = open === undefined ? [] : planTail(open.segment, open.boundaries, known, nameKey);
  return { segments, tail };
}

type CopyPlan = ReturnType<typeof planCopy>;

function planTail(
  segment: number,
  boundaries: readonly Boundary[],
  known: ReadonlyMap<string, ObjectEntry>,
  nameKey: Buffer,
): PlannedObject<TailRange>[] {
  const last = boundaries.at(-1);
  if (last === undefined) return [];
  const kept: PlannedObject<TailRange>[] = [];
  let from = 0;
  for (const end of boundaries) {
    const what = { segment, from, to: end.offset, end };
    const mark = tailMark(nameKey, what);
    const there = known.get(mark);
    if (there === undefined) continue;
    kept.push({ what, mark, there });
    from = end.offset;
  }
  if (from === last.offset) return kept;
  let size = last.offset - from;
  for (let before = kept.at(-1); before !== undefined; before = kept.at(-1)) {
    const bytes = before.what.to - before.what.from;
    const small = Math.max(bytes, PADDING) <= 2 * Math.max(size, PADDING);
    if (!small && kept.length < MAX_TAIL) break;
    kept.pop();
    size += bytes;
    from = before.what.from;
  }
  const what = { segment, from, to: last.offset, end: last };
  const mark = tailMark(nameKey, what);
  return [...kept, { what, mark, there: known.get(mark) }];
}

/** Returns the objects with the right length. The bucket's owner or a lifecycle rule may have removed some. */
async function findPresent(
  store: ObjectStore,
  entries: readonly ObjectEntry[],
  signal: AbortSignal,
): Promise<readonly ObjectEntry[]> {
  if (entries.length === 0) return [];
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  const found: ObjectEntry[] = [];
  for await (const { name, length } of store.list(FOLDERS.data, signal)) {
    const entry = byName.get(name);
    if (entry?.length === length) found.push(entry);
  }
  return found;
}

/** Name of an object that could not be removed, with the expiry of its lock, ISO 8601; null if unknown. */
type LockedObject = { readonly name: string; readonly until: string | null };
type Cleanup = ReturnType<typeof cleanupOf>;

function cleanupOf(manifests: number, objects: number, locked: readonly LockedObject[]) {
  const times = locked.map(({ until }) => until).sort();
  /** Latest of these times; null if nothing is locked or a time is unknown. */
  const lockedUntil = times.includes(null) ? null : (times.at(-1) ?? null);
  return { manifests, objects, locked, lockedUntil };
}

interface CleanupOptions
  extends Pick<UploadOptions, 'store' | 'key' | 'keep' | 'lockDays' | 'signal' | 'now'> {
  /** Sequence number of the last manifest written. Some stores list it only after a while. */
  readonly sequence: number;
  readonly uploading: ReadonlySet<string>;
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock'>;
}

export const NO_CLEANUP = cleanupOf(0, 0, []);

/** Time allowed for readers of a copy to finish, after their manifest has been replaced. */
const GRACE_MS = 24 * 3_600_000;

/**
 * Removes surplus manifests once they have been superseded for a day. Then removes objects that are in no remaining
 * manifest and at least a day old. All times are by the store's clock. If a remaining manifest is unreadable, keeps all
 * objects, because it may list any of them. Keeps objects until their locks expire, without reporting locks set by a
 * copy.
 * @param atOnce removes all manifests except the newest, and their objects, because they refer to purged mail
 * @returns undefined if the store does not list the last manifest yet; nothing has been removed
 */
export async function cleanUpCopy(
  options: CleanupOptions,
  atOnce: boolean,
): Promise<Cleanup | undefined> {
  const { store, key, signal, memory, now } = options;
  const { newest, listed } = await findManifests(store, key, signal);
  if (newest === undefined || newest.clear.sequence < options.sequence) return undefined;
  const locked: LockedObject[] = [];
  const remove = async (name: string): Promise<boolean> => {
    // After a purge, removal is attempted even if it is bound to fail, so that every run reports what remains.
    if (!atOnce && (memory.lockedUntil(name) ?? 0) > now()) return false;
    try {
      await store.delete(name, signal);
      return true;
    } catch (error) {
      if (!hasCode(error, 'object-locked')) throw error;
      const until = typeof error.facts.until === 'string' ? error.facts.until : null;
      if (!atOnce && isOwnLock(options, until)) memory.noteLock(name, Date.parse(until));
      else locked.push({ name, until });
      return false;
    }
  };
  const old = atOnce
    ? listed.filter(({ name }) => name !== newest.name)
    : findOutdated(listed, newest, options.keep);
  let manifests = 0;
  for (const { name } of old) {
    if (await remove(name)) manifests += 1;
  }
  const needed = await neededObjects(options, listed, new Set(old.map(({ name }) => name)), newest);
  if (needed === undefined) return cleanupOf(manifests, 0, locked);
  const latest = Math.max(...listed.map(({ modified }) => modified));
  let objects = 0;
  for await (const { name, modified } of store.list(FOLDERS.data, signal)) {
    const isYoung = !atOnce && modified > latest - GRACE_MS;
    if (needed.has(name) || options.uploading.has(name) || isYoung) continue;
    if (await remove(name)) objects += 1;
  }
  return cleanupOf(manifests, objects, locked);
}

function findOutdated(
  listed: readonly ListedManifest[],
  newest: FoundManifest,
  keep: number,
): ListedManifest[] {
  const inTime = [...listed].sort((a, b) => b.commit - a.commit || b.modified - a.modified);
  const latest = Math.max(...listed.map(({ modified }) => modified));
  return inTime.filter((manifest, at) => {
    const next = inTime[at - 1];
    if (manifest.name === newest.name || next === undefined || at < keep) return false;
    return next.modified < latest - GRACE_MS;
  });
}

/** Returns the objects in the remaining manifests, or undefined if a manifest is invalid. */
async function neededObjects(
  { store, key, signal }: CleanupOptions,
  listed: readonly ListedManifest[],
  old: ReadonlySet<string>,
  newest: FoundManifest,
): Promise<ReadonlySet<string> | undefined> {
  const needed = new Set(newest.clear.objects.map(({ name }) => name));
  for (const fact of listed) {
    if (old.has(fact.name) || fact.name === newest.name) continue;
    const manifest = await readManifest(store, fact, key, signal);
    if (manifest instanceof MailkeepError) return undefined;
    for (const { name } of manifest.clear.objects) needed.add(name);
  }
  return needed;
}

/** Returns whether a copy may have set a lock. If its memory was lost, only the expiry can hint at that. */
function isOwnLock(
  { lockDays, now }: Pick<CleanupOptions, 'lockDays' | 'now'>,
  until: string | null,
): until is string {
  if (until === null || lockDays === undefined) return false;
  // Stores round up to whole seconds.
  return Date.parse(until) <= lockEnd({ lockDays, now }) + 1_000;
}

export interface UploadOptions {
  readonly dir: string;
  readonly store: ObjectStore;
  readonly key: LocalKey;
  /** Private half (Ed25519) of one of the key's signers. */
  readonly signingKey: KeyObject;
  readonly memory: CopyMemory;
  readonly prover: SegmentProver;
  /** Highest commit recorded in the catalog, or 0. */
  readonly seen: number;
  /** Uploads the current state of every segment again. */
  readonly refresh: boolean;
  /** Number of newest manifests to keep regardless of age, including the new one. */
  readonly keep: number;
  /** Names of damaged objects at the target, to be uploaded again. */
  readonly damaged?: ReadonlySet<string> | undefined;
  /** Newest manifest seen here. Stored again if the target has only older ones. */
  readonly manifest?: KeptManifest | undefined;
  /** How many days to lock uploads for. Locks of objects in the newest manifest are extended in time. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly progress?: (done: CopyProgress) => void;
}

export interface KeptManifest {
  readonly clear: ClearManifest;
  readonly bytes: Buffer;
}

interface CopyProgress {
  readonly objects: number;
  readonly of: number;
  readonly bytes: number;
}

export type UploadResult = Awaited<ReturnType<typeof uploadCopy>>;

/** Reads and seals one object while sending another. */
const AT_ONCE = 2;
/** Maximum age of the archive's scan when a manifest is written. Unlisted objects are deleted after a day. */
const MAX_MS = 12 * 3_600_000;

/**
 * Brings an off-site copy up to the archive's last commit. Uploads missing objects, writes a manifest, then removes
 * objects that no recent manifest lists. An interruption leaves the newest manifest, and thus a complete archive.
 * @throws offsite-rolled-back, offsite-ahead, offsite-diverged, offsite-other-signer, offsite-nothing; errors of
 * `scanArchive`, `prove` and the store
 */
export async function uploadCopy(options: UploadOptions) {
  const { dir, store, key, memory, signal, now } = options;
  if (!key.signers.some((one) => one.equals(rawPublicKey(options.signingKey)))) {
    const signer = rawPublicKey(options.signingKey).toString('base64');
    throw copiesError('offsite-other-signer', { to: store.label, signer });
  }
  const mended: CopyFinding[] = [];
  let manifests = await findManifests(store, key, signal);
  const missing = (name: string): CopyFinding => ({
    name,
    error: objectError('object-missing', { store: store.label, name }),
  });
  if (isOlderManifest(manifests, options.manifest)) {
    const { clear, bytes } = options.manifest;
    const { name } = clear;
    mended.push(manifests.invalid.find((one) => one.name === name) ?? missing(name));
    await putWithLock(options, name, bytes.length, bytesAsStream(bytes));
    manifests = await findManifests(store, key, signal);
  }
  for (const { name, error } of manifests.invalid) {
    // It has a valid signature, so it is one of our manifests under another name.
    if (error.facts.reason !== 'name') continue;
    mended.push({ name, error });
    await store.delete(name, signal);
  }
  const before = manifests.newest;
  const damaged = options.damaged ?? new Set();
  const wanted = before?.clear.objects ?? [];
  const listedThere = await findPresent(
    store,
    wanted.filter(({ name }) => !damaged.has(name)),
    signal,
  );
  refuseOlderManifest(store, manifests, memory);
  const present = new Set(listedThere.map(({ name }) => name));
  const lost = wanted.filter(({ name }) => !present.has(name) && !damaged.has(name));
  const counted: UploadCount = { names: new Set(), bytes: 0 };
  for (;;) {
    const startedAt = now();
    const archiveScan = scanArchive(dir, options.seen);
    if (archiveScan.commit.number === 0) throw copiesError('offsite-nothing', { dir });
    if (before !== undefined) refuseStrangers(dir, store, archiveScan, before, key);
    const plan = planCopy(
      archiveScan,
      await knownObjects(options, listedThere, counted.names),
      key.nameKey,
    );
    if (replacesPurged(plan, before)) memory.purge(true);
    const listed = await upload(options, plan, counted);
    if (listed === undefined || now() - startedAt > MAX_MS) continue;
    const isNew = before === undefined || !isCurrent(before, archiveScan, listed);
    const { name, commit, sequence } = isNew
      ? await writeManifest(options, archiveScan, plan, listed, before)
      : { ...before.clear, name: before.name };
    memory.see({ commit, sequence, at: now() }, true);
    const entries = [...listed.values()];
    const names = [name, ...entries.map((entry) => entry.name)];
    const { lockDays } = options;
    const locks =
      lockDays === undefined ? null : await extendLocks({ ...options, lockDays }, names);
    const removed =
      isNew || memory.purging() ? await cleanUp(options, listed, sequence) : NO_CLEANUP;
    return {
      copyId: key.copyId,
      ...archiveScan.commit,
      /** Number and total size of uploaded objects, excluding the manifest. */
      uploaded: counted.names.size,
      bytes: counted.bytes,
      /** Number and total size of the objects in the manifest. */
      objects: entries.length,
      stored: entries.reduce((sum, { length }) => sum + length, 0),
      /** Number of objects in the newest manifest that had disappeared. */
      missing: lost.length,
      /** Missing or damaged objects that this run stored again. */
      mended: [...mended, ...lost.map(({ name }) => missing(name))],
      /** Names of damaged objects that the copy no longer needs. */
      replaced: wanted.filter((one) => damaged.has(one.name)).map((one) => one.name),
      manifest: name,
      invalid: manifests.invalid
        .map((one) => one.name)
        .filter((one) => !mended.some((finding) => finding.name === one)),
      removed,
      /** Locks of the newest manifest and its objects; null if locking was not requested. */
      locks,
    };
  }
}

async function cleanUp(
  options: UploadOptions,
  listed: ListedObjects,
  sequence: number,
): Promise<Cleanup> {
  const { memory } = options;
  const uploading = new Set([...listed.values()].map(({ name }) => name));
  const removed = await cleanUpCopy({ ...options, sequence, uploading }, memory.purging());
  if (removed === undefined) return NO_CLEANUP;
  if (removed.locked.length === 0) memory.purge(false);
  return removed;
}

/** Returns whether the target lacks a valid manifest as new as `kept`. */
export function isOlderManifest<M extends { readonly clear: ClearManifest }>(
  { newest }: FoundManifests,
  kept: M | undefined,
): kept is M {
  return kept !== undefined && (newest?.clear.sequence ?? -1) < kept.clear.sequence;
}

/** Like `refuseOlderManifest`, for callers without an open state. */
export function refuseRolledBack(
  dataDir: string,
  store: ObjectStore,
  { copyId }: LocalKey,
  manifests: FoundManifests,
): void {
  const state = openExistingState(dataDir);
  try {
    refuseOlderManifest(store, manifests, copyMemory(state, copyId));
  } finally {
    state?.close();
  }
}

/** Refuses an older manifest. The target's owner may have restored it, or removed the newest one. */
function refuseOlderManifest(
  store: ObjectStore,
  { newest, listed }: FoundManifests,
  memory: CopyMemory,
): void {
  const last = memory.seen();
  if (newest === undefined && listed.length > 0) {
    throw copiesError('offsite-no-manifest', { to: store.label, invalid: listed.length });
  }
  if (last === undefined) return;
  const isOlder =
    newest === undefined ||
    newest.clear.commit < last.commit ||
    newest.clear.sequence < last.sequence;
  if (!isOlder) return;
  const number = newest?.clear.commit ?? 0;
  throw copiesError('offsite-rolled-back', { to: store.label, number, seen: last.commit });
}

function refuseStrangers(
  dir: string,
  store: ObjectStore,
  archiveScan: CopyScan,
  { clear }: FoundManifest,
  { nameKey }: LocalKey,
): void {
  const number = clear.commit;
  const end = archiveScan.commit.number;
  const to = store.label;
  if (number > end) throw copiesError('offsite-ahead', { to, number, here: end });
  const commit = commitAt(dir, archiveScan, number);
  if (commit === undefined || commitMark(nameKey, commit) !== clear.chain) {
    throw copiesError('offsite-diverged', { to, number });
  }
}

/** Returns whether objects at the target may contain purged mail, because they hold earlier states of segments. */
function replacesPurged({ segments }: CopyPlan, before: FoundManifest | undefined): boolean {
  const last = before?.clear.commit ?? 0;
  const marks = new Set(before?.clear.objects.map(({ name }) => markOfName(name)));
  return segments.some(({ there, what, mark }, at) => {
    const begin = segments[at - 1]?.what.end.number ?? 0;
    return there === undefined && !marks.has(mark) && what.purged !== '' && begin < last;
  });
}

/** Returns known objects by mark: listed ones and later uploads. With `refresh`, only uploads from this run. */
async function knownObjects(
  { store, memory, refresh, signal }: UploadOptions,
  listed: readonly ObjectEntry[],
  uploaded: ReadonlySet<string>,
): Promise<Map<string, ObjectEntry>> {
  const known = refresh ? [] : [...listed];
  for (const entry of memory.uploaded()) {
    if (refresh && !uploaded.has(entry.name)) continue;
    const there = await store.head(entry.name, signal);
    if (there?.length === entry.length) known.push(entry);
  }
  return new Map(known.map((entry) => [markOfName(entry.name) ?? '', entry]));
}

interface UploadCount {
  readonly names: Set<string>;
  bytes: number;
}

/** A plan's objects, by mark. */
type ListedObjects = ReadonlyMap<string, ObjectEntry>;

/** Returns undefined if the archive has to be scanned again. */
async function upload(
  options: UploadOptions,
  plan: CopyPlan,
  counted: UploadCount,
): Promise<ListedObjects | undefined> {
  const { memory, progress } = options;
  const pieces: PlannedObject<ClosedSegment | TailRange>[] = [...plan.segments, ...plan.tail];
  const of = pieces.filter(({ there }) => there === undefined).length + counted.names.size;
  const listed = new Map<string, ObjectEntry>();
  try {
    await forEachConcurrent(pieces, AT_ONCE, async (piece) => {
      options.signal.throwIfAborted();
      let entry = piece.there;
      if (entry === undefined) {
        entry = await storePiece(options, piece, ({ name, length, bytes }) =>
          putWithLock(options, name, length, bytes),
        );
        memory.note(entry);
        counted.names.add(entry.name);
        counted.bytes += entry.length;
        progress?.({ objects: counted.names.size, of, bytes: counted.bytes });
      }
      listed.set(piece.mark, entry);
    });
  } catch (error) {
    if (error instanceof SegmentMoved) return undefined;
    throw error;
  }
  return listed;
}

/** An object that is sealed while its bytes are read. */
interface SealedPiece {
  readonly kind: 'segment' | 'tail';
  readonly name: string;
  readonly length: number;
  readonly bytes: AsyncIterable<Buffer>;
}

/**
 * Seals a segment or a part of the open one.
 *
 * @param put stores the object. Called again with another name if the file was replaced meanwhile.
 * @throws SegmentMoved if the archive has to be scanned again; errors of `put` and the prover
 */
export async function storePiece(
  { dir, key, prover }: Pick<UploadOptions, 'dir' | 'key' | 'prover'>,
  { what, mark }: Pick<PlannedObject<ClosedSegment | TailRange>, 'what' | 'mark'>,
  put: (piece: SealedPiece) => Promise<void>,
): Promise<ObjectEntry> {
  const isTail = 'from' in what;
  for (let tries = 1; ; tries += 1) {
    try {
      const file = fileInForce(dir, what.segment);
      // The next generation has different bytes at these offsets.
      if (isTail && file.sealed) throw new SegmentMoved();
      const { path, sealed } = file;
      if (!isTail) await prover.intact({ ...file.name, path, sealed });
      const [from, to] = isTail ? [what.from, what.to] : [0, file.length];
      const about = { kind: isTail ? 'tail' : 'segment', name: objectName(mark) } as const;
      const { length, bytes, sha256 } = seal(
        key.sealing,
        about,
        to - from,
        fileBytes(path, from, to),
      );
      await put({ ...about, length, bytes });
      return { name: about.name, length, sha256: sha256() };
    } catch (error) {
      if (errnoName(error) !== 'ENOENT' || tries === TRIES) throw error;
      if (isTail) throw new SegmentMoved();
      // The segment's next generation already exists.
    }
  }
}

const TRIES = 5;

/** The segment was sealed after the copy was planned. */
export class SegmentMoved extends Error {}

function fileInForce(dir: string, segment: number) {
  return withSegment(realFiles, dir, segment, (opened) => {
    const { name, path, sealed, file } = opened;
    const length = sealed === undefined ? committedLength(opened, NO_TORN_BATCH) : file.size();
    return { name, path, sealed: sealed !== undefined, length };
  });
}

/** Returns whether a manifest already contains everything that a new one would. */
function isCurrent({ clear }: FoundManifest, { commit }: CopyScan, listed: ListedObjects): boolean {
  const names = new Set(clear.objects.map(({ name }) => name));
  return (
    clear.commit === commit.number &&
    clear.objects.length === listed.size &&
    [...listed.values()].every(({ name }) => names.has(name))
  );
}

async function writeManifest(
  options: UploadOptions,
  archiveScan: CopyScan,
  plan: CopyPlan,
  listed: ListedObjects,
  before: FoundManifest | undefined,
): Promise<{ name: string; commit: number; sequence: number }> {
  const { key, signingKey, now } = options;
  const { archiveId, format, commit } = archiveScan;
  const name = manifestName(commit.number);
  const sequence = before === undefined ? 0 : before.clear.sequence + 1;
  const nameOf = (mark: string) => listed.get(mark)?.name ?? '';
  const segments = plan.segments.map(({ mark, what: { segment } }) => ({
    name: nameOf(mark),
    segment,
  }));
  const tail = plan.tail.map(({ mark, what: { segment, from, to } }) => ({
    name: nameOf(mark),
    ...{ segment, from, to },
  }));
  const bytes = await encodeManifest(
    {
      sequence,
      time: now(),
      previous: before?.clear.sha256 ?? null,
      chain: commitMark(key.nameKey, commit),
      objects: [...listed.values()],
      secret: { archiveId, format, commit, segments, tail },
    },
    name,
    { sealing: key.sealing, sign: (text: Buffer) => sign(null, text, signingKey) },
  );
  await putWithLock(options, name, bytes.length, bytesAsStream(bytes));
  return { name, commit: commit.number, sequence };
}

interface TargetOrder
  extends Pick<UploadOptions, 'store' | 'refresh' | 'keep' | 'lockDays' | 'signal' | 'now'> {
  readonly dataDir: string;
  readonly config?: PortableConfig | undefined;
  readonly onProgress: (progress: CopyProgress) => void;
}

/**
 * Updates the off-site copy of an archive, even while a sync is running.
 * @throws offsite-no-locks; errors from `withOwnKey`, `lockKeys` and `uploadCopy`
 */
export async function copyToTarget(order: TargetOrder) {
  const { dataDir, config, store, signal, onProgress, lockDays, now, ...rest } = order;
  if (lockDays !== undefined && !(await store.abilities(signal)).locks) {
    throw copiesError('offsite-no-locks', { to: store.label });
  }
  return withOwnKey(order, async (own, file) => {
    const state = openExistingState(dataDir);
    const prover = threadedProver();
    const memory = copyMemory(state, own.copyId);
    try {
      const signingKey = readSigningKey(await ensureSigningKey(dataDir));
      const locking = { store, memory, lockDays, signal, now };
      const mending = { ...locking, file, signingKey };
      const { key: mended, findings } = await repairKeptObjects({ ...mending, key: own });
      const settings = settingsText(state, config);
      const key =
        settings === undefined
          ? mended
          : await storeSettings({ ...mending, key: mended }, settings);
      // Locks the keys first, because all other objects are useless without them.
      const keys = lockDays === undefined ? null : await lockKeys({ ...locking, key, lockDays });
      const copied = await uploadCopy({
        ...rest,
        dir: dataDir,
        store,
        key,
        signal,
        prover,
        signingKey,
        ...{ memory, lockDays, now },
        damaged: state === undefined ? undefined : damagedObjects(state, store.label),
        manifest: readLocalManifest(dataDir, key),
        seen: readCatalogHead(dataDir)?.number ?? 0,
        progress: onProgress,
      });
      await storeLocalManifest(dataDir, { store, key, signal }, copied.manifest);
      return {
        ...copied,
        /** Damaged or missing objects that were found at the target while copying. */
        findings: [...findings, ...copied.mended.map((one) => ({ ...one, repaired: true }))],
        locks: sumLocks(keys, copied.locks),
      };
    } finally {
      await prover.close();
      state?.close();
    }
  });
}

function sumLocks(one: Locks | null, other: Locks | null): Locks | null {
  if (one === null || other === null) return other;
  return { extended: one.extended + other.extended, until: Math.min(one.until, other.until) };
}
