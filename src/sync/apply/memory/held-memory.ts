import type { FolderKey } from '../../../mail/words.ts';
import type { PassContext } from '../pass-context.ts';
import { folderKey } from '../ports.ts';

/** Scope of memory: since when the brake holds places of a folder. */
const HELD = 'held';

/** Since when the brake holds places of a folder, milliseconds since the epoch; undefined when it holds none. */
export function heldSince(ctx: PassContext, at: FolderKey): number | undefined {
  const held = ctx.memory.get(HELD, folderKey(at));
  if (typeof held !== 'object' || held === null || !('since' in held)) return undefined;
  return typeof held.since === 'number' ? held.since : undefined;
}

/** Remembers since when places of a folder are held; undefined when none are any more. */
export function rememberHeld(ctx: PassContext, at: FolderKey, since: number | undefined): void {
  ctx.memory.set(HELD, folderKey(at), since === undefined ? null : { since });
}

/** True when what is held in a folder is to be looked at again: its time has come, or the user says so. */
export function isDue(ctx: PassContext, at: FolderKey): boolean {
  const since = heldSince(ctx, at);
  if (ctx.policy.acceptEndings) return true;
  return since !== undefined && ctx.now() - since >= ctx.policy.confirmAfterMs;
}
