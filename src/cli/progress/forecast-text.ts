import type { Forecast } from '../../sync/plan/forecast.ts';
import { bytes, count, counted, span } from '../amounts.ts';

/** Above this, people want to know how to be faster. */
const LONG_MS = 600_000;

/** What the first sync will take, before it starts. */
export function forecastText(ahead: Forecast): string {
  const time = ahead.hours * 3_600_000;
  const lines = [
    `Ahead: ${counted(ahead.messages, 'place')}${ahead.bytes === 0 ? '' : ` (about ${bytes(ahead.bytes)})`} in ${counted(ahead.folders, 'folder')} of ${counted(ahead.mailboxes, 'mailbox', 'mailboxes')}.`,
    `That is ${counted(ahead.requests, 'request')}: about ${span(time)} at ${count(ahead.requestsPerMinute)} a minute. Newest messages come first; interrupt whenever you like, the next sync goes on.`,
  ];
  if (time > LONG_MS) {
    lines.push(
      'To be faster, raise rateLimit.requestsPerMinute in the configuration as far as the service allows.',
    );
  }
  return lines.join('\n');
}
