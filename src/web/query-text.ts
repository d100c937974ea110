import type { Span } from '../catalog/query-ast.ts';
import { type Token, tokenize } from '../catalog/query-lexer.ts';

export interface Term extends Span {
  readonly text: string;
  readonly negated: boolean;
  /** The operator before the value, in lower case and without aliases; null for text. */
  readonly operator: string | null;
  /** The value without its quotation marks; null for brackets and for terms joined by NEAR. */
  readonly value: string | null;
}

/** Splits a query into terms. Reads an invalid query as far as it can. */
export function termsOf(query: string) {
  const { tokens, cut } = tokenize(query);
  const terms: Term[] = [];
  let [at, isEither, isBalanced] = [0, false, true];
  const typeAt = () => tokens[at]?.type;
  const skipPrimary = (): void => {
    const token = tokens[at];
    if (token === undefined) return;
    at += 1;
    if (token.type === 'operator' && token.valued) skipPrimary();
    if (token.type !== '(' && token.type !== '{') return;
    let depth = 1;
    for (; depth > 0 && at < tokens.length; at += 1) depth += DEPTHS[typeAt() ?? ''] ?? 0;
    if (depth > 0) isBalanced = false;
  };
  for (let token = tokens[at]; token !== undefined; token = tokens[at]) {
    if (isOr(token)) isEither = true;
    // After an unmatched closing bracket, text may not be a separate term.
    const isClosing = token.type === ')' || token.type === '}';
    if (isClosing) isBalanced = false;
    if (isClosing || isOr(token) || token.type === 'AND') {
      at += 1;
      continue;
    }
    let negated = false;
    for (; typeAt() === '-' || typeAt() === 'NOT'; at += 1) negated = !negated;
    const first = at;
    skipPrimary();
    const isJoined = typeAt() === 'near';
    while (typeAt() === 'near') {
      at += 1;
      skipPrimary();
    }
    const { start } = token;
    const { end } = tokens[at - 1] ?? { end: start };
    const { operator, value } = operatorAndValue(tokens, first);
    const text = query.slice(start, end);
    terms.push({ start, end, text, negated, operator, value: isJoined ? null : value });
  }
  const last = tokens.at(-1);
  const isDangling =
    isOr(last) || last?.type === 'AND' || last?.type === 'NOT' || last?.type === 'near';
  return {
    terms,
    /** True if the query has an OR at its top level, so that no term can be changed on its own. */
    isEither,
    /** True if nothing is left open at the end of the query, so that appended text is a separate term. */
    isComplete: cut === query.length && isBalanced && !isDangling,
  };
}

const DEPTHS: Readonly<Record<string, number>> = { '(': 1, '{': 1, ')': -1, '}': -1 };

function operatorAndValue(tokens: readonly Token[], first: number) {
  const token = tokens[first];
  const name = token?.type === 'operator' ? token.name.toLowerCase() : null;
  const operator = name && (ALIASES.get(name) ?? name);
  const valueToken = operator === null ? token : tokens[first + 1];
  const isPlain = valueToken?.type === 'word' || valueToken?.type === 'phrase';
  return { operator, value: isPlain ? valueToken.text + (valueToken.prefix ? '*' : '') : null };
}

function isOr(token: Token | undefined): boolean {
  return token?.type === 'OR' || token?.type === '|';
}

const ALIASES = new Map([
  ['folder', 'in'],
  ['newer', 'after'],
  ['older', 'before'],
  ['file', 'filename'],
  ['attachment', 'filename'],
  ['mimetype', 'mime'],
  ['keyword', 'flag'],
]);

const VALUES = new Map([
  ['has:attachments', 'attachment'],
  ['is:seen', 'read'],
  ['is:unseen', 'unread'],
  ['is:flagged', 'starred'],
  ['is:unflagged', 'unstarred'],
  ['is:replied', 'answered'],
  ['is:unreplied', 'unanswered'],
  ['is:ended', 'deleted'],
]);

function isSame(a: Term, b: Term): boolean {
  if (a.negated !== b.negated || a.operator !== b.operator) return false;
  return a.value === null || b.value === null
    ? a.text === b.text
    : canonicalValue(a) === canonicalValue(b);
}

function canonicalValue({ operator, value }: Term): string {
  if (operator !== 'has' && operator !== 'is') return value ?? '';
  const lower = (value ?? '').toLowerCase();
  return VALUES.get(`${operator}:${lower}`) ?? lower;
}

export function findTerm(query: string, text: string): Term | undefined {
  const { terms, isEither } = termsOf(query);
  const [wanted] = termsOf(text).terms;
  if (isEither || wanted === undefined) return undefined;
  return terms.find((term) => isSame(term, wanted));
}

export function addTerm(query: string, text: string): string {
  if (query.trim() === '') return text;
  const { isEither, isComplete } = termsOf(query);
  // After an open bracket, it would be inside the brackets.
  if (!isComplete) return `${text} ${query}`;
  if (isEither) return `(${query}) ${text}`;
  return `${query}${/\s$/.test(query) ? '' : ' '}${text}`;
}

export function removeTerm(query: string, { start, end }: Span): string {
  const { tokens } = tokenize(query);
  const before = tokens.findLast((token) => token.end <= start);
  const following = tokens.find((token) => token.start >= end);
  const joins = before?.type === 'AND' ? before : following?.type === 'AND' ? following : undefined;
  const left = query.slice(0, Math.min(start, joins?.start ?? start));
  const right = query.slice(Math.max(end, joins?.end ?? end));
  if (left.trim() === '') return right.replace(/^\s/, '');
  if (right === '') return left.replace(/\s$/, '');
  if (/^\s/.test(right)) return left + (/\s$/.test(left) ? right.slice(1) : right);
  // Only the removed term separated a word from a quoted phrase.
  return left + (/\s$/.test(left) ? '' : ' ') + right;
}

export function replaceTerm(query: string, { start, end }: Span, text: string): string {
  const right = query.slice(end);
  return query.slice(0, start) + text + (/^[^\s)}]/.test(right) ? ' ' : '') + right;
}

export function filterText(operator: string, value: string): string {
  const isPlain = /^[\p{L}\p{N}@._+/-]+$/u.test(value);
  return `${operator}:${isPlain ? value : `"${value.replaceAll('"', '""')}"`}`;
}

/** Adds a term, or removes it if present. Leaves the rest as typed. */
export function toggleTerm(query: string, text: string): string {
  const term = findTerm(query, text);
  return term === undefined ? addTerm(query, text) : removeTerm(query, term);
}

/** Returns the `asof:…` term of a query as typed, or an empty string. */
export function asOfTermText(query: string): string {
  return termsOf(query).terms.find(({ operator }) => operator === 'asof')?.text ?? '';
}

/** Changes a query's moment, and leaves the rest as typed. @param moment milliseconds since the epoch; null for now */
export function withAsOf(query: string, moment: number | null): string {
  const current = asOfTermText(query);
  const rest = current === '' ? query : toggleTerm(query, current);
  if (moment === null) return rest;
  // Whole seconds in UTC, because queries cannot express fractions of a second, and their zone may not be the reader's.
  const word = `asof:${new Date(moment).toISOString().replace(/\.\d+Z$/, 'Z')}`;
  return addTerm(rest, word);
}

/** Returns the moment that a time denotes in a query: the end of its second. */
export function wholeSecond(time: number): number {
  return Math.floor(time / 1000) * 1000 + 999;
}

export function pageAddress(
  path: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value]],
  );
  const search = new URLSearchParams(pairs).toString();
  return search === '' ? path : `${path}?${search}`;
}
