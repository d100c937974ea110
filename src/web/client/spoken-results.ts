import { counted } from '../../wording/amounts.ts';
import type { Page } from '../pages/page.ts';

/** Returns what a reader for the blind says of the results, once typing rests; empty while there is nothing to say. */
export function spokenResults(page: Page): string {
  if (page.kind !== 'mail') return '';
  const { frame, list } = page;
  if (frame.problem !== null) {
    const { message, suggestion, hint } = frame.problem;
    const way = suggestion === null ? hint : `Did you mean ${suggestion.text}?`;
    return way === null ? message : `${message} ${way}`;
  }
  const all = list?.all ?? null;
  if (all === null) return '';
  if (all.count === 0) return 'Nothing found.';
  const found = `${all.complete ? '' : 'more than '}${counted(all.count, 'message')}`;
  const ended = list?.ended ?? 0;
  return ended > 0 ? `${found}, ${counted(ended, 'deleted message')}.` : `${found}.`;
}
