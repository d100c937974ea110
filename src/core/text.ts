import type { FolderTotals, ListedTotals } from './types.ts';
/** Returns `1,234,567`. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Returns `1 message` or `12 messages`. The caller passes irregular plurals. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${Math.round(value) === 1 ? noun : plural}`;
}

/** Returns a saved search as queries refer to it: `@trip`, or `@"my trip"`. */
export function savedTerm(name: string): string {
  return name.includes(' ') ? `@"${name}"` : `@${name}`;
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Returns a size in decimal units, as disks are sold: `999 B`, `12.3 MB`, `1.2 GB`. */
export function bytes(value: number): string {
  let [amount, unit] = [value, 0];
  while (amount >= 999.5 && unit < BYTE_UNITS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  return `${unit === 0 || amount >= 99.95 ? Math.round(amount) : amount.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** Returns a duration in its two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 10 min`, `4 d 2 h`. */
export function span(ms: number): string {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 3_570) return pair(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  if (minutes < 24 * 60) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** Returns a time in the local time zone, such as `2026-03-01 09:41`. */
export function localTime(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}${clockText(ms)}`;
}

// Not formatted by `Intl`, whose first use would add 40 ms to a new page, a tenth of its startup. The month is spelt
// out, so that it cannot be confused with the day.
const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );

/** @param month counts from 1 */
export function monthName(month: number): string {
  return MONTHS[month - 1] ?? '';
}

/** @param month counts from 1 */
export function shortMonth(month: number): string {
  return monthName(month).slice(0, 3);
}

/** Returns a weekday such as `Fri`, in the local time zone. */
export function weekdayText(ms: number): string {
  // Always English (ECMA-262, Date.prototype.toDateString).
  return new Date(ms).toDateString().slice(0, 3);
}

/** Returns a day such as `20 Nov 2026`, in the local time zone. */
export function dayText(ms: number): string {
  const date = new Date(ms);
  return `${date.getDate()} ${shortMonth(date.getMonth() + 1)} ${date.getFullYear()}`;
}

/** Returns a time of day such as ` 14:05`, in the local time zone. */
export function clockText(ms: number): string {
  const date = new Date(ms);
  return ` ${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;
}

export function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

const TERMS = [
  ['stored', 'stored'],
  ['assumed', 'not yet verified'],
  ['quarantined', 'incomplete'],
  ['forgotten', 'forgotten'],
] as const;

/**
 * Returns the equation that every interface shows: at the service = stored + not yet verified + incomplete + forgotten.
 * Pending deletions are separate, because the service does not count them.
 * @param listed the service's count; defaults to the sum of the terms
 */
export function consistencyEquation(sums: FolderTotals, listed?: number | ListedTotals) {
  const total = TERMS.reduce((sum, [kind]) => sum + sums[kind], 0);
  const atService = (typeof listed === 'object' ? listed.messages : listed) ?? total;
  const unread = typeof listed === 'object' ? unreadText(listed) : '';
  return {
    atService,
    /** What sync runs have not read to the end. Only if it is empty is there an equation to show. */
    unread,
    terms: TERMS.filter(([kind]) => kind === 'stored' || sums[kind] > 0).map(([kind, text]) => ({
      kind,
      count: sums[kind],
      text,
    })),
    isEqual: unread === '' && atService === total,
    /** Messages in the archive that the service no longer lists. */
    pending: sums.held,
  };
}

/** Returns `814 stored + 1 incomplete`. */
export function termsText(sums: FolderTotals): string {
  const { terms } = consistencyEquation(sums);
  return terms.map((term) => `${count(term.count)} ${term.text}`).join(' + ');
}

/** Returns `12 of 40 folders have not been read to the end`; empty if all have. */
function unreadText({ folders, unfinished, unreadMailboxes }: ListedTotals): string {
  const have = (number: number): string => (number === 1 ? 'has' : 'have');
  const parts = [
    ...(unfinished > 0
      ? [
          folders === 1
            ? 'the folder has not been read to the end'
            : `${count(unfinished)} of ${count(folders)} folders ${have(unfinished)} not been read to the end`,
        ]
      : []),
    ...(unreadMailboxes > 0
      ? [
          `${counted(unreadMailboxes, 'mailbox', 'mailboxes')} ${have(unreadMailboxes)} not been read at all`,
        ]
      : []),
  ];
  return parts.join('; ');
}

/**
 * Returns `815 messages at the service = 814 stored + 1 incomplete; 110 pending deletions`. While folders are unread,
 * returns `523 stored of 10,000 messages listed at the service; 12 of 40 folders have not been read to the end`.
 */
export function consistencyText(sums: FolderTotals, listed?: number | ListedTotals): string {
  const { atService: total, isEqual, pending, unread } = consistencyEquation(sums, listed);
  const parts = termsText(sums);
  const suffix = pending > 0 ? `; ${pendingText(pending)}` : '';
  if (unread !== '')
    return `${parts} of ${counted(total, 'message')} listed at the service; ${unread}${suffix}`;
  return `${counted(total, 'message')} at the service ${isEqual ? '=' : '≠'} ${parts}${suffix}`;
}

export function pendingText(pending: number): string {
  return counted(pending, 'pending deletion');
}

/** Unverified messages that the daemon fetches and compares per account and hour. */
export const VERIFIED_PER_HOUR = 20;

/** Says how messages that were matched without a download are verified. @param command the command line that does it */
export function unverifiedText(messages: number, command: string): string {
  const them = messages === 1 ? 'it' : 'them';
  return `${count(messages)} not yet verified, because a message was moved or copied: "${command}" fetches ${them} and compares ${them} now, the daemon ${VERIFIED_PER_HOUR} an hour`;
}

export function notSearchableText(pending: number): string {
  const are = pending === 1 ? 'is' : 'are';
  const them = pending === 1 ? 'it' : 'them';
  return `${counted(pending, 'message')} ${are} not searchable yet; the next sync will index ${them}`;
}

/** Why a message was deleted, keyed by the stored reason. */
const ENDED: Readonly<Record<string, string>> = {
  missing: 'no longer at the service',
  moved: 'moved to another folder',
  replaced: 'another message has its uid now',
  renumbered: 'the service renumbered the folder',
  'folder-gone': 'its folder is no longer at the service',
  forgotten: 'forgotten',
  merged: 'stored by a node that was lost, and recovered from its disk',
};

/** Describes an event in a message's history. Shows unknown events as stored. */
export function eventText(
  event: string,
  detail: Readonly<Record<string, unknown>> | undefined,
): readonly string[] {
  if (detail === undefined) return [];
  if (event === 'held')
    return [detail.held === true ? 'pending deletion' : 'no longer a pending deletion'];
  if (event === 'ended' && typeof detail.reason === 'string') {
    return [ENDED[detail.reason] ?? detail.reason];
  }
  return [JSON.stringify(detail)];
}

export const PRUNE_REASONS = {
  ended: 'deleted longer ago than retention.endedAfterDays',
  draft: 'versions of drafts, deleted longer ago than retention.draftsAfterDays',
  rule: 'deleted longer ago than a rule of retention.rules says',
} as const;

export const KEEP_REASONS = {
  hold: 'on hold',
  'no-rule': 'no rule allows it',
  'too-recent': 'deleted too recently',
  unreachable: 'in a mailbox that, as far as known, no account lists',
  'not-confirmed': 'no complete comparison of the folder a week later confirmed the deletion',
  'folder-reused': 'another folder had the same name',
  'keep-at-least': 'among the newest of their folder (retention.keepAtLeast)',
} as const;
