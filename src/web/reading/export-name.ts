import { cutName } from '../../mail/file-names.ts';
import { wallTime } from '../../search/dates.ts';
import { two } from '../../wording/dates.ts';

/** Bytes of a query or a subject in a name. What follows them is never cut off. */
const MOST_BYTES = 120;

/**
 * Returns what a file of exported messages is called, such as `mailkeep from ada 2026-11-25 commit 12.zip`: what was asked
 * for, the day of the export in the zone of this machine, and the commit that it shows. It is to be made safe.
 *
 * @param now milliseconds since the epoch
 */
export function exportName(
  query: string,
  {
    now,
    commit,
    format,
  }: { readonly now: number; readonly commit: number; readonly format: string },
): string {
  const isAll = ['', '*'].includes(query.trim());
  const what = isAll ? 'all mail' : readable(query) || 'search';
  return `mailkeep ${what} ${dayOf(now)} commit ${commit}.${format}`;
}

/** Returns what a zip of the attachments that a query finds is called, without its ending. It is to be made safe. */
export function attachmentsName(query: string, now: number): string {
  return ['mailkeep attachments', readable(query), dayOf(now)].filter(Boolean).join(' ');
}

/**
 * Returns what the file of one message is called: its subject, and the day of its date in UTC, as in exported folders: it is
 * the same on every machine. It is to be made safe.
 *
 * @param date in ISO 8601; null for a message without a date
 */
export function messageName(subject: string | null, date: string | null): string {
  const day = date === null ? '' : ` ${date.slice(0, date.indexOf('T'))}`;
  return `${readable(subject ?? '') || 'no subject'}${day}.eml`;
}

/** A text as words of a name. Without this, what stands before a slash would be taken for folders. */
function readable(text: string): string {
  // Composed first: what is made safe later must not grow past the cut.
  const words = text
    .normalize('NFC')
    .replace(/(\d):(?=\d)/g, '$1.')
    .replace(/["“”„]/gu, '')
    .split(/[\s:/\\]+/)
    .filter((word) => word !== '')
    .join(' ');
  return cutName(words, MOST_BYTES);
}

function dayOf(ms: number): string {
  const { year, month, day } = wallTime(ms);
  return `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`;
}
