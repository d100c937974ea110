import { hash } from 'node:crypto';
import {
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflate } from 'node:zlib';
import { z } from 'zod';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import {
  canonicalJson,
  FILE_MODE,
  FOLDER_MODE,
  logFolder,
  parseJson,
  segmentPath,
} from '../archive/format.ts';
import { acquireLock } from '../archive/lock.ts';
import { readLogHead } from '../archive/log-reader.ts';
import { removeGenerations } from '../archive/seal.ts';
import { listSegments, withSegment } from '../archive/segment-files.ts';
import { CATALOG_VERSION, catalogFile } from '../catalog/database.ts';
import { commitIn } from '../copies/copy-log.ts';
import { objectError } from '../copies/errors.ts';
import { decodeManifest, MAX_MANIFEST_BYTES } from '../copies/format/manifest.ts';
import { open } from '../copies/format/sealed-object.ts';
import { readSmallObject, verifiedObject } from '../copies/manifests.ts';
import type { ObjectStore } from '../copies/object-store.ts';
import { copiedSegments, fetchSegment, openCopy, restoreLog } from '../copies/restore-copy.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { makeFoldersDurably, readRegularFile } from '../core/files.ts';
import { stateFile } from '../core/state.ts';
import type { SegmentProver } from '../verify/check-segment.ts';
import type { ClaimedShard, DecidedPurge } from './claims.ts';
import type { ShardKeys } from './keys.ts';
import { type ShippedManifest, SNAPSHOT } from './ship.ts';

interface TakeOverOptions {
  readonly claimed: ClaimedShard;
  /** UUID of the fleet. */
  readonly fleet: string;
  /** The shard's folder on this node. Folders that were set aside are next to it. */
  readonly dir: string;
  readonly store: ObjectStore;
  readonly keys: ShardKeys;
  readonly prover: SegmentProver;
  readonly signal: AbortSignal;
}

export interface TakenOver {
  readonly shipped: ShippedManifest | undefined;
  /** How the folder was made. */
  readonly from: 'nothing' | 'folder' | 'folder and bucket' | 'bucket';
  /** Folders that ran ahead of the chain and have to be merged. */
  readonly aside: readonly string[];
}

/**
 * Makes the folder of this node the shard that was claimed. Wherever it is cut off, the next call comes to the same.
 *
 * - If the folder contains the manifest's commit, it stays: what it has beyond was not shipped.
 * - If the folder's last commit is in the manifest's log, what it lacks is fetched.
 * - Otherwise, and if the registry did not know of it, it is set aside for a merge, and the shard is restored from the bucket.
 *
 * @throws archive-in-use if an earlier process of this node still writes the folder; errors of family `damage` for objects
 * of the bucket; errors of the store and the disk
 */
export async function takeOver(options: TakeOverOptions): Promise<TakenOver> {
  const { claimed, dir } = options;
  const { shard } = claimed.lease;
  makeFoldersDurably(path.dirname(dir), FOLDER_MODE);
  removeUnfinished(dir);
  const shipped = await currentManifest(options);
  const { isKnown, clean } = claimed;
  const note = existsSync(dir) ? readNote(dir) : undefined;
  const before = carriedOut(claimed, note?.shard === shard ? note : undefined);
  // The manifest may be clean of a purge that the registry has lost, and nobody can carry it out again.
  const canBeClean = Math.max(before.done, ...claimed.purges.map(({ number }) => number)) >= clean;
  const mayContinue = existsSync(dir) && isKnown && canBeClean;
  const how = mayContinue ? await continueFolder(options, shipped) : undefined;
  if (how !== undefined) {
    await writeShippedNote(options, dir, shipped, before);
    return { shipped, from: how, aside: asideOf(dir) };
  }
  if (existsSync(dir)) setAside(dir);
  const made = mkdtempSync(`${dir}.new-`);
  if (shipped !== undefined) await restore(options, shipped, made);
  await writeShippedNote(options, made, shipped, { done: clean, last: '' });
  renameSync(made, dir);
  await realFiles.syncFolder(path.dirname(dir));
  return { shipped, from: shipped ? 'bucket' : 'nothing', aside: asideOf(dir) };
}

/**
 * Returns what was carried out in a folder of the purges that the registry has. After PostgreSQL was restored, a number in
 * the note may be that of another purge.
 */
function carriedOut(
  { ended, clean, manifest, purges }: ClaimedShard,
  note: FolderNote | undefined,
): Pick<FolderNote, 'done' | 'last'> {
  if (note === undefined) return { done: ended, last: '' };
  const last = lastCarriedOut(note, purges)?.number ?? 0;
  const shipped = note.manifest === manifest ? Math.min(note.done, clean) : 0;
  const done = Math.max(ended, last, shipped);
  return { done, last: done === last ? note.last : '' };
}

