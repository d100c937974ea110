import type { ListedFolder } from '../../mail/words.ts';
import { PAGE_SIZE } from './forecast.ts';
import { gapsOf, type UidIntervals } from './uid-intervals.ts';

/** What a pass means to do with a folder, why, and how many requests that takes. Data, so that it can be printed. */
export interface FolderPlan {
  readonly folder: string;
  readonly action: 'nothing' | 'look' | 'walk';
  readonly reason: 'empty' | 'new-folder' | 'interrupted' | 'counts-differ' | 'newest-page';
  /** Messages the origin has and the archive does not account for. */
  readonly messages: number;
  /** Listing pages and sources together. */
  readonly requests: number;
}

/**
 * Plans one folder from its listing and what the archive has of it. Pure.
 *
 * @param accounted places of the folder that are stored, assumed, held, quarantined or forgotten
 * @param covered uids that earlier passes answered for
 */
export function planFolder(
  listed: ListedFolder,
  accounted: number,
  covered: UidIntervals,
): FolderPlan {
  const folder = listed.path;
  if (listed.messageCount === 0 && accounted === 0) {
    return { folder, action: 'nothing', reason: 'empty', messages: 0, requests: 0 };
  }
  const messages = Math.max(0, listed.messageCount - accounted);
  const pages = Math.max(1, Math.ceil(messages / PAGE_SIZE));
  const highest = covered[covered.length - 1]?.hi ?? 0;
  if (covered.length === 0) {
    return { folder, action: 'walk', reason: 'new-folder', messages, requests: messages + pages };
  }
  if (gapsOf(covered, { lo: 1, hi: highest }).length > 0) {
    return { folder, action: 'walk', reason: 'interrupted', messages, requests: messages + pages };
  }
  const reason = listed.messageCount === accounted ? 'newest-page' : 'counts-differ';
  return { folder, action: 'look', reason, messages, requests: messages + pages };
}
