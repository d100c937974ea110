import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { archiveError } from '../archive/errors.ts';
import { realFiles } from '../archive/file-system.ts';
import { formatPath, logFolder, type SegmentFile, segmentPath } from '../archive/format.ts';
import { listSegments, tryOpenSegment, withSegment } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import { isDamage, type MailkeepError } from '../core/errors.ts';
import { readState } from '../core/state.ts';
import { threadedProver } from '../verify/check-segment.ts';
import { recallCopy } from '../verify/copy-facts.ts';
import { NO_TORN_BATCH, segmentState } from './copy-log.ts';
import { copiesError, copyError, objectError } from './errors.ts';
import type { ClearManifest } from './format/manifest.ts';
import { checkKeptObjects, readLocalManifest } from './kept-objects.ts';
import { findLocalKey, type LocalKey } from './local-key.ts';
import { type FoundManifests, findManifests, verifiedObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';
import { copiedSegments, fetchSegment, openCopy, type SegmentSource } from './restore-copy.ts';
import { isOlderManifest, type ObjectEntry, refuseRolledBack } from './upload-copy.ts';

export interface CopyFinding {
  /** Name of the damaged object. If it is unknown, the name of the segment's first object. */
  readonly name: string;
  readonly error: MailkeepError;
}

export type CheckedCopy = Awaited<ReturnType<typeof checkObjects>>;

interface Checking {
  readonly signal: AbortSignal;
  readonly progress?: CheckOrder['onProgress'];
}

/** Checks objects against the lengths and hashes in a manifest. Needs no key. */
export async function checkObjects(
  options: Checking & { readonly store: ObjectStore; readonly objects: readonly ObjectEntry[] },
) {
  const { store, objects, signal, progress } = options;
  const findings: CopyFinding[] = [];
  let checked = 0;
  for (const entry of objects) {
    signal.throwIfAborted();
    try {
      for await (const _ of verifiedObject(store, entry, signal));
    } catch (error) {
      findings.push(findingOf(entry.name, error));
    }
    checked += 1;
    progress?.({ checked, of: objects.length });
  }
  return { checked, of: objects.length, findings };
}

/**
 * Opens every segment of a copy and reads it like part of an archive's log. Checks that each segment continues the
 * previous one, and that the last ends with the manifest's commit. A restore would write the same files.
 */
export async function checkSegments(
  options: Checking &
    SegmentSource & {
      /** An empty directory, used to hold one segment at a time. */
      readonly scratch: string;
      /** Numbers of the segments to open. Defaults to all. */
      readonly chosen: ReadonlySet<number> | undefined;
    },
): Promise<CheckedCopy> {
  const { manifest, scratch, chosen } = options;
  const to = options.store.label;
  realFiles.makeFolder(logFolder(scratch));
  const all = copiedSegments(manifest);
  const picks = chosen === undefined ? all : all.filter(({ segment }) => chosen.has(segment));
  const { before, ...read } = await checkChain(
    options,
    to,
    picks,
    async (copied) => {
      const { name } = await fetchSegment(options, scratch, copied);
      try {
        return endsIn(scratch, name, listSegments(realFiles, scratch));
      } finally {
        await realFiles.remove(segmentPath(scratch, name));
      }
    },
    ({ pieces: [first] }, error) => findingOf(first?.name ?? '', error),
  );
  const last = all.at(-1);
  const isAtEnd = before !== undefined && before.segment === last?.segment;
  if (isAtEnd && !isSame(before.end, manifest.commit)) {
    const error = copiesError('offsite-broken-chain', { to, segment: before.segment });
    read.findings.push({ name: last.pieces[0]?.name ?? '', error });
  }
  return { ...read, of: all.length };
}

interface Ends {
  readonly segment: number;
  readonly begin: ChainState;
  readonly end: ChainState;
}

async function checkChain<T extends { readonly segment: number }>(
  { signal, progress }: Checking,
  to: string,
  parts: readonly T[],
  endsOf: (part: T) => Promise<Ends>,
  finding: (part: T, error: unknown) => CopyFinding,
) {
  const findings: CopyFinding[] = [];
  let previous: Ends | undefined;
  let checked = 0;
  for (const part of parts) {
    signal.throwIfAborted();
    const { segment } = part;
    try {
      const ends = await endsOf(part);
      if (previous?.segment === segment - 1 && !isSame(previous.end, ends.begin))
        throw copiesError('offsite-broken-chain', { to, segment });
      previous = ends;
    } catch (error) {
      findings.push(finding(part, error));
    }
    checked += 1;
    progress?.({ checked, of: parts.length });
  }
  return { checked, findings, before: previous };
}

function endsIn(
  dir: string,
  { segment, generation }: SegmentFile,
  listing: ReturnType<typeof listSegments>,
): Ends {
  const { header } = withSegment(realFiles, dir, segment, (opened) => opened, [generation]);
  const begin = { number: header.previousNumber, hash: header.previousHash };
  const state = segmentState(realFiles, dir, segment, listing, NO_TORN_BATCH);
  return { segment, begin, end: state?.end ?? begin };
}

/** @throws the error itself unless it reports damage, because a failing disk or network says nothing about the copy */
function findingOf(name: string, error: unknown): CopyFinding {
  if (!isDamage(error)) throw error;
  // The error's `name`, if any, identifies the damaged object of the segment.
  const { name: object = name } = error.facts;
  return { name: typeof object === 'string' ? object : name, error };
}

interface CheckOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** Number or fraction of segments or objects to read, chosen with `random`. Undefined to read all. */
  readonly sample: { readonly parts: number } | { readonly share: number } | undefined;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly temporary: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: { readonly checked: number; readonly of: number }) => void;
}