async function writeShippedNote(
  { fleet, claimed }: TakeOverOptions,
  dir: string,
  shipped: ShippedManifest | undefined,
  carried: Pick<FolderNote, 'done' | 'last'>,
): Promise<void> {
  const { name: manifest = null, commit = 0 } = shipped?.clear ?? {};
  await writeNote(dir, { fleet, shard: claimed.lease.shard, manifest, commit, ...carried });
}

/** Reads the manifest that the claim returned, and nothing that a listing might have. */
export async function currentManifest(
  options: Pick<TakeOverOptions, 'store' | 'keys' | 'signal'> & {
    readonly claimed: Pick<ClaimedShard, 'manifest' | 'manifestSha256'>;
  },
): Promise<ShippedManifest | undefined> {
  const { claimed, store, keys, signal } = options;
  const { manifest: name, manifestSha256 } = claimed;
  if (name === null) return undefined;
  const bytes = await readSmallObject(store, name, MAX_MANIFEST_BYTES, signal);
  const clear = decodeManifest(bytes, name, keys.key);
  if (clear.sha256 !== manifestSha256?.toString('hex')) {
    throw objectError('object-damaged', { store: store.label, name });
  }
  const { manifest: secret } = await openCopy(store, clear, keys.key.opening);
  return { clear, secret };
}

/** Returns undefined if the folder is not on the manifest's chain, or cannot be read. */
async function continueFolder(
  options: TakeOverOptions,
  shipped: ShippedManifest | undefined,
): Promise<'folder' | 'folder and bucket' | undefined> {
  const { dir } = options;
  const lock = acquireLock(dir);
  try {
    const local = compareFolder(dir, shipped);
    if (local === undefined || local === 'continues') return local && 'folder';
    // Errors from here on concern the bucket.
    const isBehind = shipped !== undefined && (await fetchRest(options, shipped, local));
    return isBehind ? 'folder and bucket' : undefined;
  } finally {
    lock.release();
  }
}

/**
 * Returns `continues` if the folder contains the manifest's commit, its last commit if that has a lower number, and
 * undefined if it belongs to another log or cannot be read. A damaged folder is set aside, and merged as far as it can be
 * read.
 */
function compareFolder(
  dir: string,
  shipped: ShippedManifest | undefined,
): 'continues' | { readonly number: number; readonly hash: string } | undefined {
  try {
    // It was about to be made.
    if (!hasSegments(dir)) return shipped === undefined ? 'continues' : undefined;
    const end = readLogHead(dir);
    if (shipped === undefined) return 'continues';
    const { archiveId, commit } = shipped.secret;
    if (end.archiveId !== archiveId) return undefined;
    if (end.number < commit.number) return end;
    return hasCommit(dir, commit) ? 'continues' : undefined;
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'damage') return undefined;
    throw error;
  }
}

/** Whether a folder has an archive, of which something may be left. */
export function hasSegments(dir: string): boolean {
  return existsSync(logFolder(dir)) && listSegments(realFiles, dir).size > 0;
}

function hasCommit(dir: string, { number, hash }: { number: number; hash: string }): boolean {
  const segments = [...listSegments(realFiles, dir).keys()].reverse();
  const segment = segments.find((one) =>
    withSegment(realFiles, dir, one, ({ header }) => header.previousNumber <= number),
  );
  return segment !== undefined && commitIn(realFiles, dir, segment, number)?.hash === hash;
}

/**
 * Fetches what a folder lacks, if its last commit is in the manifest's log.
 *
 * @returns whether it is
 */
