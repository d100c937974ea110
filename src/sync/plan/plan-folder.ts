import type { ListedFolder } from '../../mail/words.ts';
import { gapsOf, type UidIntervals } from './coverage.ts';
import { PAGE_SIZE } from './forecast.ts';

/** What a pass would do with a folder, why, and how many requests that takes. Data, so that it can be printed. */
export interface FolderPlan {
  readonly folder: string;
  readonly action: 'nothing' | 'look' | 'search' | 'walk' | 'sweep';
  readonly reason:
    | 'empty'
    | 'new-folder'
    | 'interrupted'
    | 'fewer-at-origin'
    | 'more-at-origin'
    | 'unread-differs'
    | 'full'
    | 'newest-page';
  /** Messages that the origin has and the archive does not account for. */
  readonly messages: number;
  /** Listing pages and sources together; for `search` the most that finding a difference may take. */
  readonly requests: number;
}

/** What the archive knows of a folder. */
export interface KnownOfFolder {
  /** Places that are stored, assumed, held, quarantined or forgotten. */
  readonly accounted: number;
  readonly unread: number;
  /** Uids that earlier passes covered. */
  readonly covered: UidIntervals;
}

/**
 * Plans one folder from its listing and what the archive has of it. Pure.
 *
 * @param full every page is read, as `--full` does
 */
export function planFolder(
  listed: ListedFolder,
  { accounted, unread, covered }: KnownOfFolder,
  full: boolean,
): FolderPlan {
  const messages = Math.max(0, listed.messageCount - accounted);
  const plan = (
    action: FolderPlan['action'],
    reason: FolderPlan['reason'],
    requests: number,
  ): FolderPlan => ({ folder: listed.path, action, reason, messages, requests });
  if (listed.messageCount === 0 && accounted === 0) return plan('nothing', 'empty', 0);
  const pages = Math.max(1, Math.ceil(messages / PAGE_SIZE));
  const highest = covered[covered.length - 1]?.hi ?? 0;
  if (covered.length === 0) return plan('walk', 'new-folder', messages + pages);
  if (gapsOf(covered, { lo: 1, hi: highest }).length > 0) {
    return plan('walk', 'interrupted', messages + pages);
  }
  const largest = Math.max(1, Math.ceil(Math.max(listed.messageCount, accounted) / PAGE_SIZE));
  if (full) return plan('sweep', 'full', messages + largest);
  // Halving finds a difference in two requests per level, and never takes more than walking every page.
  const search = Math.min(largest, 1 + 2 * Math.ceil(Math.log2(largest)));
  if (listed.messageCount < accounted) return plan('search', 'fewer-at-origin', pages + search);
  if (listed.messageCount > accounted) return plan('look', 'more-at-origin', messages + pages);
  if (listed.unreadCount !== unread && largest > 1) {
    return plan('search', 'unread-differs', pages + search);
  }
  return plan('look', 'newest-page', pages);
}
