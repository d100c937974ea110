import { PAGE_SIZE } from '../plan/forecast.ts';
import { concernsOnly } from './failure-scope.ts';
import type { FolderPass } from './folder-pass.ts';
import type { PassContext } from './pass-context.ts';
import { canSearch, isRefusal } from './walk/walk.ts';

/** What counts as recent: a year. */
const RECENT_MS = 365 * 86_400_000;
/** A smaller backlog is over within two pages: finding where a year begins is not worth a request. */
const LARGE_BACKLOG = 2 * PAGE_SIZE;
/** Messages below it are small: nine of ten, and a small part of all bytes. */
const SMALL_BYTES = 100_000;
/** Listings of large messages that are kept while they wait, over all folders: about 30 MB. More are not postponed. */
const MOST_POSTPONED = 20_000;

/**
 * Fetches the part of the folders' backlogs that the configuration wants before the rest, so that an interrupted
 * first sync has the most useful mail. Only the order changes: the uids that are walked here are not walked again,
 * and the pass proves the same as without it.
 */
export async function fetchFirstPart(
  ctx: PassContext,
  folders: readonly FolderPass[],
): Promise<void> {
  const { order, first } = ctx.settings;
  if (order === 'oldest') return;
  const waiting = folders.filter((folder) => !folder.isEmpty);
  if (first === 'recent') await fetchRecent(ctx, waiting);
  // A daemon interrupts long passes, and each lists pages with a postponed message again: no pass would get far.
  if (first === 'small' && ctx.policy.rhythm === null) await fetchSmall(waiting);
}

/**
 * Walks each folder down to where the last year begins, at the cost of one more request per folder. A single folder
 * is walked newest first anyway.
 */
async function fetchRecent(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  const large = folders.filter((folder) => folder.remaining > LARGE_BACKLOG);
  if (large.length < 2) return;
  const since = new Date(ctx.startedAt - RECENT_MS).toISOString().slice(0, 10);
  for (const folder of large) {
    await folder.guarded(async () => {
      const downTo = await firstUidSince(ctx, folder, since);
      if (downTo !== null) await folder.walkBacklog({ downTo });
    });
  }
}

/**
 * Returns the lowest uid, of those that no answer covers yet, whose message was received on this day or later. Null
 * where there is none, or where the host does not search by date: the rest of the pass walks the backlog all the
 * same, and reports what fails there.
 */
async function firstUidSince(
  ctx: PassContext,
  { at, evidence }: FolderPass,
  since: string,
): Promise<number | null> {
  const gaps = evidence.notWalked({ lo: 1, hi: evidence.highestUid });
  const [first, last] = [gaps[0], gaps[gaps.length - 1]];
  if (first === undefined || last === undefined) return null;
  if (!canSearch(ctx.memory, at.host)) return null;
  const asked = { uids: `${first.lo}:${last.hi}`, perPage: 1, order: 'ascending', since } as const;
  try {
    const { items } = await ctx.origin.search(at, asked, ctx.signal);
    return items[0]?.uid ?? null;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (isRefusal(error) || concernsOnly(error)) return null;
    throw error;
  }
}

/** Walks every backlog and postpones the large messages. This costs no additional request. */
async function fetchSmall(folders: readonly FolderPass[]): Promise<void> {
  let room = MOST_POSTPONED;
  const postpones = ({ size }: { readonly size: number }): boolean => {
    if (size < SMALL_BYTES || room === 0) return false;
    room -= 1;
    return true;
  };
  for (const folder of folders) await folder.guarded(() => folder.walkBacklog({ postpones }));
}
