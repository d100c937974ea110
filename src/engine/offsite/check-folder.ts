import { existsSync, statSync } from 'node:fs';
import { realFiles } from '../../archive/files/real-files.ts';
import { formatPath, segmentPath } from '../../archive/format/layout.ts';
import { openAgain } from '../../archive/read/scan-log.ts';
import type { ChainState } from '../../archive/read/segment-batches.ts';
import { listSegments, withSegment } from '../../archive/read/segment-files.ts';
import { NEVER_TORN, segmentState } from '../../copy/segment-state.ts';
import { logDamaged } from '../../errors/archive.ts';
import { copiesError } from '../../errors/copies.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { copyError } from '../../errors/small-families.ts';
import { recalledCopy } from '../../health/copies.ts';
import type { CopyFinding } from '../../offsite/check-copy.ts';
import { readState } from '../../state/state-file.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { type CheckedTarget, type CheckOrder, drawn } from './check-target.ts';

/** The commits before and at the end of a segment. */
interface Ends {
  readonly segment: number;
  readonly begin: ChainState;
  readonly end: ChainState;
}

/**
 * Checks the readable copy of an archive in a folder: every segment is there, every byte of it is read, and each
 * continues the one before, up to the last commit that was copied.
 *
 * @throws offsite-no-copy, copy-other-archive; `disk` errors
 */
export async function checkFolder(
  to: string,
  order: Omit<CheckOrder, 'store' | 'temporary'>,
): Promise<CheckedTarget> {
  const { signal, onProgress } = order;
  if (!existsSync(formatPath(to))) throw copiesError('offsite-no-copy', { to });
  const listing = listSegments(realFiles, to);
  refuseOther(order.dataDir, to);
  const last = Math.max(0, ...listing.keys());
  const all = Array.from({ length: last }, (_, at) => at + 1);
  const asked = drawn(all, order);
  const prover = proverOnThreads();
  const findings: CopyFinding[] = [];
  let before: Ends | undefined;
  let checked = 0;
  try {
    for (const segment of asked) {
      signal.throwIfAborted();
      const generation = Math.max(1, ...(listing.get(segment) ?? []));
      const path = segmentPath(to, { segment, generation });
      try {
        await prover.intact({ segment, generation, path, sealed: generation > 1 });
        const ends = endsOf(to, segment, generation, listing);
        if (before?.segment === segment - 1 && !isSame(before.end, ends.begin))
          throw copiesError('offsite-broken-chain', { to, segment });
        before = ends;
      } catch (error) {
        findings.push({ name: path, error: damageOf(error, path, segment) });
      }
      checked += 1;
      onProgress({ checked, of: asked.length });
    }
  } finally {
    await prover.close();
  }
  const reached = segmentState(realFiles, to, last, listing, NEVER_TORN);
  const number = reached?.end.number ?? 0;
  const seen = copiedBefore(order.dataDir, to);
  if (number < seen)
    findings.push({ name: to, error: copiesError('offsite-cut-off', { to, number, seen }) });
  return {
    ...{ checked, of: all.length, findings, opened: true, invalid: [] },
    number,
    copiedAt: reached?.endedAt ?? statSync(formatPath(to)).mtimeMs,
  };
}

/** The last commit that is known to have been copied; 0 for none. */
function copiedBefore(dataDir: string, to: string): number {
  const state = readState(dataDir);
  try {
    return state === undefined ? 0 : (recalledCopy(state, to).made?.commit ?? 0);
  } finally {
    state?.close();
  }
}

function refuseOther(dataDir: string, to: string): void {
  const [wanted, found] = [dataDir, to].map(archiveIdIn);
  if (wanted === undefined || found === undefined || wanted === found) return;
  throw copyError('copy-other-archive', { to, found, wanted });
}

/** The id in the first segment that can be read; undefined where none can. */
function archiveIdIn(dir: string): string | undefined {
  const listing = listSegments(realFiles, dir);
  for (const segment of listing.keys()) {
    const id = openAgain(realFiles, dir, segment, listing);
    if (id === undefined) continue;
    id.file.close();
    return id.header.archiveId.toString('hex');
  }
  return undefined;
}

function endsOf(
  to: string,
  segment: number,
  generation: number,
  listing: ReturnType<typeof listSegments>,
): Ends {
  const { header } = withSegment(realFiles, to, segment, [generation], (opened) => opened);
  const begin = { number: header.previousNumber, hash: header.previousHash };
  const state = segmentState(realFiles, to, segment, listing, NEVER_TORN);
  return { segment, begin, end: state?.end ?? begin };
}

function isSame(a: ChainState, b: ChainState): boolean {
  return a.number === b.number && a.hash === b.hash;
}

/** @throws the error itself, unless it is one of damage, or of a segment that is not there */
function damageOf(error: unknown, file: string, segment: number): MailkeepError {
  if (!existsSync(file)) return logDamaged({ file, segment, offset: 0, reason: 'segment-missing' });
  if (error instanceof MailkeepError && error.family === 'damage') return error;
  throw error;
}
