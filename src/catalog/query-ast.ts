import { nearest } from '../core/names.ts';
import { readSize } from '../core/quantities.ts';
import { searchError } from './errors.ts';
import { type Period, parseAge, readDate } from './query-dates.ts';

/** A node's position in the query: UTF-16 code units, half-open. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The searchable text fields of a message. `any` covers all of them. */
export type TextField =
  | 'any'
  | 'from'
  | 'to'
  | 'cc'
  | 'bcc'
  | 'deliveredto'
  | 'recip'
  | 'contact'
  | 'subject'
  | 'body'
  | 'filename';

type PeopleField = Exclude<TextField, 'any' | 'subject' | 'body' | 'filename'>;

export const STATES = [
  'unread',
  'read',
  'starred',
  'unstarred',
  'answered',
  'unanswered',
  'forwarded',
  'draft',
  'deleted',
] as const;
export type State = (typeof STATES)[number];

/** A word, or a phrase of consecutive words. With `prefix`, the last word is a prefix. */
export interface TextNode {
  readonly kind: 'text';
  readonly field: TextField;
  readonly text: string;
  readonly prefix: boolean;
  readonly span: Span;
}

/** A parsed query. Time ranges are half-open, in milliseconds since the epoch; sizes are inclusive, in raw bytes. */
export type SearchNode =
  | TextNode
  | { readonly kind: 'and' | 'or'; readonly nodes: readonly SearchNode[]; readonly span: Span }
  | { readonly kind: 'not'; readonly node: SearchNode; readonly span: Span }
  /** All within `distance` words of each other, in any order. */
  | {
      readonly kind: 'near';
      readonly terms: readonly TextNode[];
      readonly distance: number;
      readonly span: Span;
    }
  | { readonly kind: 'all'; readonly span: Span }
  | { readonly kind: 'has'; readonly what: 'attachment' | 'inline'; readonly span: Span }
  /** Any address belonging to one of the archive's own mailboxes. */
  | { readonly kind: 'me'; readonly field: PeopleField; readonly span: Span }
  | { readonly kind: NamedKind; readonly value: string; readonly span: Span }
  | { readonly kind: 'state'; readonly state: State; readonly span: Span }
  | {
      readonly kind: 'received';
      readonly from: number | null;
      readonly to: number | null;
      readonly span: Span;
    }
  /** By observation time: when it was first stored, or when it was deleted at the service without coming back. */
  | {
      readonly kind: 'observed';
      readonly what: 'added' | 'deleted';
      readonly from: number | null;
      readonly to: number | null;
      readonly span: Span;
    }
  | {
      readonly kind: 'size';
      readonly min: number | null;
      readonly max: number | null;
      readonly span: Span;
    };

type NamedKind = 'list' | 'mime' | 'id' | 'thread' | 'folder' | 'mailbox' | 'account' | 'flag';

export interface SearchQuery {
  readonly node: SearchNode;
  /** From `asof:`, in milliseconds since the epoch. */
  readonly asOf: number | null;
  /** Words without letters or digits, which are not indexed. */
  readonly ignored: readonly Span[];
}

export interface ParseContext {
  /** Base for relative dates, in milliseconds since the epoch. */
  readonly now: number;
  /** IANA name; defaults to this machine's zone. */
  readonly timeZone?: string | undefined;
}

export interface OperatorValue extends Span {
  readonly text: string;
  readonly prefix: boolean;
  readonly quoted: boolean;
}

/** Makes a node from one value. `span` covers the operator and the value. */
type Operator = (
  value: OperatorValue,
  span: Span,
  context: ParseContext,
  name: string,
) => SearchNode;

const text =
  (field: TextField): Operator =>
  (value, span) => ({ kind: 'text', field, text: value.text, prefix: value.prefix, span });

/** Only text may end with a star: `starred*` is not a state. */
const plain = (value: OperatorValue) => (value.prefix ? `${value.text}*` : value.text);

/** `from:me` means any of the archive's own addresses; `from:"me"` means the word. */
const people =
  (field: PeopleField): Operator =>
  (value, span, context, name) =>
    !value.quoted && plain(value).toLowerCase() === 'me'
      ? { kind: 'me', field, span }
      : text(field)(value, span, context, name);

