import { type KeyObject, sign } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realFiles } from '../archive/file-system.ts';
import { listSegments, withSegment } from '../archive/segment-files.ts';
import { severalAtOnce } from '../core/concurrency.ts';
import { errnoName, hasCode, MailkeepError } from '../core/errors.ts';
import { openRegularFile } from '../core/files.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import type { CopyFinding } from './check-copy.ts';
import { NEVER_TORN, soundLength } from './copy-log.ts';
import { copiesError, objectError } from './errors.ts';
import {
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
  keepLocked,
  type LocalKey,
  type Locks,
  lockEnd,
  putLocked,
  rawPublicKey,
} from './local-key.ts';
import {
  type CopyMemory,
  type FoundManifest,
  type FoundManifests,
  findManifests,
  type ListedManifest,
  oneObject,
  readManifest,
} from './manifests.ts';
import type { ObjectStore } from './object-store.ts';
import {
  type Boundary,
  type ClosedSegment,
  type Survey,
  standingOf,
  surveyArchive,
} from './scan-copy.ts';

const CHUNK_BYTES = 1024 * 1024;

/** Yields the bytes of a file from one offset to another. @throws the system's errors */
async function* fileBytes(path: string, from: number, to: number): AsyncIterable<Buffer> {
  if (from === to) return;
  const fd = openRegularFile(path);
  yield* createReadStream(path, { fd, start: from, end: to - 1, highWaterMark: CHUNK_BYTES });
}

/** An object of the target, as a manifest lists it. */
export interface ObjectEntry {
  readonly name: string;
  /** Bytes as they are stored there. */
  readonly length: number;
  /** Of those bytes, hexadecimal. */
  readonly sha256: string;
}

/** One object that the next manifest needs: one that is there, or one to upload. */
export interface Piece<T> {
  readonly what: T;
  /** By which the object is recognised among others. */
  readonly mark: string;
  readonly there: ObjectEntry | undefined;
}

/** A range of bytes of generation 1 of the segment that is written to: whole batches. */
export interface TailRange {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
  /** The commit that ends it. */
  readonly end: Boundary;
}

interface CopyPlan {
  readonly segments: readonly Piece<ClosedSegment>[];
  readonly tail: readonly Piece<TailRange>[];
}

/** How a copy recognises its objects. */
export interface Marks {
  readonly segment: (segment: ClosedSegment) => string;
  readonly tail: (range: TailRange) => string;
}

/** Objects of the tail at the most. Ranges double in size, so a segment of 64 MiB has about ten. */
export const LONGEST_TAIL = 32;
/** What an object takes at least: a small range costs as much as one of this size. */
const PADDING = 64 * 1024;

/**
 * Decides what a copy has to upload. A segment that is there stays, whatever its generation here. New batches of the
 * open segment become one more object of its tail, joined with those before it while they are not much larger: so each
 * byte is uploaded a few times at the most until its segment is closed, and the tail stays short.
 *
 * @param known the objects that are there, by their mark
 */
export function planCopy(
  survey: Survey,
  known: ReadonlyMap<string, ObjectEntry>,
  marks: Marks,
): CopyPlan {
  const segments = survey.closed.map((what) => {
    const mark = marks.segment(what);
    return { what, mark, there: known.get(mark) };
  });
  const { open } = survey;
  const tail = open === undefined ? [] : planTail(open.segment, open.boundaries, known, marks);
  return { segments, tail };
}

function planTail(
  segment: number,
  boundaries: readonly Boundary[],
  known: ReadonlyMap<string, ObjectEntry>,
  marks: Marks,
): Piece<TailRange>[] {
  const last = boundaries.at(-1);
  if (last === undefined) return [];
  const kept: Piece<TailRange>[] = [];
  let from = 0;
  for (const end of boundaries) {
    const what = { segment, from, to: end.offset, end };
    const mark = marks.tail(what);
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
    if (!small && kept.length < LONGEST_TAIL) break;
    kept.pop();
    size += bytes;
    from = before.what.from;
  }
  const what = { segment, from, to: last.offset, end: last };
  const mark = marks.tail(what);
  return [...kept, { what, mark, there: known.get(mark) }];
}

/**
 * Returns those of the listed objects that are there with their length. A lifecycle rule of the bucket, or its owner, may
 * have removed some.
 *
 * @throws what the store throws
 */