export type CheckedTarget = Awaited<ReturnType<typeof checkTarget>>;

/**
 * Checks the off-site copy of an archive. With a private key, opens and reads every segment. Without one, compares
 * every object with the signed manifest.
 * @throws offsite-no-manifest, offsite-rolled-back; errors from `findLocalKey` and the store
 */
export async function checkTarget(order: CheckOrder) {
  const { store, signal, onProgress } = order;
  const key = await findLocalKey(order);
  const kept = [...(await checkKeptObjects({ store, key, signal }))];
  const manifests = await findManifests(store, key, signal);
  const clear = manifestToCheck(order, key, manifests, kept);
  const invalid = manifests.invalid.filter(({ name }) => name !== clear.name);
  const about = {
    number: clear.commit,
    /** Time at which the copy was made, milliseconds since the epoch. */
    copiedAt: clear.time,
    invalid: invalid.map(({ name }) => name),
  };
  if (key.privateKeys.length === 0) {
    const objects = drawSample(clear.objects, order);
    const checked = await checkObjects({ store, objects, signal, progress: onProgress });
    const findings = [...kept, ...checked.findings];
    // Objects were only compared with the manifest.
    return { ...checked, findings, of: clear.objects.length, ...about, opened: false };
  }
  const opened = await openCopy(store, clear, key.opening);
  const scratch = mkdtempSync(path.join(order.temporary, 'mailkeep-copy-'));
  const prover = threadedProver();
  try {
    const all = copiedSegments(opened.manifest).map(({ segment }) => segment);
    const checked = await checkSegments({
      ...{ ...opened, prover, scratch, signal },
      chosen: order.sample === undefined ? undefined : new Set(drawSample(all, order)),
      progress: onProgress,
    });
    return { ...checked, findings: [...kept, ...checked.findings], ...about, opened: true };
  } finally {
    await prover.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Returns the newest manifest. Adds a finding if it is the local one, because the target has lost its own. */
function manifestToCheck(
  { dataDir, store }: CheckOrder,
  key: LocalKey,
  manifests: FoundManifests,
  findings: CopyFinding[],
): ClearManifest {
  const local = readLocalManifest(dataDir, key);
  if (isOlderManifest(manifests, local)) {
    const { name } = local.clear;
    const error = objectError('object-missing', { store: store.label, name });
    findings.push(manifests.invalid.find((one) => one.name === name) ?? { name, error });
    return local.clear;
  }
  refuseRolledBack(dataDir, store, key, manifests);
  const { newest } = manifests;
  if (newest === undefined)
    throw copiesError('offsite-no-manifest', { to: store.label, invalid: 0 });
  return newest.clear;
}

/** Picks a random sample of the requested size, but at least one part. Keeps the parts in order. */
export function drawSample<T>(
  parts: readonly T[],
  { sample, random }: Pick<CheckOrder, 'sample' | 'random'>,
): readonly T[] {
  if (sample === undefined) return parts;
  const count =
    'parts' in sample ? sample.parts : Math.max(1, Math.round(sample.share * parts.length));
  return parts
    .map((part, at) => ({ part, at, lot: random() }))
    .sort((a, b) => a.lot - b.lot)
    .slice(0, count)
    .sort((a, b) => a.at - b.at)
    .map(({ part }) => part);
}

/**
 * Checks the readable copy of an archive in a directory. Reads every segment up to the last copied commit, and checks
 * that each continues the previous one.
 * @throws offsite-no-copy, copy-other-archive; `disk` errors
 */
export async function checkFolder(
  to: string,
  order: Omit<CheckOrder, 'store' | 'temporary'>,
): Promise<CheckedTarget> {
  const { signal, onProgress } = order;
  if (!existsSync(formatPath(to))) throw copiesError('offsite-no-copy', { to });
  const listing = listSegments(realFiles, to);
  refuseOtherArchive(order.dataDir, to);
  const last = Math.max(0, ...listing.keys());
  const all = Array.from({ length: last }, (_, at) => at + 1);
  const picks = drawSample(all, order).map((segment): SegmentFile & { readonly path: string } => {
    const name = { segment, generation: Math.max(1, ...(listing.get(segment) ?? [])) };
    return { ...name, path: segmentPath(to, name) };
  });
  const prover = threadedProver();
  const { findings, checked } = await checkChain(
    { signal, progress: onProgress },
    to,
    picks,
    async (file) => {
      await prover.intact({ ...file, sealed: file.generation > 1 });
      return endsIn(to, file, listing);
    },
    ({ path, segment }, error) => ({ name: path, error: damageOf(error, path, segment) }),
  ).finally(() => prover.close());
  const state = segmentState(realFiles, to, last, listing, NO_TORN_BATCH);
  const number = state?.end.number ?? 0;
  const seen = lastCopied(order.dataDir, to);
  if (number < seen)
    findings.push({ name: to, error: copiesError('offsite-cut-off', { to, number, seen }) });
  return {
    ...{ checked, of: all.length, findings, opened: true, invalid: [] },
    number,
    copiedAt: state?.endedAt ?? statSync(formatPath(to)).mtimeMs,
  };
}

function lastCopied(dataDir: string, to: string): number {
  const state = readState(dataDir);
  try {
    return state === undefined ? 0 : (recallCopy(state, to).made?.commit ?? 0);
  } finally {
    state?.close();
  }
}

function refuseOtherArchive(dataDir: string, to: string): void {
  const [wanted, found] = [dataDir, to].map(archiveIdIn);
  if (wanted === undefined || found === undefined || wanted === found) return;
  throw copyError('copy-other-archive', { to, found, wanted });
}

/** Returns the archive's ID, or undefined if no segment is readable. */
function archiveIdIn(dir: string): string | undefined {
  const listing = listSegments(realFiles, dir);
  for (const segment of listing.keys()) {
    const id = tryOpenSegment(realFiles, dir, segment, listing);
    if (id === undefined) continue;
    id.file.close();
    return id.header.archiveId.toString('hex');
  }
  return undefined;
}

function isSame(a: ChainState, b: ChainState): boolean {
  return a.number === b.number && a.hash === b.hash;
}

/** @throws the error itself unless it reports damage or a missing segment */
function damageOf(error: unknown, file: string, segment: number): MailkeepError {
  if (!existsSync(file))
    return archiveError('log-damaged', { file, segment, offset: 0, reason: 'segment-missing' });
  if (isDamage(error)) return error;
  throw error;
}
