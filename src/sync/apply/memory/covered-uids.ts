import type { FolderKey } from '../../../mail/words.ts';
import { generationKey } from '../../../state/scopes.ts';
import {
  addInterval,
  type Coverage,
  type UidInterval,
  type UidIntervals,
} from '../../plan/coverage.ts';
import type { PassContext } from '../pass-context.ts';
import type { Memory } from '../ports.ts';

/** Scope of memory: the covered uid intervals of each folder's generation. */
const COVERAGE = 'coverage';
/** Scope of memory: the uids that the current sweep has read, by folder and generation. */
const SWEPT = 'swept';

/**
 * Returns the intervals that earlier passes covered in a folder's generation. None count once the archive accounts for
 * no message: the folder was deleted, and is back with the same uids.
 *
 * @param accounted messages of the folder that the archive accounts for
 */
export function recalledCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  accounted: number,
): UidIntervals {
  return accounted === 0 ? [] : intervalsOf(memory.get(COVERAGE, generationKey(at, generation)));
}

/** Remembers what is durably covered, if that has changed since the last call. */
export function rememberCoverage(
  memory: Memory,
  at: FolderKey,
  generation: number,
  coverage: Coverage,
): void {
  if (!coverage.takeDirty()) return;
  memory.set(COVERAGE, generationKey(at, generation), pairsOf(coverage.durable));
}

/**
 * Returns the uids that earlier passes of the same sweep have read, with nothing left to decide in them; none when
 * this pass starts a sweep of its own.
 */
export function recalledSweep(ctx: PassContext, at: FolderKey, generation: number): UidIntervals {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return [];
  const kept = ctx.memory.get(SWEPT, generationKey(at, generation));
  return kept?.since === sweptSince ? intervalsOf(kept.uids) : [];
}

/**
 * Remembers that a sweep has read these uids, so that it can stop and resume anywhere. Flushes first: what the uids
 * showed must be durable.
 */
export async function rememberSwept(
  ctx: PassContext,
  at: FolderKey,
  generation: number,
  answered: UidInterval,
): Promise<void> {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return;
  await ctx.committer.flush();
  const uids = addInterval(recalledSweep(ctx, at, generation), answered);
  ctx.memory.set(SWEPT, generationKey(at, generation), { since: sweptSince, uids: pairsOf(uids) });
}

function pairsOf(intervals: UidIntervals): number[][] {
  return intervals.map(({ lo, hi }) => [lo, hi]);
}

function intervalsOf(pairs: readonly (readonly [number, number])[] = []): UidIntervals {
  return pairs.reduce<UidIntervals>((set, [lo, hi]) => addInterval(set, { lo, hi }), []);
}
