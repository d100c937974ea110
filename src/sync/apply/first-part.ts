import { notAccountedFor } from '../plan/folder-sums.ts';
import { PAGE_SIZE } from '../plan/forecast.ts';
import { gapsOf } from '../plan/uid-intervals.ts';
import { concernsOnly } from './failure-scope.ts';
import type { FolderPass } from './folder-pass.ts';
import { guardFolder } from './mailbox-pass.ts';
import type { PassContext } from './pass-context.ts';
import { canSearch, isRefusal } from './walk/walk.ts';

/** What counts as recent: a year. */
const RECENT_MS = 365 * 86_400_000;
/** Folders with fewer messages ahead are over within two pages: asking where a year begins is not worth a request. */
const LARGE_BACKLOG = 2 * PAGE_SIZE;
/** Messages below it are small: nine of ten, and a small part of all bytes. */
const SMALL_BYTES = 100_000;
/** Listings of large messages that are kept while they wait, over all folders: about 30 MB. More are not postponed. */
const MOST_POSTPONED = 20_000;

/**
 * Fetches the part of the folders' backlogs that the configuration wants before the rest, so that an interrupted first
 * sync has the most useful mail. Only the order changes: the uids that are walked here are not walked again, and the
 * rest of the pass proves the same as without it.
 */
export async function takeFirst(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  if (ctx.order === 'oldest') return;
  const waiting = folders.filter((folder) => !folder.isEmpty(ctx));
  if (ctx.first === 'recent') await takeRecent(ctx, waiting);
  // A daemon interrupts long passes, and pages with a postponed message are listed again by each: no pass would get far.
  if (ctx.first === 'small' && ctx.policy.rhythm === null) await takeSmall(ctx, waiting);
}

/** Returns how many messages the origin counts in a folder that the archive does not account for. */
export function ahead(ctx: PassContext, folder: FolderPass): number {
  return notAccountedFor(folder.listed.messageCount, ctx.mirror.sumsOf(folder.at));
}

/** Walks each folder down to where the last year begins: one request a folder more. Alone it is newest first anyway. */
async function takeRecent(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  const large = folders.filter((folder) => ahead(ctx, folder) > LARGE_BACKLOG);
  if (large.length < 2) return;
  const since = new Date(ctx.startedAt - RECENT_MS).toISOString().slice(0, 10);
  for (const folder of large) {
    await guardFolder(ctx, folder, async () => {
      const lo = await firstUidSince(ctx, folder, since);
      if (lo !== null) await folder.takeBacklog(ctx, lo);
    });
  }
}

/**
 * The lowest uid, of those that no answer covers yet, whose message was received on this day or later. Null where there
 * is none, or where the host does not say: the backlog is walked all the same, and names what fails there.
 */
async function firstUidSince(
  ctx: PassContext,
  folder: FolderPass,
  since: string,
): Promise<number | null> {
  const gaps = gapsOf(folder.coverage.walked, { lo: 1, hi: folder.highestUid });
  const [first, last] = [gaps[0], gaps[gaps.length - 1]];
  if (first === undefined || last === undefined) return null;
  if (!canSearch(ctx.memory, folder.at.host)) return null;
  const asked = { uids: `${first.lo}:${last.hi}`, perPage: 1, order: 'ascending', since } as const;
  try {
    const { items } = await ctx.origin.search(folder.at, asked, ctx.signal);
    return items[0]?.uid ?? null;
  } catch (error) {
    ctx.signal.throwIfAborted();
    if (isRefusal(error) || concernsOnly(error)) return null;
    throw error;
  }
}

/** Walks every backlog and lets the large messages wait. It costs no request more. */
async function takeSmall(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  let room = MOST_POSTPONED;
  for (const folder of folders) {
    folder.postpones = (listing, ticket) => {
      if (listing.size < SMALL_BYTES || room === 0) return false;
      room -= 1;
      // Another answer that shows it asks for nothing. Its page stays open until it is stored.
      folder.underWay.add(listing.uid);
      folder.postponed.push({ listing, ticket });
      return true;
    };
    await guardFolder(ctx, folder, () => folder.takeBacklog(ctx));
    folder.postpones = undefined;
  }
}