async function stillThere(
  store: ObjectStore,
  listed: readonly ObjectEntry[],
  signal: AbortSignal,
): Promise<readonly ObjectEntry[]> {
  if (listed.length === 0) return [];
  const wanted = new Map(listed.map((entry) => [entry.name, entry]));
  const found: ObjectEntry[] = [];
  for await (const { name, length } of store.list(FOLDERS.data, signal)) {
    const entry = wanted.get(name);
    if (entry?.length === length) found.push(entry);
  }
  return found;
}

interface Tidied {
  readonly manifests: number;
  readonly objects: number;
  /** What was to be removed, and a lock keeps. */
  readonly locked: readonly LockedObject[];
  /** When the last of these locks ends, ISO 8601; null where there is none, or the store does not say of one. */
  readonly lockedUntil: string | null;
}

interface LockedObject {
  readonly name: string;
  /** ISO 8601; null where the store does not say. */
  readonly until: string | null;
}

interface TidyOptions
  extends Pick<CopyOutOptions, 'store' | 'key' | 'keep' | 'lockDays' | 'signal' | 'now'> {
  /** Of the manifest that was written last. Some stores list it only after a while. */
  readonly sequence: number;
  /** Objects that were uploaded and are not listed yet. */
  readonly uploading: ReadonlySet<string>;
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock'>;
}

/** What was tidied where there was nothing to do. */
export const NOTHING_TIDIED: Tidied = { manifests: 0, objects: 0, locked: [], lockedUntil: null };

/** Whoever reads a copy has that long after another manifest replaced the one that they read. */
const GRACE_MS = 24 * 3_600_000;

/**
 * Removes what nobody needs any more: manifests beyond those to keep once they have been superseded for a day, and then
 * objects that no remaining manifest lists, unless they are younger than a day. All times are of the store's clock.
 * Objects stay as they are while a manifest that remains cannot be read, since it may list them. What copies have locked
 * themselves stays until the lock has ended, and is not counted as kept.
 *
 * @param atOnce tries to remove all manifests but the newest, and what only they list: after a purge, they lead to mail that
 *   was to be forgotten
 * @returns undefined where the store does not list the manifest that was written last: all is still to be done then
 */
export async function tidyCopy(options: TidyOptions, atOnce: boolean): Promise<Tidied | undefined> {
  const { store, key, signal } = options;
  const { newest, listed } = await findManifests(store, key, signal);
  if (newest === undefined || newest.clear.sequence < options.sequence) return undefined;
  const old = atOnce
    ? listed.filter(({ name }) => name !== newest.name)
    : outdated(listed, newest, options.keep);
  const locked: LockedObject[] = [];
  const tidying: Tidying = { ...options, atOnce, locked };
  let manifests = 0;
  for (const { name } of old) {
    if (await removed(tidying, name)) manifests += 1;
  }
  const needed = await neededObjects(options, listed, new Set(old.map(({ name }) => name)), newest);
  if (needed === undefined) return { manifests, objects: 0, ...kept(locked) };
  const latest = Math.max(...listed.map(({ modified }) => modified));
  let objects = 0;
  for await (const { name, modified } of store.list(FOLDERS.data, signal)) {
    const isYoung = !atOnce && modified > latest - GRACE_MS;
    if (needed.has(name) || options.uploading.has(name) || isYoung) continue;
    if (await removed(tidying, name)) objects += 1;
  }
  return { manifests, objects, ...kept(locked) };
}

function kept(locked: readonly LockedObject[]): Pick<Tidied, 'locked' | 'lockedUntil'> {
  const ends = locked.map(({ until }) => until).sort();
  return { locked, lockedUntil: ends.includes(null) ? null : (ends.at(-1) ?? null) };
}