const named =
  (kind: NamedKind): Operator =>
  (value, span) => ({ kind, value: plain(value), span });

/** Matches whole names only. */
const exact =
  (kind: NamedKind): Operator =>
  (value, span, ...rest) => {
    const found = plain(value);
    if (found.includes('*') && !(kind === 'mime' && /^[^*/]+\/\*$/.test(found)))
      throw searchError('search-bad-wildcard', { position: value.start, found, sign: '*' });
    return named(kind)(value, span, ...rest);
  };

/** A Map, because users can type keys that every object has, such as `constructor`. */
const HAS: ReadonlyMap<string, 'attachment' | 'inline'> = new Map([
  ['attachment', 'attachment'],
  ['attachments', 'attachment'],
  ['inline', 'inline'],
]);

const OTHER_STATES: Readonly<Record<string, State>> = {
  seen: 'read',
  unseen: 'unread',
  flagged: 'starred',
  unflagged: 'unstarred',
  replied: 'answered',
  unreplied: 'unanswered',
  ended: 'deleted',
};
const STATE: ReadonlyMap<string, State> = new Map([
  ...STATES.map((state) => [state, state] as const),
  ...Object.entries(OTHER_STATES),
]);

const has: Operator = (value, span, _context, name) => {
  const what = HAS.get(plain(value).toLowerCase());
  if (what === undefined) throw badValue(value, name, ['attachment', 'inline']);
  return { kind: 'has', what, span };
};

const is: Operator = (value, span, _context, name) => {
  const state = STATE.get(plain(value).toLowerCase());
  if (state === undefined) throw badValue(value, name, STATES);
  return { kind: 'state', state, span };
};

type Ask<R> = (value: OperatorValue, context: ParseContext, name: string) => R;

/** Half-open; null means no bound. */
interface Between {
  readonly from: number | null;
  readonly to: number | null;
}

const received =
  (between: Ask<Between>): Operator =>
  (value, span, context, name) => ({ kind: 'received', ...between(value, context, name), span });

const before = received((...args) => ({ from: null, to: period(...args).from }));
const after = received((...args) => ({ from: period(...args).from, to: null }));
const olderThan = received((...args) => ({ from: null, to: ago(...args) }));
const newerThan = received((...args) => ({ from: ago(...args), to: null }));
const on = received(period);
const dates: Ask<Between> = (value, context, name) => {
  const [low, high] = range(value);
  if (high === undefined) return period(value, context, name);
  const from = low.text === '' ? null : period(low, context, name).from;
  const to = high.text === '' ? null : period(high, context, name).to;
  if (from === null && to === null) throw badDate(value, name, 'unreadable');
  return { from, to };
};
const date = received(dates);

const observed =
  (what: 'added' | 'deleted'): Operator =>
  (value, span, context, name) => ({
    kind: 'observed',
    what,
    ...dates(value, context, name),
    span,
  });

/** Inclusive, in bytes; null means no bound. */
const sized =
  (between: Ask<{ readonly min: number | null; readonly max: number | null }>): Operator =>
  (value, span, context, name) => ({ kind: 'size', ...between(value, context, name), span });

const larger = sized((value, _, name) => ({ min: size(value, name) + 1, max: null }));
const smaller = sized((value, _, name) => ({ min: null, max: size(value, name) - 1 }));
const sizes = sized((value, _, name) => {
  const [low, high] = range(value);
  if (high === undefined) return { min: size(value, name), max: size(value, name) };
  const min = low.text === '' ? null : size(low, name);
  const max = high.text === '' ? null : size(high, name);
  if (min === null && max === null)
    throw searchError('search-bad-size', { ...at(value), operator: name });
  return { min, max };
});

/** The names of each operator in lower case, aliases last. `asof` and `spelling` apply to the whole query. */
const NAMED: readonly (readonly [names: string, operator: Operator])[] = [
  ['from', people('from')],
  ['to', people('to')],
  ['cc', people('cc')],
  ['bcc', people('bcc')],
  ['recip', people('recip')],
  ['contact', people('contact')],
  ['subject', text('subject')],
  ['body', text('body')],
  ['filename file attachment', text('filename')],
  ['mime mimetype', exact('mime')],
  ['has', has],
  ['deliveredto', people('deliveredto')],
  ['list', exact('list')],
  ['id msgid rfc822msgid', exact('id')],
  ['thread', exact('thread')],
  ['in folder', named('folder')],
  ['mailbox', named('mailbox')],
  ['account', named('account')],
  ['is', is],
  ['flag keyword', exact('flag')],
  ['before older', before],
  ['after newer', after],
  ['on', on],
  ['date', date],
  ['older_than', olderThan],
  ['newer_than', newerThan],
  ['added', observed('added')],
  ['deleted', observed('deleted')],
  ['larger', larger],
  ['smaller', smaller],
  ['size', sizes],
];

