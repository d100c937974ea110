import type { FolderPlan } from '../../../sync/plan/plan-folder.ts';
import type { SyncPlan } from '../../../sync/plan-sync.ts';
import { counted, span } from '../../../wording/amounts.ts';
import { placesText } from '../../progress/forecast-text.ts';
import { shownName } from '../../shown-name.ts';

const ACTIONS: Readonly<Record<FolderPlan['action'], string>> = {
  nothing: 'nothing to do',
  look: 'look at the newest page',
  search: 'search for what differs',
  walk: 'walk through it',
  sweep: 'read every page',
};

const REASONS: Readonly<Record<FolderPlan['reason'], string>> = {
  empty: 'empty there and here',
  'new-folder': 'not in the archive yet',
  interrupted: 'an earlier sync did not finish it',
  'fewer-at-origin': 'the service counts fewer messages than the archive',
  'more-at-origin': 'the service counts more messages than the archive',
  'unread-differs': 'the service counts other unread messages than the archive',
  full: 'every message and flag is asked for',
  'newest-page': 'counts agree',
};

/** What a pass would do, for people: each folder with the reason and the price, then the sum. */
export function planText(plan: SyncPlan): string {
  const folders = plan.mailboxes.flatMap(({ address, folders: planned, excluded }) => [
    ...planned.map((folder) => {
      const fetch = folder.messages > 0 ? `, fetch ${counted(folder.messages, 'place')}` : '';
      const place = shownName(address, folder.folder);
      return `${place}: ${ACTIONS[folder.action]}${fetch} (${REASONS[folder.reason]}); ${counted(folder.requests, 'request')}`;
    }),
    ...excluded.map((folder) => `${shownName(address, folder)}: left out by the configuration`),
  ]);
  return [
    ...folders,
    `In all ${placesText(plan.messages)} and ${counted(plan.requests, 'request')}: about ${span(plan.hours * 3_600_000)} at the configured rate. No message was fetched or written.`,
  ].join('\n');
}
