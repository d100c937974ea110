import type { FolderKey, Place } from '../../../mail/words.ts';
import { folderKey, placeKey, type ScopeValue } from '../../../state/scopes.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent } from '../ports.ts';

/** Scope of memory: since when the brake holds places of a folder. */
const HELD = 'held';
/** Scope of memory: how often a quarantined place was tried again, and when last. */
const TRIES = 'quarantine-tries';
/** The first wait after a try; each further one doubles it. */
const FIRST_WAIT_MS = 10 * 60_000;
const LONGEST_WAIT_MS = 86_400_000;

/** Returns since when the brake holds places of a folder, milliseconds since the epoch; undefined when it holds none. */
export function heldSince(ctx: PassContext, at: FolderKey): number | undefined {
  return ctx.memory.get(HELD, folderKey(at))?.since;
}

/** Remembers since when places of a folder are held; undefined when none are. */
export function rememberHeld(ctx: PassContext, at: FolderKey, since: number | undefined): void {
  ctx.memory.set(HELD, folderKey(at), since === undefined ? null : { since });
}

/** Returns whether what is held in a folder is checked again: it is due, or the user accepts the deletions. */
export function isHeldDue(ctx: PassContext, at: FolderKey): boolean {
  const since = heldSince(ctx, at);
  if (ctx.policy.acceptEndings) return true;
  return since !== undefined && ctx.now() - since >= ctx.policy.confirmAfterMs;
}

/** Returns the quarantined uids to retry in this pass, ascending: by hand all of them, else those whose wait is over. */
export function dueQuarantined(ctx: PassContext, at: FolderKey, generation: number): number[] {
  const uids = ctx.mirror.quarantined(at, generation);
  if (ctx.policy.rhythm === null) return [...uids];
  const { host, mailbox, folder } = at;
  return uids.filter((uid) => {
    const tried = recallTries(ctx, { host, mailbox, folder, generation, uid });
    return tried.tries === 0 || !isRecent(tried.at, ctx.now(), nextTryAt(tried) - tried.at);
  });
}

/** Returns when a pass by the clock tries a quarantined place again, at the earliest. */
export function nextTryAt({ tries, at }: ScopeValue<typeof TRIES>): number {
  return at + Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
}

/** Remembers that a quarantined place is retried now. */
export function noteTry(ctx: PassContext, place: Place): void {
  const { tries } = recallTries(ctx, place);
  ctx.memory.set(TRIES, placeKey(place), { tries: tries + 1, at: ctx.now() });
}

/** Forgets the tries of a place that has left the quarantine. */
export function forgetTries(ctx: PassContext, place: Place): void {
  ctx.memory.set(TRIES, placeKey(place), null);
}

function recallTries(ctx: PassContext, place: Place): ScopeValue<typeof TRIES> {
  return ctx.memory.get(TRIES, placeKey(place)) ?? { tries: 0, at: 0 };
}
