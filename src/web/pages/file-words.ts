import type { FileGroup } from '../../catalog/files/group-names.ts';
import { plainLine } from '../../mail/terminal-safe.ts';
import { monthName, shortMonth } from '../../wording/dates.ts';
import type { NoText } from '../reading/content-text.ts';

/** What the groups of attachments are called, in the order of their filters. */
export const GROUP_NAMES: Readonly<Record<FileGroup, string>> = {
  pdf: 'PDF',
  pictures: 'Pictures',
  documents: 'Documents',
  tables: 'Tables',
  archives: 'Archives',
  other: 'Other',
};

/** Why an attachment has no text on its tile. */
export const NO_TEXT: Readonly<Record<NoText, string>> = {
  picture: 'picture without a preview',
  archive: 'archive, not opened',
  other: 'a kind without text',
  pending: 'not read yet',
  scan: 'scan without text',
  empty: 'without text',
  later: 'its text is shown on opening',
  unreadable: 'could not be read',
  encrypted: 'encrypted',
  malformed: 'its format could not be read',
  'too-large': 'too large to be read',
  unsupported: 'a kind that is not read',
  damaged: 'damaged in the archive',
};

/** Types whose second half is what their files are called. */
const CALLED_SO = /\/(pdf|zip|jpeg|png|gif|webp|bmp|csv|html)$/;

/** Returns a few letters for the kind of an attachment; empty where neither its type nor its name says it. */
export function typeLabel(type: string, filename: string | null): string {
  if (type === 'message/rfc822') return 'EML';
  if (type === 'text/calendar') return 'ICS';
  return CALLED_SO.exec(type)?.[1]?.toUpperCase() ?? extension(filename);
}

/** Returns a file name as its letters are: see `plainLine`. */
export function shownName(filename: string | null): string {
  return plainLine(filename ?? '') || '(no name)';
}

/** Returns the ending of a file name in capitals; empty where it has none that is short and plain. */
export function extension(filename: string | null): string {
  const end =
    plainLine(filename ?? '')
      .split('.')
      .at(-1) ?? '';
  return /^[A-Za-z0-9]{1,5}$/.test(end) && end !== filename ? end.toUpperCase() : '';
}

/** Returns what a month is called, such as `November 2026` for `2026-11`. */
export function monthText(key: string): string {
  return `${monthName(monthOf(key))} ${key.slice(0, 4)}`;
}

/** Returns how a month stands among months: `Nov`, and the first of a year as `’26`. */
export function monthLabel(key: string, isFirstOfYear: boolean): string {
  return isFirstOfYear ? `’${key.slice(2, 4)}` : shortMonth(monthOf(key));
}

function monthOf(key: string): number {
  return Number(key.slice(5));
}
