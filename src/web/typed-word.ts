import type { ParseContext, SearchNode } from '../catalog/query-ast.ts';
import { type Token, tokenize } from '../catalog/query-lexer.ts';

export const MAX_ROWS = 8;

export interface CompletionRow {
  readonly insert: string;
  readonly from: number;
  readonly to: number;
  /** Can contain names and addresses written by others, so it is shown only as text. */
  readonly label: string;
  readonly detail: string;
  /** Messages that the term alone finds; null if the number is not immediately known. */
  readonly count: number | null;
  readonly kind:
    | 'operator'
    | 'person'
    | 'folder'
    | 'mailbox'
    | 'account'
    | 'value'
    | 'type'
    | 'date'
    | 'search';
}

export interface CompletionRequest {
  readonly query: string;
  readonly caret: number;
  readonly context: ParseContext;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  readonly knownCount: (query: string) => number | null;
}

export type SuggestedRow = Omit<CompletionRow, 'from' | 'to'>;

const OPERATOR_DETAILS: Readonly<Record<string, string>> = {
  from: 'sender',
  to: 'recipient in To',
  in: 'folder',
  subject: 'words of the subject',
  has: 'attachment or inline',
  is: 'unread, starred, deleted, …',
  date: 'a day, month or year',
  before: 'received before a date',
  after: 'received from a date on',
  asof: 'the archive as it was at a time',
  filename: 'name of an attachment',
  larger: 'larger than a size, such as 5M',
  smaller: 'smaller than a size',
  mailbox: 'a mailbox',
  contact: 'sender or recipient',
  recip: 'recipient in To, Cc or Bcc',
  cc: 'recipient in Cc',
  bcc: 'recipient in Bcc',
  deliveredto: 'address that it was delivered to',
  body: 'words of the text',
  mime: 'type of an attachment',
  list: 'mailing list',
  on: 'received on a day',
  older_than: 'received longer ago, such as 1y',
  newer_than: 'received since, such as 7d',
  added: 'stored here first on a day or in A..B',
  deleted: 'deleted at the service on a day or in A..B',
  size: 'a size, or a range of sizes',
  flag: 'a flag or keyword',
  thread: 'a conversation, by an id of it',
  id: 'an id or Message-ID',
  account: 'an account of the configuration',
};

const OPERATOR_LETTERS = 2;

export function operatorRows(typed: string): SuggestedRow[] {
  if (typed.length < OPERATOR_LETTERS) return [];
  const prefix = typed.toLowerCase();
  return Object.entries(OPERATOR_DETAILS)
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, detail]) => ({
      ...{ insert: `${name}:`, label: `${name}:`, detail },
      ...{ count: null, kind: 'operator' },
    }));
}

/** The word being typed in a query. Positions are UTF-16 code units. */
export interface TypedWord {
  /** `from` of `from:anna`, in lower case; null if there is no operator. */
  readonly operator: string | null;
  readonly typed: string;
  readonly from: number;
  readonly to: number;
  readonly excluded: boolean;
}

const BREAK = /[\s(){}]/u;
const OPENING = /["“„”]/u;
const CLOSING: Readonly<Record<string, RegExp>> = { '"': /"/u, '“': /["”]/u, '„': /["“”]/u };
const OPERATOR = /^([A-Za-z][A-Za-z_]*):/;

export function typedWord(query: string, caret: number): TypedWord {
  const at = Math.max(0, Math.min(query.length, caret));
  let start = 0;
  let quote: string | null = null;
  let value = 0;
  for (let i = 0; i < at; i += 1) {
    const character = query[i] ?? '';
    if (quote !== null) {
      if ((CLOSING[quote] ?? CLOSING['“'])?.test(character)) quote = null;
    } else if (OPENING.test(character)) {
      quote = character;
      value = i + 1;
    } else if (BREAK.test(character)) start = i + 1;
  }
  const minus = query[start] === '-' && start < at ? 1 : 0;
  const excluded =
    minus === 1 || /(?:^|[\s({])NOT\s$/.test(query.slice(Math.max(0, start - 8), start));
  start += minus;
  const [shown = '', name] = OPERATOR.exec(query.slice(start, at)) ?? [];
  const from = start + shown.length;
  const end = endOf(query, at, quote);
  if (name !== undefined) {
    const typed = query.slice(quote !== null && value > from ? value : from, at);
    return { operator: name.toLowerCase(), typed, from, to: end, excluded };
  }
  // An operator that is typed before an existing colon keeps its value.
  const rest = /^[A-Za-z_]*:?/.exec(query.slice(at))?.[0] ?? '';
  const to = rest.endsWith(':') && quote === null ? at + rest.length : end;
  return { operator: null, typed: query.slice(start, at), from, to, excluded };
}

function endOf(query: string, at: number, quote: string | null): number {
  let end = at;
  if (quote !== null) {
    const closing = CLOSING[quote] ?? /["”]/u;
    const found = query.slice(at).search(closing);
    if (found >= 0) return at + found + 1;
  }
  while (end < query.length && !BREAK.test(query[end] ?? '')) end += 1;
  return end;
}

/** Operators whose values are words. */
const OF_WORDS =
  /^(?:from|to|cc|bcc|recip|contact|deliveredto|subject|body|filename|file|attachment)$/i;
/** Enough letters that few words start with them, so that the index answers before the next key. */
const TYPED = /[\p{L}\p{N}\p{M}]{3}$/u;

/**
 * Returns the query to search for while it is typed: the word at the caret gets a star. Quoted words, excluded ones, and
 * values that are not text stay as they are.
 */
export function liveQuery(query: string, caret: number): string {
  const { tokens } = tokenize(query);
  const at = tokens.findIndex(({ start, end }) => start < caret && caret <= end);
  const word = tokens[at];
  if (word?.type !== 'word' || word.prefix || !TYPED.test(word.text)) return query;
  const before = tokens[at - 1];
  const operator = before?.type === 'operator' && before.end === word.start ? before.name : null;
  if (operator === null ? word.text.startsWith('@') : !OF_WORDS.test(operator)) return query;
  if (isExcluded(tokens.slice(0, at))) return query;
  return `${query.slice(0, word.end)}*${query.slice(word.end)}`;
}

/** Reports whether a minus or NOT applies to what follows these tokens, or to a bracket that they leave open. */
function isExcluded(tokens: readonly Token[]): boolean {
  const open: boolean[] = [];
  let isNext = false;
  for (const { type } of tokens) {
    if (type === '-' || type === 'NOT') isNext = true;
    else if (type === '(' || type === '{') {
      open.push(isNext);
      isNext = false;
    } else if (type !== 'operator') {
      if (type === ')' || type === '}') open.pop();
      isNext = false;
    }
  }
  return isNext || open.includes(true);
}