function outdated(
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

/** What the remaining manifests list, or undefined if one of them is not valid. */
async function neededObjects(
  { store, key, signal }: TidyOptions,
  listed: readonly ListedManifest[],
  old: ReadonlySet<string>,
  newest: FoundManifest,
): Promise<ReadonlySet<string> | undefined> {
  const needed = new Set(newest.clear.objects.map(({ name }) => name));
  for (const fact of listed) {
    if (old.has(fact.name) || fact.name === newest.name) continue;
    const found = await readManifest(store, fact, key, signal);
    if (found instanceof MailkeepError) return undefined;
    for (const { name } of found.clear.objects) needed.add(name);
  }
  return needed;
}

interface Tidying extends TidyOptions {
  readonly atOnce: boolean;
  readonly locked: LockedObject[];
}

async function removed(tidying: Tidying, name: string): Promise<boolean> {
  const { store, signal, memory, now, atOnce, locked } = tidying;
  // After a purge it is tried all the same: what is kept then is reported each time.
  if (!atOnce && (memory.lockedUntil(name) ?? 0) > now()) return false;
  try {
    await store.delete(name, signal);
    return true;
  } catch (error) {
    if (!hasCode(error, 'object-locked')) throw error;
    const until = typeof error.facts.until === 'string' ? error.facts.until : null;
    if (!atOnce && isOwnLock(tidying, until)) memory.noteLock(name, Date.parse(until));
    else locked.push({ name, until });
    return false;
  }
}

/** Whether a lock may be one that a copy set: without its memory, nothing else shows it. */
function isOwnLock(
  { lockDays, now }: Pick<Tidying, 'lockDays' | 'now'>,
  until: string | null,
): until is string {
  if (until === null || lockDays === undefined) return false;
  // The store keeps whole seconds, rounded up.
  return Date.parse(until) <= lockEnd({ lockDays, now }) + 1_000;
}

export interface CopyOutOptions {
  /** The folder of the archive. */
  readonly dir: string;
  readonly store: ObjectStore;
  readonly key: LocalKey;
  /** Ed25519: the private half of one of the key's signers. */
  readonly signingKey: KeyObject;
  readonly memory: CopyMemory;
  readonly prover: SegmentProver;
  /** The highest commit that the catalog has seen; 0 for none. */
  readonly seen: number;
  /** Uploads every segment again, as it is here now. */
  readonly refresh: boolean;
  /** How many of the newest manifests stay, whatever their age, the new one included. */
  readonly keep: number;
  /** Objects that were found damaged there: they are uploaded again. */
  readonly damaged?: ReadonlySet<string> | undefined;
  /** The newest manifest that was seen here: stored again where the target has none that is as new. */
  readonly manifest?: KeptManifest | undefined;
  /** Locks what is uploaded for that many days, and what the newest manifest names again in time. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly progress?: (done: CopyProgress) => void;
}

/** A manifest with its bytes, as this machine keeps it. */
export interface KeptManifest {
  readonly clear: ClearManifest;
  readonly bytes: Buffer;
}

export interface CopyProgress {
  readonly objects: number;
  readonly of: number;
  readonly bytes: number;
}

export interface CopiedOut {
  readonly copyId: string;
  /** The commit that the copy leads to now. */
  readonly number: number;
  readonly hash: string;
  /** Objects and bytes that were uploaded, without the manifest. */
  readonly uploaded: number;
  readonly bytes: number;
  /** Objects that the manifest lists, and their bytes. */
  readonly objects: number;
  readonly stored: number;
  /** Objects that the newest manifest listed, and that were no longer there: what they had was uploaded again. */
  readonly missing: number;
  /** Objects that were missing or damaged, and that this run stored again. */
  readonly mended: readonly CopyFinding[];
  /** Objects that were known to be damaged, and that the copy no longer needs. */
  readonly replaced: readonly string[];
  /** The name of the manifest that leads to the copy now. */
  readonly manifest: string;
  /** Manifests at the target that are not valid. */
  readonly invalid: readonly string[];
  readonly removed: Tidied;
  /** Of what the newest manifest names, and of itself; null where nothing was to be locked. */
  readonly locks: Locks | null;
}

/** Two objects at a time: one is read and sealed while the other travels. */
const AT_ONCE = 2;
/** After that long, what was surveyed is surveyed again before a manifest is written: objects are deleted after a day. */
const LONGEST_MS = 12 * 3_600_000;

/**
 * Brings an off-site copy to the last commit of the archive: uploads what is missing, then writes a manifest, then
 * removes what no manifest of the last day names. Whenever it is interrupted, the newest manifest leads to a complete
 * archive.
 *
 * @throws offsite-rolled-back, offsite-ahead, offsite-diverged, offsite-other-signer, offsite-nothing; what
 *   `surveyArchive`, `prove` and the store throw
 */
export async function copyOut(options: CopyOutOptions): Promise<CopiedOut> {
  const { dir, store, key, memory, signal, now } = options;
  if (!key.signers.some((one) => one.equals(rawPublicKey(options.signingKey)))) {
    const signer = rawPublicKey(options.signingKey).toString('base64');
    throw copiesError('offsite-other-signer', { to: store.label, signer });
  }
  const mended: CopyFinding[] = [];
  let manifests = await findManifests(store, key, signal);
  if (isOlder(manifests, options.manifest)) {
    const { clear, bytes } = options.manifest;
    const { name } = clear;
    const damage = manifests.invalid.find((one) => one.name === name)?.error;
    mended.push({
      name,
      error: damage ?? objectError('object-missing', { store: store.label, name }),
    });
    await putLocked(options, name, bytes.length, oneObject(bytes));
    manifests = await findManifests(store, key, signal);
  }
  for (const { name, error } of manifests.invalid) {
    // One of ours: its signature is checked before its name.
    if (error.facts.reason !== 'name') continue;
    mended.push({ name, error });
    await store.delete(name, signal);
  }
  const before = manifests.newest;
  const damaged = options.damaged ?? new Set();
  const wanted = before?.clear.objects ?? [];
  const listedThere = await stillThere(
    store,
    wanted.filter(({ name }) => !damaged.has(name)),
    signal,
  );
  refuseOlder(store, manifests, memory);
  const present = new Set(listedThere.map(({ name }) => name));
  const lost = wanted.filter(({ name }) => !present.has(name) && !damaged.has(name));
  const counted: Uploaded = { names: new Set(), bytes: 0 };
  for (;;) {
    const begun = now();
    const survey = surveyArchive(realFiles, dir, options.seen);
    if (survey.commit.number === 0) throw copiesError('offsite-nothing', { dir });
    if (before !== undefined) refuseStrangers(dir, store, survey, before, key);
    const plan = planCopy(
      survey,
      await knownObjects(options, listedThere, counted.names),
      marksOf(key),
    );
    if (replacesPurged(plan, before)) memory.purge(true);
    const listed = await upload(options, plan, counted);
    if (listed === undefined || now() - begun > LONGEST_MS) continue;
    const isNew = before === undefined || !isThere(before, survey, listed);
    const { name, commit, sequence } = isNew
      ? await writeManifest(options, survey, listed, before)
      : { ...before.clear, name: before.name };
    memory.see({ commit, sequence, at: now() }, true);
    const names = [name, ...listed.map(({ entry }) => entry.name)];
    const { lockDays } = options;
    const locks = lockDays === undefined ? null : await keepLocked({ ...options, lockDays }, names);
    const removed =
      isNew || memory.purging() ? await tidied(options, listed, sequence) : NOTHING_TIDIED;
    return {
      copyId: key.copyId,
      ...survey.commit,
      uploaded: counted.names.size,
      bytes: counted.bytes,
      objects: listed.length,
      stored: listed.reduce((sum, { entry }) => sum + entry.length, 0),
      missing: lost.length,
      mended: [
        ...mended,
        ...lost.map(({ name }) => ({
          name,
          error: objectError('object-missing', { store: store.label, name }),
        })),
      ],
      replaced: wanted.filter((one) => damaged.has(one.name)).map((one) => one.name),
      manifest: name,
      invalid: manifests.invalid
        .map((one) => one.name)
        .filter((one) => !mended.some((finding) => finding.name === one)),
      removed,
      locks,
    };
  }
}

async function tidied(
  { store, key, keep, lockDays, memory, signal, now }: CopyOutOptions,
  listed: readonly Listed[],
  sequence: number,
): Promise<Tidied> {
  const uploading = new Set(listed.map(({ entry }) => entry.name));
  const removed = await tidyCopy(
    { store, key, keep, lockDays, sequence, uploading, memory, signal, now },
    memory.purging(),
  );
  if (removed === undefined) return NOTHING_TIDIED;
  if (removed.locked.length === 0) memory.purge(false);
  return removed;
}

/** Whether the target has no valid manifest that is as new as one. */
export function isOlder<M extends { readonly clear: ClearManifest }>(
  { newest }: FoundManifests,
  kept: M | undefined,
): kept is M {
  return kept !== undefined && (newest?.clear.sequence ?? -1) < kept.clear.sequence;
}

/** Whoever owns the target can put an older manifest back, or remove the newest. */
export function refuseOlder(
  store: ObjectStore,
  { newest, listed }: FoundManifests,
  memory: CopyMemory,
): void {
  const seen = memory.seen();
  if (newest === undefined && listed.length > 0) {
    throw copiesError('offsite-no-manifest', { to: store.label, invalid: listed.length });
  }
  if (seen === undefined) return;
  const isOlder =
    newest === undefined ||
    newest.clear.commit < seen.commit ||
    newest.clear.sequence < seen.sequence;
  if (!isOlder) return;
  const number = newest?.clear.commit ?? 0;
  throw copiesError('offsite-rolled-back', { to: store.label, number, seen: seen.commit });
}

function refuseStrangers(
  dir: string,
  store: ObjectStore,
  survey: Survey,
  { clear }: FoundManifest,
  { nameKey }: LocalKey,
): void {
  const number = clear.commit;
  const isIt = (commit: { number: number; hash: string }) =>
    commitMark(nameKey, commit) === clear.chain;
  const standing = standingOf(realFiles, dir, survey, number, isIt);
  const to = store.label;
  if (standing === 'beyond') {
    throw copiesError('offsite-ahead', { to, number, here: survey.commit.number });
  }
  if (standing === 'other') throw copiesError('offsite-diverged', { to, number });
}

/**
 * Whether objects there may hold mail that was purged here since: of a segment whose beginning is there, in another state.
 */
function replacesPurged({ segments }: CopyPlan, before: FoundManifest | undefined): boolean {
  const reached = before?.clear.commit ?? 0;
  const marks = new Set(before?.clear.objects.map(({ name }) => markOfName(name)));
  return segments.some(({ there, what, mark }, at) => {
    const begin = segments[at - 1]?.what.end.number ?? 0;
    return there === undefined && !marks.has(mark) && what.purged !== '' && begin < reached;
  });
}

function marksOf({ nameKey }: LocalKey): Marks {
  return {
    segment: ({ segment, end, purged }) =>
      segmentMark(nameKey, { segment, endHash: end.hash, purgedDigest: purged }),
    tail: ({ segment, from, to, end }) =>
      tailMark(nameKey, { segment, from, to, endHash: end.hash }),
  };
}

/**
 * What lies there, by mark: listed by the newest manifest, or uploaded since. Where everything is to be uploaded again,
 * only what this run has uploaded itself.
 */
async function knownObjects(
  { store, memory, refresh, signal }: CopyOutOptions,
  listed: readonly ObjectEntry[],
  uploaded: ReadonlySet<string>,
): Promise<Map<string, ObjectEntry>> {
  const known = new Map<string, ObjectEntry>();
  if (!refresh) {
    for (const entry of listed) add(known, entry);
  }
  for (const entry of memory.uploaded()) {
    if (refresh && !uploaded.has(entry.name)) continue;
    const there = await store.head(entry.name, signal);
    if (there?.length === entry.length) add(known, entry);
  }
  return known;
}

function add(known: Map<string, ObjectEntry>, entry: ObjectEntry): void {
  const mark = markOfName(entry.name);
  if (mark !== undefined) known.set(mark, entry);
}

/** What one run has uploaded. */
interface Uploaded {
  readonly names: Set<string>;
  bytes: number;
}

interface Listed {
  readonly piece: Piece<ClosedSegment | TailRange>;
  readonly entry: ObjectEntry;
}

/** Returns what the manifest has to list, or undefined where the archive has to be surveyed again. */
async function upload(
  options: CopyOutOptions,
  plan: CopyPlan,
  counted: Uploaded,
): Promise<readonly Listed[] | undefined> {
  const { memory, progress } = options;
  const pieces: Piece<ClosedSegment | TailRange>[] = [...plan.segments, ...plan.tail];
  const of = pieces.filter(({ there }) => there === undefined).length + counted.names.size;
  const listed: Listed[] = [];
  try {
    await severalAtOnce(pieces, AT_ONCE, async (piece) => {
      options.signal.throwIfAborted();
      let entry = piece.there;
      if (entry === undefined) {
        entry = await uploadPiece(options, piece);
        memory.note(entry);
        counted.names.add(entry.name);
        counted.bytes += entry.length;
        progress?.({ objects: counted.names.size, of, bytes: counted.bytes });
      }
      listed.push({ piece, entry });
    });
  } catch (error) {
    if (error instanceof SegmentMoved) return undefined;
    throw error;
  }
  return listed;
}

async function uploadPiece(
  options: CopyOutOptions,
  { what, mark }: Piece<ClosedSegment | TailRange>,
): Promise<ObjectEntry> {
  const { dir } = options;
  for (let tries = 1; ; tries += 1) {
    try {
      const file = fileInForce(dir, what.segment);
      if ('from' in what) {
        // The next generation has other bytes under these offsets.
        if (file.sealed) throw new SegmentMoved();
        return await put(options, 'tail', mark, file.path, what.from, what.to);
      }
      const { path, sealed } = file;
      await options.prover.intact({ ...file.name, path, sealed });
      return await put(options, 'segment', mark, file.path, 0, file.length);
    } catch (error) {
      if (errnoName(error) !== 'ENOENT' || tries === TRIES) throw error;
      if ('from' in what) throw new SegmentMoved();
      // Its next generation is there by now.
    }
  }
}

/** A segment is replaced by its next generation once in a while, not at each look. */
const TRIES = 5;

/** The segment that was written to is sealed by now: what was planned for it is no longer what there is. */
class SegmentMoved extends Error {}

function fileInForce(dir: string, segment: number) {
  const generations = listSegments(realFiles, dir).get(segment) ?? [];
  return withSegment(realFiles, dir, segment, generations, (opened) => {
    const { name, path, sealed, file } = opened;
    const length = sealed === undefined ? soundLength(opened, NEVER_TORN) : file.size();
    return { name, path, sealed: sealed !== undefined, length };
  });
}

async function put(
  options: CopyOutOptions,
  kind: 'segment' | 'tail',
  mark: string,
  path: string,
  from: number,
  to: number,
): Promise<ObjectEntry> {
  const name = objectName(mark);
  const sealed = seal(
    sealingKey(options.key),
    { kind, name },
    to - from,
    fileBytes(path, from, to),
  );
  await putLocked(options, name, sealed.length, sealed.bytes);
  return { name, length: sealed.length, sha256: sealed.sha256() };
}

function sealingKey({ copyId, publicKey }: LocalKey) {
  return { copyId: Buffer.from(copyId, 'hex'), publicKey };
}

/** Whether a manifest says all that a new one would. */
function isThere({ clear }: FoundManifest, { commit }: Survey, listed: readonly Listed[]): boolean {
  const names = new Set(clear.objects.map(({ name }) => name));
  return (
    clear.commit === commit.number &&
    clear.objects.length === listed.length &&
    listed.every(({ entry }) => names.has(entry.name))
  );
}

async function writeManifest(
  options: CopyOutOptions,
  survey: Survey,
  listed: readonly Listed[],
  before: FoundManifest | undefined,
): Promise<{ name: string; commit: number; sequence: number }> {
  const { key, signingKey, now } = options;
  const { archiveId, format, commit } = survey;
  const name = manifestName(commit.number);
  const sequence = before === undefined ? 0 : before.clear.sequence + 1;
  const segments = listed
    .flatMap(({ piece: { what }, entry }) =>
      'from' in what ? [] : [{ name: entry.name, segment: what.segment }],
    )
    .sort((a, b) => a.segment - b.segment);
  const tail = listed
    .flatMap(({ piece: { what }, entry }) =>
      'from' in what
        ? [{ name: entry.name, segment: what.segment, from: what.from, to: what.to }]
        : [],
    )
    .sort((a, b) => a.from - b.from);
  const bytes = await encodeManifest(
    {
      sequence,
      time: now(),
      previous: before?.clear.sha256 ?? null,
      chain: commitMark(key.nameKey, commit),
      objects: listed.map(({ entry }) => entry),
      secret: { archiveId, format, commit, segments, tail },
    },
    name,
    { sealing: sealingKey(key), sign: (text: Buffer) => sign(null, text, signingKey) },
  );
  await putLocked(options, name, bytes.length, oneObject(bytes));
  return { name, commit: commit.number, sequence };
}
