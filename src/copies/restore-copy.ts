import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles, replaceFile, writeAll } from '../archive/file-system.ts';
import {
  decodeSegmentHeader,
  FOLDER_MODE,
  formatPath,
  logFolder,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  segmentPath,
} from '../archive/format.ts';
import { publishFile } from '../archive/hot-segment.ts';
import { withLock } from '../archive/lock.ts';
import { lastCommitNumber } from '../archive/log-reader.ts';
import { refuseUnknownFormat } from '../archive/recovery.ts';
import { listSegments, withSegment } from '../archive/segment-files.ts';
import type { IndexingProgress } from '../catalog/indexer.ts';
import { type FoldProgress, rebuildWithExtractors } from '../catalog/rebuild.ts';
import { forEachConcurrent } from '../core/concurrency.ts';
import { isDamage, type MailkeepError } from '../core/errors.ts';
import { makeFolders, readRegularFile } from '../core/files.ts';
import { type SegmentProver, threadedProver } from '../verify/check-segment.ts';
import { readSigningKey } from '../verify/checkpoint.ts';
import {
  damagedSegment,
  INCIDENTAL,
  makeCopyFolder,
  NO_TORN_BATCH,
  segmentState,
} from './copy-log.ts';
import { copiesError } from './errors.ts';
import {
  type ClearManifest,
  openManifest,
  openSettings,
  type SecretManifest,
  type Trusted,
} from './format/manifest.ts';
import { type OpeningKey, open } from './format/sealed-object.ts';
import { newestSettings, restoreSettings } from './kept-objects.ts';
import {
  findLocalKey,
  type KeyRequest,
  type LocalKey,
  rawPublicKey,
  readSigners,
} from './local-key.ts';
import { findManifests, verifiedObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';
import { type OpenedWith, openSecrets, refuseOtherSigner } from './recipients.ts';
import { type ObjectEntry, refuseRolledBack } from './upload-copy.ts';

/** Source of a copy's segments, with the means to check them. */
export interface SegmentSource {
  readonly store: ObjectStore;
  readonly key: OpeningKey;
  readonly manifest: SecretManifest;
  /** Objects in the unencrypted part of the manifest, by name. */
  readonly objects: ReadonlyMap<string, ObjectEntry>;
  readonly prover: SegmentProver;
  readonly signal: AbortSignal;
  /** True to try other stored versions of a damaged or missing object. */
  readonly takesVersions?: boolean;
}

/** Opens a manifest for use in a `SegmentSource`. @throws errors from `openManifest` */
export async function openCopy(store: ObjectStore, clear: ClearManifest, key: OpeningKey) {
  const objects = new Map(clear.objects.map((entry) => [entry.name, entry]));
  return { store, key, manifest: await openManifest(clear, key), objects };
}

/** A segment in a copy, and the objects that make up its file. */
interface CopiedSegment {
  readonly segment: number;
  readonly pieces: readonly {
    readonly kind: 'segment' | 'tail';
    readonly name: string;
    /** Offset in the file. */
    readonly from: number;
  }[];
}

/** Returns a manifest's segments in order. The tail's objects form one segment. */
export function copiedSegments({ segments, tail }: SecretManifest): CopiedSegment[] {
  const copied: CopiedSegment[] = segments.map(({ segment, name }) => ({
    segment,
    pieces: [{ kind: 'segment', name, from: 0 }],
  }));
  const [first] = tail;
  if (first !== undefined) {
    const pieces = [...tail]
      .sort((a, b) => a.from - b.from)
      .map(({ name, from }) => ({ kind: 'tail' as const, name, from }));
    copied.push({ segment: first.segment, pieces });
  }
  return copied.sort((a, b) => a.segment - b.segment);
}

/**
 * Versions of an object that have not been tried, by name. The next to read comes first; undefined means the newest.
 */
type Untried = Map<string, (string | undefined)[]>;

/**
 * Writes a segment's file into a directory's log. The file has a temporary name until every byte has been checked.
 * @throws log-damaged, copy-object-damaged, object-missing; `disk-full` and other disk errors
 */
export async function fetchSegment(source: SegmentSource, to: string, copied: CopiedSegment) {
  const { store, signal } = source;
  const untried: Untried = new Map();
  for (;;) {
    try {
      return await fetchVersions(source, to, copied, untried);
    } catch (error) {
      const name = isDamage(error) ? error.facts.name : undefined;
      if (source.takesVersions !== true || typeof name !== 'string') throw error;
      const left = untried.get(name)?.slice(1) ?? (await store.versions(name, signal));
      if (left.length === 0) throw error;
      untried.set(name, [...left]);
    }
  }
}

async function fetchVersions(
  source: SegmentSource,
  to: string,
  copied: CopiedSegment,
  untried: Untried,
) {
  const pieces = joinPieces(source, copied, untried);
  try {
    // Contains the whole header, because a piece is an object's content or at least its first MiB.
    let next = await pieces.next();
    const name = nameIn(next.value, source.manifest, copied);
    if (name === undefined) throw damagedSegment(to, copied.segment, 'segment-header');
    const path = segmentPath(to, name);
    const bytes = await publishFile(realFiles, path, next.value?.length ?? 0, {
      write: async (target) => {
        let at = 0;
        for (; next.done !== true; next = await pieces.next()) {
          await writeAll(target, next.value, at);
          at += next.value.length;
        }
        return at;
      },
      check: (path) => source.prover.intact({ ...name, path, sealed: name.generation > 1 }),
    });
    return { name, bytes };
  } finally {
    await pieces.return(undefined);
  }
}

async function* joinPieces(
  { store, key, objects, signal }: SegmentSource,
  copied: CopiedSegment,
  untried: Untried,
): AsyncGenerator<Buffer, undefined> {
  let at = 0;
  for (const { kind, name, from } of copied.pieces) {
    const entry = objects.get(name);
    if (from !== at || entry === undefined) {
      throw copiesError('offsite-gap', { to: store.label, name, from: at });
    }
    const sealed = verifiedObject(store, entry, signal, untried.get(name)?.[0]);
    for await (const piece of open(key, { kind, name }, sealed)) {
      at += piece.length;
      yield piece;
    }
  }
}

/** Returns the file that a segment's header identifies, or undefined if it belongs to another segment or archive. */
function nameIn(
  beginning: Buffer | undefined,
  { archiveId }: SecretManifest,
  { segment, pieces }: CopiedSegment,
): SegmentFile | undefined {
  const header = beginning && decodeSegmentHeader(beginning.subarray(0, SEGMENT_HEADER_BYTES));
  const isPlain = header?.generation === 1;
  if (header?.segment !== segment || header.archiveId.toString('hex') !== archiveId)
    return undefined;
  if (pieces[0]?.kind === 'tail' && !isPlain) return undefined;
  return { segment, generation: header.generation };
}

const AT_ONCE = 2;

/**
 * Fetches segments that a repair may need into an empty directory, as a copy with gaps: those that are damaged here, or
 * extend past the end of the local log. Also returns which segments the copy cannot supply, with the names of their
 * first objects.
 */
async function fetchForRepair(source: SegmentSource, dir: string, into: string) {
  const { manifest, signal } = source;
  refuseUnknownFormat(into, manifest.format);
  await beginLog(into, manifest);
  const all = copiedSegments(manifest);
  const end = lastCommitNumber(dir, realFiles) ?? 0;
  const fetched: number[] = [];
  const lost: { name: string; error: MailkeepError }[] = [];
  await forEachConcurrent(all, AT_ONCE, async (copied) => {
    signal.throwIfAborted();
    const { segment } = copied;
    const reachesFurther = segment === all.at(-1)?.segment && end < manifest.commit.number;
    if (!reachesFurther && (await isIntact(source, dir, copied))) return;
    try {
      await fetchSegment(source, into, copied);
      fetched.push(segment);
    } catch (error) {
      if (!isDamage(error)) throw error;
      lost.push({ name: copied.pieces[0]?.name ?? '', error });
    }
  });
  return { fetched: fetched.sort((a, b) => a - b), lost };
}

async function isIntact(
  { prover }: SegmentSource,
  dir: string,
  { segment }: CopiedSegment,
): Promise<boolean> {
  const listing = listSegments(realFiles, dir);
  if (!listing.has(segment)) return false;
  try {
    const file = withSegment(realFiles, dir, segment, ({ name, path, sealed }) => ({
      ...name,
      path,
      sealed: sealed !== undefined,
    }));
    if (!file.sealed) {
      // Bytes after the last commit of the current segment are ignored.
      return segmentState(realFiles, dir, segment, listing, NO_TORN_BATCH)?.damaged === false;
    }
    await prover.intact(file);
    return true;
  } catch (error) {
    if (isDamage(error)) return false;
    throw error;
  }
}

export type RestoredLog = Awaited<ReturnType<typeof restoreLog>>;

/** Marks a directory with an unfinished restore that can be resumed. */
const UNFINISHED = 'copy-from.json';
/** Each segment alternates between waiting for the network and for the disk. */
const RESTORED_AT_ONCE = 4;

/**
 * Restores an archive's log from a copy. Also returns the segments that could not be restored.
 * @param options `to` is a directory that is empty, or that an interrupted run has left behind
 * @throws offsite-not-empty; `disk-full` and other disk errors; errors from the store
 */
export async function restoreLog(
  options: SegmentSource & {
    readonly to: string;
    readonly progress?: BringBackOrder['onSegments'];
  },
) {
  const { to, manifest, signal, progress } = options;
  refuseUnknownFormat(to, manifest.format);
  await prepareTarget(to, manifest);
  const jobs = copiedSegments(manifest);
  const present = listSegments(realFiles, to);
  const lost: { segment: number; error: MailkeepError }[] = [];
  let [done, bytes] = [0, 0];
  await forEachConcurrent(jobs, RESTORED_AT_ONCE, async (job) => {
    signal.throwIfAborted();
    try {
      if (!present.has(job.segment)) {
        const fetched = await fetchSegment(options, to, job);
        bytes += fetched.bytes;
      }
    } catch (error) {
      if (!isDamage(error)) throw error;
      lost.push({ segment: job.segment, error });
    }
    done += 1;
    progress?.({ segments: done, of: jobs.length });
  });
  // A later run can restore the lost segments if the copy is mended.
  if (lost.length === 0) await realFiles.remove(path.join(to, UNFINISHED));
  return { segments: jobs.length - lost.length, bytes, lost };
}

/** Prepares an empty directory, or resumes an earlier run. */
async function prepareTarget(to: string, manifest: SecretManifest): Promise<void> {
  realFiles.makeFolder(to);
  const names = readdirSync(to).filter((name) => !INCIDENTAL.has(name));
  const mark = `${JSON.stringify({ archiveId: manifest.archiveId, commit: manifest.commit })}\n`;
  const file = path.join(to, UNFINISHED);
  const isResumed = () => existsSync(file) && readRegularFile(file, 4096).toString('utf8') === mark;
  if (names.length > 0 && !isResumed()) {
    const stranger = names.find((name) => name !== UNFINISHED) ?? UNFINISHED;
    throw copiesError('offsite-not-empty', { dir: to, stranger });
  }
  await replaceFile(realFiles, file, Buffer.from(mark, 'utf8'));
  await beginLog(to, manifest);
}

/** Creates an empty log. FORMAT comes before the segments, because a log without it counts as damaged. */
async function beginLog(dir: string, { format }: SecretManifest): Promise<void> {
  realFiles.makeFolder(logFolder(dir));
  await replaceFile(realFiles, formatPath(dir), Buffer.from(`${format}\n`, 'latin1'));
}

export type SegmentsForRepair = Awaited<ReturnType<typeof segmentsForRepair>>;

/**
 * Fetches segments that a repair may need from an off-site copy. Puts them into a new directory under the archive's
 * `tmp`, which the caller removes. Also returns the manifest's commit, unless a later signer signed it.
 * @throws offsite-write-only, offsite-no-manifest, offsite-rolled-back; errors from `findLocalKey` and the store
 */
export async function segmentsForRepair(request: KeyRequest) {
  const { dataDir, store, signal } = request;
  const key = await findLocalKey(request);
  const to = store.label;
  if (key.privateKeys.length === 0) throw copiesError('offsite-write-only', { to });
  const manifests = await findManifests(store, key, signal);
  const { newest, invalid } = manifests;
  // An older state can contain mail that has since been purged, in segments whose list of purges is damaged.
  refuseRolledBack(dataDir, store, key, manifests);
  if (newest === undefined) {
    throw copiesError('offsite-no-manifest', { to, invalid: invalid.length });
  }
  const opened = await openCopy(store, newest.clear, key.opening);
  const parent = path.join(dataDir, 'tmp');
  makeFolders(parent, FOLDER_MODE);
  const folder = mkdtempSync(path.join(parent, 'copy-'));
  const prover = threadedProver();
  try {
    const source = { ...opened, prover, signal, takesVersions: true };
    const fetched = await fetchForRepair(source, dataDir, folder);
    const isOwn = signersOf(dataDir, key).some((one) => one.equals(newest.clear.signer));
    return { folder, commit: isOwn ? opened.manifest.commit : undefined, ...fetched };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  } finally {
    await prover.close();
  }
}

/** Returns the keys of this archive and of the copy's creator. An adoption takes later signers from the target. */
function signersOf(dataDir: string, { signers: [first] }: LocalKey): readonly Buffer[] {
  const file = path.join(dataDir, 'checkpoint.key');
  const local = existsSync(file) ? [rawPublicKey(readSigningKey(file))] : [];
  return first === undefined ? local : [first, ...local];
}

interface BringBackOrder extends OpenedWith {
  readonly store: ObjectStore;
  readonly to: string;
  /** Number of the commit to restore. Defaults to the newest. */
  readonly atCommit: number | undefined;
  /** Minimum commit of the newest manifest. If it is lower, the copy has been rolled back. */
  readonly atLeast: number | undefined;
  readonly signal: AbortSignal;
  readonly onSegments: (done: { readonly segments: number; readonly of: number }) => void;
  readonly onFold: (progress: FoldProgress) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

/**
 * Restores an archive's log and catalog from an off-site copy. Needs no other data on this machine.
 * @throws offsite-not-empty, offsite-no-manifest, offsite-no-commit, offsite-rolled-back, offsite-signer-differs,
 * copy-key-refused; errors from the store and `rebuild`
 */
export async function restoreArchive(order: BringBackOrder) {
  const { store, to, way, signal } = order;
  const { secrets, damaged } = await openSecrets(store, way, signal);
  refuseOtherSigner(secrets, order, store.label);
  const copyKey = { copyId: secrets.copyId.toString('hex') };
  const { signers } = await readSigners(store, secrets, signal);
  const { found, invalid } = await selectManifest(order, { ...copyKey, signers });
  const carried = await newestSettings({ store, key: { ...copyKey, signers }, signal });
  const { copyId, privateKeys } = secrets;
  const key = { copyId, privateKeys };
  const opened = await openCopy(store, found.clear, key);
  const { commit } = opened.manifest;
  makeCopyFolder(to);
  return withLock(to, async () => {
    const prover = threadedProver(1);
    const startedAt = performance.now();
    const brought = await restoreLog({
      ...{ ...opened, to, prover, signal, takesVersions: true },
      progress: order.onSegments,
    }).finally(() => prover.close());
    const fetchMs = Math.round(performance.now() - startedAt);
    const { messages } = await rebuildWithExtractors({
      dir: path.resolve(to),
      signal,
      onFold: order.onFold,
      onIndex: order.onIndex,
    });
    const text = carried && (await openSettings(carried.clear, key));
    const settings = text && (await restoreSettings(to, text));
    return {
      ...brought,
      settings: settings ?? null,
      copyId: copyId.toString('hex'),
      /** Ed25519 key that created the copy. */
      signer: secrets.signer,
      number: commit.number,
      hash: commit.hash,
      /** Milliseconds since the epoch. */
      copiedAt: found.clear.time,
      messages,
      fetchMs,
      invalid: [...damaged, ...invalid],
    };
  });
}

async function selectManifest(
  { store, atCommit, atLeast, signal }: BringBackOrder,
  trust: Trusted,
) {
  const to = store.label;
  const { newest, listed, invalid } = await findManifests(store, trust, signal, atCommit);
  if (newest === undefined && atCommit !== undefined) {
    const numbers = [...new Set(listed.map(({ commit }) => commit))];
    const nearest = numbers
      .sort((a, b) => Math.abs(a - atCommit) - Math.abs(b - atCommit))
      .slice(0, 5)
      .map(String);
    throw copiesError('offsite-no-commit', { to, number: atCommit, nearest });
  }
  if (newest === undefined)
    throw copiesError('offsite-no-manifest', { to, invalid: invalid.length });
  if (atLeast !== undefined && newest.clear.commit < atLeast) {
    throw copiesError('offsite-rolled-back', { to, number: newest.clear.commit, seen: atLeast });
  }
  return { found: newest, invalid: invalid.map(({ error }) => error) };
}
