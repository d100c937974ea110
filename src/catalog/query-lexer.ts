import type { Span } from './query-ast.ts';

export type Token = Span &
  (
    | { readonly type: '(' | ')' | '{' | '}' | '-' | 'AND' | 'OR' | 'NOT' | '|' }
    | { readonly type: 'near'; readonly distance: number }
    /** `word:` directly before its value, which is a separate token. */
    | { readonly type: 'operator'; readonly name: string; readonly valued: boolean }
    | { readonly type: 'word' | 'phrase'; readonly text: string; readonly prefix: boolean }
  );

/** In UTF-16 code units. */
export const QUERY_LIMIT = 4_000;
const NEAR_DEFAULT = 10;
const NEAR_MOST = 1_000;

const SPACE = /\s/u;
const BREAK = /[\s(){}"“”„]/u;
/** A quotation mark before the last letter of a Hebrew word is a gershayim, which belongs to the word. */
const GERSHAYIM = /(?<=[\u05d0-\u05ea])["\u201c-\u201f](?=[\u05d0-\u05ea](?![\u05d0-\u05ea]))/uy;
const QUOTES: Readonly<Record<string, string>> = { '"': '"', '“': '”', '„': '“' };

/**
 * Splits a query into tokens. Stops at an unclosed quotation mark, whose position is `cut`. Otherwise, `cut` is the
 * query's length.
 */
export function tokenize(query: string): {
  readonly tokens: readonly Token[];
  readonly cut: number;
} {
  const tokens: Token[] = [];
  let at = 0;
  /** True if the value of the preceding operator must start here. */
  let value = false;
  while (at < query.length) {
    const character = query[at] ?? '';
    if (SPACE.test(character)) {
      at += 1;
      value = false;
      continue;
    }
    const token = next(query, at, character, value);
    if (token === null) break;
    tokens.push(token);
    at = token.end;
    value = token.type === 'operator';
  }
  return { tokens, cut: at };
}

function next(query: string, start: number, character: string, value: boolean): Token | null {
  if (character === '(' || character === ')' || character === '{' || character === '}')
    return { type: character, start, end: start + 1 };
  if (character in QUOTES || character === '”') return phrase(query, start, value);
  if (character === '-' && !value && beginsSomething(query, start + 1))
    return { type: '-', start, end: start + 1 };
  let end = start;
  while (end < query.length && (!BREAK.test(query[end] ?? '') || isGershayim(query, end))) end += 1;
  return word(query, start, end, value);
}

/** A minus excludes the text directly after it. Alone, or before another minus, it is an ordinary word. */
function beginsSomething(query: string, at: number): boolean {
  const following = query[at];
  return following !== undefined && !SPACE.test(following) && !/[-)}]/.test(following);
}

/** In the value of an operator, `""` is a quotation mark. */
function phrase(query: string, start: number, value: boolean): Token | null {
  const opening = query[start] ?? '"';
  const closing = QUOTES[opening] ?? '”';
  let close = start + 1;
  // Languages pair typographic quotation marks differently, so any closing mark is accepted.
  const closes = (mark: string) =>
    opening === '"' ? mark === '"' : mark === closing || mark === '”' || mark === '"';
  const isDoubled = () => value && opening === '"' && query.startsWith('""', close);
  for (; close < query.length; close += 1) {
    if (isDoubled()) close += 1;
    else if (closes(query[close] ?? '') && !isGershayim(query, close)) break;
  }
  if (close >= query.length) return null;
  const inside = query.slice(start + 1, close);
  const text = value && opening === '"' ? inside.replaceAll('""', '"') : inside;
  const prefix = query[close + 1] === '*';
  return { type: 'phrase', text, prefix, start, end: close + (prefix ? 2 : 1) };
}

function word(query: string, start: number, end: number, value: boolean): Token {
  const text = query.slice(start, end);
  if (!value) {
    if (text === 'AND' || text === 'OR' || text === 'NOT' || text === '|')
      return { type: text, start, end };
    const near = /^NEAR(?:\/(\d{1,4}))?$/.exec(text);
    if (near !== null) {
      const distance = Math.min(Number(near[1] ?? NEAR_DEFAULT), NEAR_MOST);
      return { type: 'near', distance, start, end };
    }
    // Must start with a letter, so that 12:30 is a word. `://` marks a URL.
    const operator = /^([A-Za-z][A-Za-z_-]*):(?!\/\/)/.exec(text);
    if (operator !== null) {
      const [shown, name = ''] = operator;
      const stop = start + shown.length;
      const after = query[stop];
      const valued = after !== undefined && !SPACE.test(after) && after !== ')' && after !== '}';
      return { type: 'operator', name, valued, start, end: stop };
    }
  }
  const prefix = text.length > 1 && text.endsWith('*');
  return { type: 'word', text: prefix ? text.replace(/\*+$/, '') : text, prefix, start, end };
}

function isGershayim(text: string, at: number): boolean {
  GERSHAYIM.lastIndex = at;
  return GERSHAYIM.test(text);
}
