import type { FolderKey } from '../../../mail/words.ts';
import { addInterval, type UidInterval, type UidIntervals } from '../../plan/uid-intervals.ts';
import type { PassContext } from '../pass-context.ts';
import { folderKey } from '../ports.ts';
import { parseIntervals } from './coverage.ts';

/** Scope of memory: the uids that the sweep under way has answered for, by folder and generation. */
const SWEPT = 'swept';

/**
 * The uids that the sweep which this pass goes on with has read already, without anything left to decide; none
 * where the pass begins one of its own.
 */
export function recalledSweep(ctx: PassContext, at: FolderKey, generation: number): UidIntervals {
  const { full, sweptSince } = ctx.policy;
  if (!full || sweptSince === null) return [];
  const kept = ctx.memory.get(SWEPT, `${folderKey(at)}/${generation}`);
  if (typeof kept !== 'object' || kept === null || !('since' in kept && 'uids' in kept)) return [];
  return kept.since === sweptSince ? parseIntervals(kept.uids) : [];
}

/**
 * Remembers that a sweep has read these uids, so that it can stop and go on anywhere; what they showed is made
 * durable first.
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
  ctx.memory.set(SWEPT, `${folderKey(at)}/${generation}`, {
    since: sweptSince,
    uids: uids.map(({ lo, hi }) => [lo, hi]),
  });
}
