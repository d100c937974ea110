import { realFiles } from '../archive/files/real-files.ts';
import { logFolder, segmentPath } from '../archive/format/layout.ts';
import type { ChainState } from '../archive/read/segment-batches.ts';
import { listSegments, withSegment } from '../archive/read/segment-files.ts';
import { NEVER_TORN, segmentState } from '../copy/segment-state.ts';
import { copiesError } from '../errors/copies.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { ObjectStore } from '../objects/store.ts';
import { copiedSegments, fetchSegment, type SegmentSource } from './fetch-segment.ts';
import { listedBytes } from './listed-bytes.ts';
import type { ObjectEntry } from './plan-copy.ts';

export interface CopyFinding {
  /** The object; the first of those of a segment where it is not known which of them. */
  readonly name: string;
  readonly error: MailkeepError;
}

export interface CheckedCopy {
  /** Objects, or segments where there was a key. */
  readonly checked: number;
  readonly of: number;
  readonly findings: readonly CopyFinding[];
}

interface Checking {
  readonly signal: AbortSignal;
  readonly progress?: (done: { readonly checked: number; readonly of: number }) => void;
}

/**
 * Compares the bytes of objects with the lengths and hashes that a manifest lists. Takes no key.
 *
 * @throws what the store throws, unless an object is missing or damaged
 */
export async function checkObjects(
  options: Checking & { readonly store: ObjectStore; readonly objects: readonly ObjectEntry[] },
): Promise<CheckedCopy> {
  const { store, objects, signal, progress } = options;
  const findings: CopyFinding[] = [];
  let checked = 0;
  for (const entry of objects) {
    signal.throwIfAborted();
    try {
      for await (const _ of listedBytes(store, entry, signal));
    } catch (error) {
      findings.push(findingOf(entry.name, error));
    }
    checked += 1;
    progress?.({ checked, of: objects.length });
  }
  return { checked, of: objects.length, findings };
}

/**
 * Opens every segment of a copy, reads it as the log of an archive, and checks that each continues the one before and
 * that the last ends with the manifest's commit: what is left is to put the same files into a folder.
 *
 * @param scratch an empty folder, which holds one segment at a time
 * @param chosen segments to open; their neighbours are not compared then
 */
export async function checkSegments(
  options: Checking &
    SegmentSource & { readonly scratch: string; readonly chosen: ReadonlySet<number> | undefined },
): Promise<CheckedCopy> {
  const { manifest, scratch, chosen, signal, progress } = options;
  realFiles.makeFolder(logFolder(scratch));
  const all = copiedSegments(manifest);
  const asked = chosen === undefined ? all : all.filter(({ segment }) => chosen.has(segment));
  const findings: CopyFinding[] = [];
  let checked = 0;
  let before: (ChainState & { readonly segment: number }) | undefined;
  for (const copied of asked) {
    signal.throwIfAborted();
    const name = copied.pieces[0]?.name ?? '';
    try {
      const found = await endsOf(options, copied);
      const continues = before === undefined || before.segment + 1 !== copied.segment;
      if (!continues && (before?.number !== found.begin.number || before.hash !== found.begin.hash))
        throw copiesError('offsite-broken-chain', {
          to: options.store.label,
          segment: copied.segment,
        });
      before = { ...found.end, segment: copied.segment };
    } catch (error) {
      findings.push(findingOf(name, error));
      before = undefined;
    }
    checked += 1;
    progress?.({ checked, of: asked.length });
  }
  const { commit } = manifest;
  const last = all.at(-1);
  const isWrong =
    before !== undefined &&
    before.segment === last?.segment &&
    (before.number !== commit.number || before.hash !== commit.hash);
  if (isWrong) {
    const facts = { to: options.store.label, segment: before?.segment ?? 0 };
    findings.push({
      name: last?.pieces[0]?.name ?? '',
      error: copiesError('offsite-broken-chain', facts),
    });
  }
  return { checked, of: all.length, findings };
}

/** The commits before and at the end of a segment, of which every byte was read. */
async function endsOf(
  options: SegmentSource & { readonly scratch: string },
  copied: Parameters<typeof fetchSegment>[2],
): Promise<{ readonly begin: ChainState; readonly end: ChainState }> {
  const { scratch } = options;
  const { name } = await fetchSegment(options, scratch, copied);
  try {
    const listing = listSegments(realFiles, scratch);
    const { header } = withSegment(
      realFiles,
      scratch,
      copied.segment,
      [name.generation],
      (opened) => opened,
    );
    const state = segmentState(realFiles, scratch, copied.segment, listing, NEVER_TORN);
    const begin = { number: header.previousNumber, hash: header.previousHash };
    return { begin, end: state?.end ?? begin };
  } finally {
    await realFiles.remove(segmentPath(scratch, name));
  }
}

/** @throws the error itself, unless it is one of damage: a disk or a network that fails says nothing about the copy */
function findingOf(name: string, error: unknown): CopyFinding {
  if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
  // Of several objects of a segment, the one that is damaged.
  const { name: named = name } = error.facts;
  return { name: typeof named === 'string' ? named : name, error };
}