export const OPERATORS: ReadonlyMap<string, Operator> = new Map(
  NAMED.flatMap(([names, operator]) => names.split(' ').map((name) => [name, operator] as const)),
);

export const AS_OF = 'asof';

/** With `any`, words match every spelling of their umlauts. Applies to the whole query. */
export const SPELLING = 'spelling';

/** Operator names for help and suggestions, without aliases. */
export const OPERATOR_NAMES: readonly string[] = [
  ...NAMED.map(([names]) => names.split(' ')[0] ?? ''),
  ...[AS_OF, SPELLING],
];

/** Operators from other programs, with the closest equivalent here. */
const FOREIGN: ReadonlyMap<string, string | null> = new Map([
  ['category', null],
  ['cat', null],
  ['label', 'in'],
  ['tag', 'flag'],
  ['maildir', 'in'],
  ['path', 'in'],
  ['lang', null],
  ['prio', null],
  ['sent', 'date'],
  ['list-id', 'list'],
  ['message-id', 'id'],
  ['reply-to', 'from'],
]);

/** Returns the error for an unknown operator, whether it is a typo or comes from another program. */
export function unknownOperator(name: string, position: number) {
  const lower = name.toLowerCase();
  const instead = FOREIGN.get(lower);
  if (instead !== undefined)
    return searchError('search-foreign-operator', { position, found: `${name}:`, instead });
  return searchError('search-unknown-operator', {
    position,
    found: `${name}:`,
    suggestion: nearest(lower, OPERATOR_NAMES),
  });
}

/** Checks the value of `spelling:`. @throws search-bad-value */
export function checkSpelling(value: OperatorValue): void {
  if (plain(value).toLowerCase() !== 'any') throw badValue(value, SPELLING, ['any']);
}

/** Returns the time that `asof:` refers to: the end of a period of a day or longer, otherwise the time itself. */
export function resolveAsOf(value: OperatorValue, context: ParseContext, name: string): number {
  const { to } = period(value, context, name);
  // The last included millisecond.
  return to - 1;
}

function period(value: OperatorValue, context: ParseContext, operator: string): Period {
  const parsed = readDate(plain(value), context);
  if ('period' in parsed) return parsed.period;
  throw badDate(value, operator, parsed.problem);
}

function ago(value: OperatorValue, context: ParseContext, operator: string): number {
  const moment = parseAge(plain(value), context);
  if (moment === undefined) throw badDate(value, operator, 'unreadable');
  return moment;
}

function size(value: OperatorValue, operator: string): number {
  const bytes = readSize(plain(value));
  if (bytes === undefined) throw searchError('search-bad-size', { ...at(value), operator });
  return bytes;
}

/** Returns both ends of `A..B`, or just the value. */
function range(value: OperatorValue): [OperatorValue, OperatorValue?] {
  const dots = value.text.indexOf('..');
  if (dots < 0) return [value];
  const shift = value.quoted ? 1 : 0;
  const low = { ...value, text: value.text.slice(0, dots), end: value.start + shift + dots };
  const start = value.start + shift + dots + 2;
  return [low, { ...value, text: value.text.slice(dots + 2), start }];
}

function at(value: OperatorValue) {
  return { position: value.start, found: plain(value) };
}

function badDate(value: OperatorValue, operator: string, problem: 'ambiguous' | 'unreadable') {
  return searchError(problem === 'ambiguous' ? 'search-ambiguous-date' : 'search-bad-date', {
    ...at(value),
    operator,
  });
}

function badValue(value: OperatorValue, operator: string, expected: readonly string[]) {
  const suggestion = nearest(plain(value), expected);
  return searchError('search-bad-value', { ...at(value), operator, expected, suggestion });
}