async function fetchRest(
  options: TakeOverOptions,
  { clear, secret }: ShippedManifest,
  end: { readonly number: number; readonly hash: string },
): Promise<boolean> {
  const { dir, store, keys, prover, signal } = options;
  const local = [...listSegments(realFiles, dir).keys()];
  const last = local.at(-1) ?? 0;
  const copied = copiedSegments(secret);
  const same = copied.find(({ segment }) => segment === last);
  if (same === undefined) return false;
  const opened = await openCopy(store, clear, keys.key.opening);
  const source = { ...opened, prover, signal };
  const folder = mkdtempSync(`${dir}.new-`);
  makeFoldersDurably(logFolder(folder), FOLDER_MODE);
  try {
    const missing = copied.filter(({ segment }) => segment >= last || !local.includes(segment));
    await fetchSegment(source, folder, same);
    if (commitIn(realFiles, folder, last, end.number)?.hash !== end.hash) return false;
    for (const one of missing) if (one !== same) await fetchSegment(source, folder, one);
    // In order, so that a kill leaves a shorter log, which the next call continues.
    for (const [segment, [generation = 1]] of listSegments(realFiles, folder)) {
      const name = { segment, generation };
      renameSync(segmentPath(folder, name), segmentPath(dir, name));
      await realFiles.syncFolder(logFolder(dir));
      await removeGenerations(realFiles, dir, segment, generation);
    }
    return true;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Restores log, snapshot of the catalog and state into an empty folder. */
async function restore(
  options: TakeOverOptions,
  { clear, secret }: ShippedManifest,
  to: string,
): Promise<void> {
  const { store, keys, prover, signal } = options;
  const opened = await openCopy(store, clear, keys.key.opening);
  const { lost } = await restoreLog({ ...opened, prover, signal, to });
  const [first] = lost;
  if (first !== undefined) throw first.error;
  const { snapshot, state } = secret.fleet ?? {};
  // A snapshot of another version would be rebuilt from the log in any case.
  if (snapshot?.version === CATALOG_VERSION) {
    await fetchContent(options, clear, 'snapshot', snapshot.name, catalogFile(to));
  }
  if (state !== undefined) {
    await fetchContent(options, clear, 'state', state.name, stateFile(to));
  }
}

async function fetchContent(
  { store, keys, signal }: TakeOverOptions,
  clear: ShippedManifest['clear'],
  kind: 'snapshot' | 'state',
  name: string,
  to: string,
): Promise<void> {
  const entry = clear.objects.find((one) => one.name === name);
  const damaged = (cause?: unknown) =>
    objectError('object-damaged', { store: store.label, name }, cause);
  if (entry === undefined) throw damaged();
  const plain = open(keys.key.opening, { kind, name }, verifiedObject(store, entry, signal));
  try {
    const target = createWriteStream(to, { flags: 'wx', mode: FILE_MODE, flush: true });
    await pipeline(Readable.from(plain), createInflate(), target, { signal });
  } catch (error) {
    if (String(errnoOf(error)).startsWith('Z_')) throw damaged(error);
    throw error;
  }
}

/** Removes what a take-over or a ship that was killed has left. The caller has the shard, or its folder to wipe. */
export function removeUnfinished(dir: string): void {
  const inside = existsSync(dir) ? readdirSync(dir) : [];
  const snapshots = inside.filter((name) => name.startsWith(SNAPSHOT));
  const left = [...besides(dir, 'new'), ...snapshots.map((name) => path.join(dir, name))];
  for (const name of left) rmSync(name, { recursive: true, force: true });
}

function setAside(dir: string): void {
  const taken = asideOf(dir);
  let number = 1;
  while (taken.includes(`${dir}.aside-${number}`)) number += 1;
  renameSync(dir, `${dir}.aside-${number}`);
}

/** Returns folders that wait for their merge. */
export function asideOf(dir: string): readonly string[] {
  return besides(dir, 'aside');
}

function besides(dir: string, what: 'new' | 'aside'): readonly string[] {
  const parent = path.dirname(dir);
  const prefix = `${path.basename(dir)}.${what}-`;
  return readdirSync(parent)
    .filter((name) => name.startsWith(prefix))
    .toSorted()
    .map((name) => path.join(parent, name));
}

const note = z.object({
  mailkeep: z.literal('fleet shard 1'),
  fleet: z.string(),
  shard: z.number(),
  /** The last manifest that is known to be shipped, and its commit. Null if there is none. */
  manifest: z.string().nullable(),
  commit: z.number(),
  /** Number of purges that have been carried out in the folder. */
  done: z.number(),
  /** Mark of the last of them that was carried out here, or empty: PostgreSQL may be restored, and give its number again. */
  last: z.string(),
});
type FolderNote = Readonly<Omit<z.output<typeof note>, 'mailkeep'>>;

const MOST_BYTES = 64 * 1024;

function noteFile(dir: string): string {
  return path.join(dir, 'fleet.json');
}

/** Returns undefined if the folder has none or it is unreadable: nothing is then known to be shipped or purged. */
export function readNote(dir: string): FolderNote | undefined {
  const file = noteFile(dir);
  if (!existsSync(file)) return undefined;
  return note.safeParse(parseJson(readRegularFile(file, MOST_BYTES).toString('utf8'))).data;
}

/** @throws `disk-full` and other disk errors */
export async function writeNote(dir: string, content: FolderNote): Promise<void> {
  const text = canonicalJson({ mailkeep: 'fleet shard 1', ...content });
  await replaceFile(realFiles, noteFile(dir), Buffer.from(`${text}\n`, 'utf8'));
}

/** Identifies a purge for good: its work is never sealed twice in the same way. */
export function purgeMark({ work }: Pick<DecidedPurge, 'work'>): string {
  return hash('sha256', work);
}

/** Returns the last of these purges that was carried out in a folder itself. */
export function lastCarriedOut<Purge extends DecidedPurge>(
  { done, last }: Pick<FolderNote, 'done' | 'last'>,
  purges: readonly Purge[],
): Purge | undefined {
  return purges.find((purge) => purge.number === done && purgeMark(purge) === last);
}
