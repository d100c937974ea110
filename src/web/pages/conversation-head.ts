import type { SearchHit } from '../../catalog/search/hit.ts';
import { counted } from '../../wording/amounts.ts';
import { dayText } from '../../wording/dates.ts';

/** Returns who wrote in a conversation and when: `6 messages of 4 people, 30 Sep 2026 – 20 Nov 2026, in 2 mailboxes`. */
export function conversationText(hits: readonly SearchHit[], isCut: boolean): string {
  // A list sends the mail of all its members from one address, under their names.
  const people = new Set(
    hits.flatMap(({ line: { from } }) =>
      from === null ? [] : [`${from.name} ${from.address}`.toLowerCase()],
    ),
  );
  const times = hits.flatMap(({ line }) => (line.date === null ? [] : [Date.parse(line.date)]));
  const mailboxes = new Set(hits.flatMap(({ line }) => line.places.map(({ mailbox }) => mailbox)));
  const parts = [
    `${isCut ? 'The first ' : ''}${counted(hits.length, 'message')}${
      people.size === 0 ? '' : ` of ${counted(people.size, 'person', 'people')}`
    }`,
  ];
  if (times.length > 0) {
    const [first, last] = [dayText(Math.min(...times)), dayText(Math.max(...times))];
    parts.push(first === last ? first : `${first} – ${last}`);
  }
  if (mailboxes.size > 1) parts.push(`in ${counted(mailboxes.size, 'mailbox', 'mailboxes')}`);
  return parts.join(', ');
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = [
  [365 * DAY, 'year'],
  [30 * DAY, 'month'],
  [DAY, 'day'],
  [HOUR, 'hour'],
  [MINUTE, 'minute'],
] as const;

/** Returns a span in its largest unit, as people say it: `17 hours`, `3 months`. Milliseconds; not below none. */
export function roughSpan(ms: number): string {
  const found = UNITS.find(([length]) => ms >= length);
  if (found === undefined) return 'less than a minute';
  const [length, unit] = found;
  return counted(Math.floor(ms / length), unit);
}
