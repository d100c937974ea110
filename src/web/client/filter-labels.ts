import { clockText, dayText, shortMonth } from '../../wording/dates.ts';
import type { Term } from '../reading/query-terms.ts';

/** Maps, since what is looked up was typed: `constructor` is a property of each object. */
const NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    in: 'In',
    mailbox: 'In',
    from: 'From',
    to: 'To',
    cc: 'Cc',
    bcc: 'Bcc',
    subject: 'Subject',
    filename: 'File',
    after: 'Since',
    newer_than: 'Since',
    before: 'Before',
    older_than: 'Older than',
    on: 'On',
    date: 'On',
    added: 'Stored',
    deleted: 'Deleted',
    larger: 'Larger than',
    smaller: 'Smaller than',
    list: 'List',
    asof: 'As of',
  }),
);

const STATES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'is:unread': 'Unread',
    'is:read': 'Read',
    'is:starred': 'Starred',
    'is:unstarred': 'Not starred',
    'is:answered': 'Answered',
    'is:unanswered': 'Not answered',
    'is:forwarded': 'Forwarded',
    'is:draft': 'Draft',
    'has:attachment': 'Has attachment',
    'has:inline': 'Has inline pictures',
  }),
);

/** Returns what a chip says of a term, with dates as the rows have them; else the term as it was typed. */
export function labelOf({ operator, value, negated, text }: Term): string {
  if (operator === null || value === null || value === '') return text;
  const state = STATES.get(`${operator}:${value.toLowerCase()}`);
  if (state !== undefined) return negated ? `Not: ${state}` : state;
  const name = NAMES.get(operator);
  if (name === undefined) return text;
  const label = `${name} ${shown(operator, value)}`;
  return negated ? `Not ${label.charAt(0).toLowerCase()}${label.slice(1)}` : label;
}

function shown(operator: string, value: string): string {
  if (operator === 'in') return value.replace(/^INBOX[./](?=.)/, '');
  return (
    dateText(value) ?? momentText(value) ?? rangeText(value) ?? value.replace(/^<(.*)>$/, '$1')
  );
}

/** Returns a moment in the zone of the browser, as `asof:` has it; undefined for anything else. */
function momentText(value: string): string | undefined {
  if (!/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d/.test(value)) return undefined;
  const moment = Date.parse(value);
  return Number.isNaN(moment) ? undefined : dayText(moment) + clockText(moment);
}

/** Returns `A – B` of a range, and how many days back one begins that has no end; undefined for anything else. */
function rangeText(value: string): string | undefined {
  const dots = value.indexOf('..');
  if (dots < 0) return undefined;
  const [from, to] = [value.slice(0, dots), value.slice(dots + 2)];
  const named = (text: string): string => dateText(text) ?? momentText(text) ?? text;
  const [, days] = /^(\d{1,4})d$/.exec(from) ?? [];
  if (to === '') return days === undefined ? `since ${named(from)}` : `in the last ${days} days`;
  return from === '' ? `until ${named(to)}` : `${named(from)} – ${named(to)}`;
}

/** Returns a day or a month as people write it; undefined for anything else. */
function dateText(value: string): string | undefined {
  const [, year, month, day] = /^(\d{4})-(\d{1,2})(?:-(\d{1,2}))?$/.exec(value) ?? [];
  const named = shortMonth(Number(month));
  if (named === '') return undefined;
  return `${day === undefined ? '' : `${Number(day)} `}${named} ${year}`;
}
