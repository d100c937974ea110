import type { Forecast } from '../../sync/plan/forecast.ts';
import { bytes, count, counted, span } from '../../wording/amounts.ts';

/** Above this, people want to know how to be faster. */
const LONG_MS = 600_000;

/** What the first sync will take, before it starts. */
export function forecastText(ahead: Forecast): string {
  const lines = [
    `Ahead: ${placesText(ahead.messages)}${ahead.bytes === 0 ? '' : `, about ${bytes(ahead.bytes)},`} in ${counted(ahead.folders, 'folder')} of ${counted(ahead.mailboxes, 'mailbox', 'mailboxes')}.`,
    `${timeText(ahead)} Newest messages come first; interrupt whenever you like, the next sync continues.`,
  ];
  if (isLong(ahead)) {
    lines.push(
      'To be faster, raise rateLimit.requestsPerMinute. Your provider knows what the service allows; where it refuses requests, mailkeep slows down, and "mailkeep status" shows the rate that it learned.',
    );
  }
  return lines.join('\n');
}

/** Returns a number of places with what a place is: whoever reads it may never have met the word. */
export function placesText(places: number): string {
  if (places === 0) return counted(places, 'place');
  return `${counted(places, 'place')} (one message in one folder${places === 1 ? '' : ' each'})`;
}

/** The time that the requests of a first sync take. */
export function timeText({ requests, requestsPerMinute, hours }: Forecast): string {
  return `That is ${counted(requests, 'request')}: about ${span(hours * 3_600_000)} at ${count(requestsPerMinute)} a minute.`;
}

/** Whether a first sync takes so long that people want to know how to be faster. */
export function isLong({ hours }: Forecast): boolean {
  return hours * 3_600_000 > LONG_MS;
}
