import { PAGE_SIZE } from '../plan/forecast.ts';
import type { FolderPass } from './folder-pass.ts';
import type { PassContext } from './pass-context.ts';
import { canSearch, walkRange } from './walk.ts';

/**
 * Asks for missing uids by name, 100 a request: only what an answered interval lacked *and* does not answer
 * then is gone. Where the host cannot be asked by name, a second walk over their range has to lack them too.
 * What answers after all is not missing any more.
 */
export async function confirmGone(ctx: PassContext, pass: FolderPass): Promise<number[]> {
  const missing = [...pass.missing].sort((a, b) => a - b);
  const answered = canSearch(ctx.memory, pass.at.host)
    ? await askByName(ctx, pass, missing)
    : await walkAgain(ctx, pass, missing);
  const held = new Set(ctx.mirror.heldUids(pass.at, pass.generation));
  for (const uid of answered) {
    pass.missing.delete(uid);
    if (held.has(uid)) ctx.committer.addFact({ fact: 'held', ...pass.place(uid), held: false });
  }
  return missing.filter((uid) => !answered.has(uid));
}

async function askByName(
  ctx: PassContext,
  pass: FolderPass,
  uids: readonly number[],
): Promise<Set<number>> {
  const answered = new Set<number>();
  for (let from = 0; from < uids.length; from += PAGE_SIZE) {
    const named = uids.slice(from, from + PAGE_SIZE).join(',');
    const page = { uids: named, perPage: PAGE_SIZE, order: 'ascending' } as const;
    const { items, total } = await ctx.origin.search(pass.at, page, ctx.signal);
    for (const { uid } of items) answered.add(uid);
    // A total above what it shows leaves open which of them is there: none of these is gone.
    if (total > items.length)
      for (const uid of uids.slice(from, from + PAGE_SIZE)) answered.add(uid);
  }
  return answered;
}

async function walkAgain(
  ctx: PassContext,
  pass: FolderPass,
  uids: readonly number[],
): Promise<Set<number>> {
  const lo = uids[0];
  const hi = uids[uids.length - 1];
  const answered = new Set<number>();
  if (lo === undefined || hi === undefined) return answered;
  for await (const page of walkRange(ctx, pass.at, { lo, hi }, 'ascending')) {
    for (const { uid } of page.items) answered.add(uid);
  }
  return answered;
}
