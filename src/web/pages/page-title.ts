import { ownHit } from './message-props.ts';
import type { Page } from './page.ts';

/** Returns what stands at the top of the window. */
export function pageTitle(page: Page): string {
  switch (page.kind) {
    case 'mail':
      return titleOf(page.frame.query);
    case 'message':
      return ownHit(page.message.conversation).line.subject ?? '(no subject)';
    case 'no-message':
      return 'No such message';
    case 'health':
      return page.shown.tab === 'overview' ? 'Health' : `Health: ${page.shown.tab}`;
    case 'dashboard':
      return 'Dashboard';
    case 'export':
      return 'Export';
    case 'still':
      return page.title;
    case 'files':
      return page.frame.query.trim() === '' ? 'Attachments' : `Attachments: ${page.frame.query}`;
  }
}

/** Returns the classes of the body: styles depend on what is shown. */
export function pageClasses(page: Page): string {
  const isRead =
    page.kind === 'message' ||
    (page.kind === 'mail' && page.message !== null) ||
    (page.kind === 'files' && page.chosen !== null);
  return [
    `at-${page.kind === 'still' ? page.of : page.kind}`,
    ...(page.frame.past === null ? [] : ['in-past']),
    ...(isRead ? ['has-message'] : []),
  ].join(' ');
}

/** Returns what a query is called at the top of the window. */
export function titleOf(query: string): string {
  return query.trim() === '' ? 'All mail' : query;
}
