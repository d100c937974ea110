import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { askByName } from '../walk/ask-by-name.ts';
import { canSearch, distrustSearch, walkByOffset } from '../walk/walk.ts';

/**
 * Asks for missing uids by name and returns those that are gone: an answered interval lacked them, *and* they do not
 * answer now. Those that do answer are cleared: neither missing nor held any longer.
 *
 * Both answers may come from one search index that lags behind. Where the folder counts more messages than would
 * be left, its listing decides.
 */
export async function confirmGone(ctx: PassContext, pass: FolderPass): Promise<readonly number[]> {
  const missing = [...pass.evidence.missing].sort((a, b) => a - b);
  const { answered, silent } = await askByName(ctx, pass.at, missing);
  const listed = await shownByListing(ctx, pass, silent);
  const held = new Set(ctx.mirror.heldUids(pass.at, pass.generation));
  for (const uid of [...answered.keys(), ...listed]) {
    pass.evidence.clearMissing(uid);
    if (held.has(uid)) ctx.committer.addFact({ fact: 'held', ...pass.place(uid), held: false });
  }
  return silent.filter((uid) => !listed.has(uid));
}

/** Returns those of the uids, ascending and denied by a search, that the listing of the folder shows all the same. */
async function shownByListing(
  ctx: PassContext,
  pass: FolderPass,
  silent: readonly number[],
): Promise<ReadonlySet<number>> {
  const shown = new Set<number>();
  const lo = silent[0];
  const hi = silent[silent.length - 1];
  if (lo === undefined || hi === undefined || !canSearch(ctx.memory, pass.at.host)) return shown;
  if (!(await pass.countsMoreWithout(silent.length))) return shown;
  const denied = new Set(silent);
  for await (const { items } of walkByOffset(ctx, pass.at, { lo, hi }, 'ascending')) {
    for (const { uid } of items) if (denied.has(uid)) shown.add(uid);
  }
  if (shown.size > 0) distrustSearch(ctx.memory, pass.at.host);
  return shown;
}
