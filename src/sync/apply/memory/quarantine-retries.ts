import type { FolderKey, Place } from '../../../mail/words.ts';
import type { PassContext } from '../pass-context.ts';
import { placeKey } from '../ports.ts';

/** Scope of memory: how often a quarantined place was tried again, and when last. */
const TRIES = 'quarantine-tries';
/** The first wait after a try; each further one doubles it. */
const FIRST_WAIT_MS = 10 * 60_000;
const LONGEST_WAIT_MS = 86_400_000;

/** The quarantined uids to be tried in this pass, ascending: all of them by hand, else those whose wait is over. */
export function dueQuarantined(ctx: PassContext, at: FolderKey, generation: number): number[] {
  const uids = ctx.mirror.quarantined(at, generation);
  if (ctx.policy.rhythm === null) return [...uids];
  const { host, mailbox, folder } = at;
  return uids.filter((uid) => {
    const { tries, at: last } = recall(ctx, { host, mailbox, folder, generation, uid });
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
    const age = ctx.now() - last;
    return tries === 0 || age < 0 || age >= wait;
  });
}

/** Remembers that a quarantined place is tried now. */
export function noteTry(ctx: PassContext, place: Place): void {
  const { tries } = recall(ctx, place);
  ctx.memory.set(TRIES, placeKey(place), { tries: tries + 1, at: ctx.now() });
}

/** Forgets the tries of a place that is not in quarantine any more. */
export function forgetTries(ctx: PassContext, place: Place): void {
  ctx.memory.set(TRIES, placeKey(place), null);
}

function recall(ctx: PassContext, place: Place): { readonly tries: number; readonly at: number } {
  const kept = ctx.memory.get(TRIES, placeKey(place));
  if (typeof kept !== 'object' || kept === null || !('tries' in kept && 'at' in kept)) {
    return { tries: 0, at: 0 };
  }
  const { tries, at } = kept;
  return typeof tries === 'number' && typeof at === 'number' ? { tries, at } : { tries: 0, at: 0 };
}
