import type { Forecast } from '../../sync/plan/forecast.ts';
import { bytes, count, counted, localTime, span } from '../../wording/amounts.ts';
import { present } from '../output.ts';
import { shownName } from '../place-line.ts';
import { type MailboxTally, sumOf, type Tally, timeLeft, type Waiting } from './tally.ts';

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

/** The time that the requests of a first sync take. */
export function timeText({ requests, requestsPerMinute, hours }: Forecast): string {
  return `That is ${counted(requests, 'request')}: about ${span(hours * 3_600_000)} at ${count(requestsPerMinute)} a minute.`;
}

/** Whether a first sync takes so long that people want to know how to be faster. */
export function isLong({ hours }: Forecast): boolean {
  return hours * 3_600_000 > LONG_MS;
}

/** `1,200 of 3,400 messages, 12.3 MB, 210/s, 10 s left`. */
export function storedText(
  { messages, ahead, bytes: stored }: Pick<MailboxTally, 'messages' | 'ahead' | 'bytes'>,
  elapsedMs: number,
): string {
  const left = messages < ahead ? timeLeft(messages, ahead, elapsedMs) : null;
  return present([
    `${count(messages)} of ${counted(ahead, 'message')}`,
    bytes(stored),
    elapsedMs > 0 && `${count((messages / elapsedMs) * 1000)}/s`,
    left !== null && `${span(left)} left`,
  ]).join(', ');
}

/** `1,300 requests, 58 a minute (budget 60)`; the budget is that of one account. */
export function requestsText(requests: number, elapsedMs: number, perMinute: number): string {
  const rate = elapsedMs < 1_000 ? requests : (requests / elapsedMs) * 60_000;
  return `${counted(requests, 'request')}, ${count(rate)} a minute (budget ${count(perMinute)})`;
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
export function summaryLine(tally: Tally, now: number, perMinute: number): string {
  const elapsed = now - tally.startedAt;
  const sum = sumOf(tally);
  const { waiting } = tally;
  const open = [...tally.mailboxes.values()].filter(({ finished }) => !finished);
  const names = open.slice(0, 2).map(({ address }) => shownName(address));
  return present([
    storedText(sum, elapsed),
    requestsText(sum.requests, elapsed, perMinute),
    names.length > 0 && names.join(' and '),
    waiting !== null && waiting.until > now && waitingText(waiting, now),
  ]).join('; ');
}
