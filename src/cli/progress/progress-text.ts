import { displayWidth, fitColumns } from '../../mail/terminal-safe.ts';
import type { Forecast } from '../../sync/plan/forecast.ts';
import { bytes, count, counted, localTime, span } from '../../wording/amounts.ts';
import { present } from '../output.ts';
import { shownName } from '../place-line.ts';
import { type MailboxTally, speedOf, sumOf, type Tally, timeLeft, type Waiting } from './tally.ts';

/** Above this, people want to know how to be faster. */
const LONG_MS = 600_000;

/** What the first sync will take, before it starts. */
export function forecastText(ahead: Forecast): string {
  const lines = [
    `To fetch: ${placesText(ahead.messages)}${ahead.bytes === 0 ? '' : `, about ${bytes(ahead.bytes)},`} in ${counted(ahead.folders, 'folder')} of ${counted(ahead.mailboxes, 'mailbox', 'mailboxes')}.`,
    `${timeText(ahead)} Newest messages come first; interrupt whenever you like, the next sync continues.`,
  ];
  if (isLong(ahead)) {
    lines.push(
      'To be faster, raise rateLimit.requestsPerMinute. Your provider knows what the service allows; where it refuses requests, mailkeep slows down, and "mailkeep status" shows the rate that it learned.',
    );
  }
  return lines.join('\n');
}

/** Returns a number of messages, and how copies in several folders are counted. */
export function placesText(messages: number): string {
  return `${counted(messages, 'message')}${messages > 1 ? ' (counted once per folder)' : ''}`;
}

/** Above this rate, the speed of the service and of this machine decides, and nothing is known of it yet. */
const PACED_PER_MINUTE = 1_200;

/** The requests of a first sync, and the time that they take where the rate limit decides about it. */
export function timeText({
  requests,
  requestsPerMinute,
  hours,
}: Pick<Forecast, 'requests' | 'requestsPerMinute' | 'hours'>): string {
  const sum = `That is ${counted(requests, 'request')}`;
  if (requestsPerMinute > PACED_PER_MINUTE) return `${sum}.`;
  return `${sum}: about ${span(hours * 3_600_000)} at ${count(Math.floor(requestsPerMinute))} a minute.`;
}

/** Whether a first sync takes so long that people want to know how to be faster. */
export function isLong({ hours }: Forecast): boolean {
  return hours * 3_600_000 > LONG_MS;
}

/** `1,200 of 3,400 messages`. */
function storedText({ messages, ahead }: Pick<MailboxTally, 'messages' | 'ahead'>): string {
  return `${count(messages)} of ${counted(ahead, 'message')}`;
}

/** `1,300 requests, 58 a minute (budget 60)`; the budget is the rate in force of one account. */
function requestsText(tally: Tally, now: number): string {
  const elapsed = now - tally.startedAt;
  const { requests } = sumOf(tally);
  const rate = elapsed < 1_000 ? requests : (requests / elapsed) * 60_000;
  const budget = Math.max(0, ...tally.perMinute.values());
  const shown = budget === 0 ? '' : ` (budget ${count(Math.floor(budget))})`;
  return `${counted(requests, 'request')}, ${count(rate)} a minute${shown}`;
}

/** Why nothing moves at the moment. */
export function waitingText({ until, reason }: Waiting, now: number): string {
  const wait = span(Math.max(0, until - now));
  switch (reason) {
    case 'rate':
      return `waiting ${wait} for the request budget`;
    case 'retry-after':
      return `the service asked to wait ${wait}`;
    case 'paused':
      return `paused until ${localTime(until)}: the service keeps refusing`;
  }
}

/** The whole state as one line, for logs and files. */
export function summaryLine(tally: Tally, now: number): string {
  const open = openMailboxes(tally);
  const names = open.slice(0, 2).map(({ address }) => shownName(address));
  const { waiting } = tally;
  return present([
    workText(tally) ?? fetchedText(tally, now),
    requestsText(tally, now),
    names.length > 0 && names.join(' and '),
    waiting !== null && waiting.until > now && waitingText(waiting, now),
  ]).join('; ');
}

/** The state of all mailboxes together, from the most detailed text to the shortest. */
export function sumTexts(tally: Tally, now: number): readonly string[] {
  const { waiting } = tally;
  const isWaiting = waiting !== null && waiting.until > now;
  const done = storedText(sumOf(tally));
  const work = isWaiting ? `${waitingText(waiting, now)}; ${done}` : workText(tally);
  if (work !== null) return [work];
  const left = timeLeft(tally, now);
  const stored = fetchedText(tally, now);
  return [
    `all  ${stored}; ${requestsText(tally, now)}`,
    `all  ${stored}`,
    `all  ${present([done, left !== null && `${span(left)} left`]).join(', ')}`,
  ];
}

/** The state of one mailbox, from the most detailed text to the shortest. */
export function mailboxTexts(mailbox: MailboxTally, columns: number): readonly string[] {
  const stored = storedText(mailbox);
  const address = shownName(mailbox.address);
  return [
    `${address}  ${stored}, ${bytes(mailbox.bytes)}`,
    // The numbers are what changes: a long address gives way.
    `${fitColumns(address, Math.max(1, columns - displayWidth(stored) - 2))}  ${stored}`,
  ];
}

/** `1,200 of 3,400 messages, 12.3 MB, 210/s, 10 s left`. */
function fetchedText(tally: Tally, now: number): string {
  const sum = sumOf(tally);
  const speed = speedOf(tally, now);
  const left = sum.messages < sum.ahead ? timeLeft(tally, now) : null;
  return present([
    storedText(sum),
    bytes(sum.bytes),
    speed !== null && `${speed < 10 ? speed.toFixed(1) : count(speed)}/s`,
    left !== null && `${span(left)} left`,
  ]).join(', ');
}

/** Returns the text for the time after everything is fetched; null until then. */
function workText(tally: Tally): string | null {
  const { indexing } = tally;
  const isFetching = tally.mailboxes.size === 0 || openMailboxes(tally).length > 0;
  if (isFetching || indexing === null) return null;
  const { indexed, remaining } = indexing;
  if (remaining === 0) return `${storedText(sumOf(tally))}; reading attachments and tidying up`;
  return `indexing ${count(indexed)} of ${counted(indexed + remaining, 'message')}`;
}

function openMailboxes(tally: Tally): readonly MailboxTally[] {
  return [...tally.mailboxes.values()].filter(({ finished }) => !finished);
}
