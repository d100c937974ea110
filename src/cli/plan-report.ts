import type { SyncPlan } from '../sync/plan-sync.ts';
import { counted, span } from './amounts.ts';

/** What a pass would do, for people. */
export function planText(plan: SyncPlan): string {
  const folders = plan.mailboxes.flatMap(({ address, folders: planned }) =>
    planned.map((folder) => {
      const what = folder.messages > 0 ? counted(folder.messages, 'message') : 'nothing';
      return `${address} / ${folder.folder}: ${what} to fetch, ${counted(folder.requests, 'request')}`;
    }),
  );
  return [
    ...folders,
    `In all ${counted(plan.messages, 'message')} and ${counted(plan.requests, 'request')}: about ${span(plan.hours * 3_600_000)} at the configured rate. Nothing was fetched or written.`,
  ].join('\n');
}
