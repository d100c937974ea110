import { foldLetters, ftsString, isAscii, lazy } from '../mail/normalise.ts';
import { searchError } from './errors.ts';
import {
  AS_OF,
  checkSpelling,
  OPERATORS,
  type OperatorValue,
  type ParseContext,
  resolveAsOf,
  type SearchNode,
  type SearchQuery,
  SPELLING,
  type Span,
  type TextNode,
  unknownOperator,
} from './query-ast.ts';
import { QUERY_LIMIT, type Token, tokenize } from './query-lexer.ts';

/** Maximum number of words and phrases in one query, including all spellings. */
const SPELLINGS_LIMIT = 64;

/** Two-letter spellings of accented letters. Plain letters are omitted, because the index folds the accents away. */
const LONG: Readonly<Record<string, string>> = { ä: 'ae', ö: 'oe', ü: 'ue', å: 'aa', ø: 'oe' };
const VARIABLE = /[äöüåø]|[aou]e|aa/giu;

/**
 * Returns a query that finds every spelling of an umlaut: Müller finds Mueller, and vice versa. The same applies to å,
 * ø and their two-letter spellings. The index itself folds ß, æ and œ to ss, ae and oe.
 *
 * @throws search-too-complex
 */
function respell(node: SearchNode): SearchNode {
  let count = 0;
  let prefixes = 0;
  const tally = ({ prefix }: TextNode): void => {
    count += 1;
    prefixes += prefix ? 1 : 0;
    if (count > SPELLINGS_LIMIT)
      throw searchError('search-too-complex', { limit: SPELLINGS_LIMIT, of: 'spellings' });
    if (prefixes > PREFIX_LIMIT)
      throw searchError('search-too-complex', { limit: PREFIX_LIMIT, of: 'prefixes' });
  };
  const visit = (part: SearchNode): SearchNode => {
    switch (part.kind) {
      case 'and':
      case 'or':
        return { ...part, nodes: part.nodes.map(visit) };
      case 'not':
        return { ...part, node: visit(part.node) };
      case 'near': {
        const combined = product(part.terms.map(spellingsOf));
        for (const terms of combined) terms.forEach(tally);
        return anyOf(combined.map((terms) => ({ ...part, terms })));
      }
      case 'text': {
        const spellings = spellingsOf(part);
        spellings.forEach(tally);
        return anyOf(spellings);
      }
      default:
        return part;
    }
  };
  return visit(node);
}

function anyOf(nodes: readonly SearchNode[]): SearchNode {
  const [first] = nodes;
  return first !== undefined && nodes.length === 1
    ? first
    : { kind: 'or', nodes, span: first?.span ?? { start: 0, end: 0 } };
}

/** Returns the spellings of a word or phrase, starting with the one typed. An exact address has only one. */
function spellingsOf(node: TextNode): TextNode[] {
  const text = node.text.normalize('NFC');
  if (/^<.*>$/u.test(text)) return [node];
  const parts: string[][] = [];
  let end = 0;
  for (const { 0: letters, index } of text.matchAll(VARIABLE)) {
    const short = letters.length === 1 ? LONG[letters.toLowerCase()] : letters[0];
    parts.push([text.slice(end, index)], [letters, short ?? letters]);
    end = index + letters.length;
  }
  return product([...parts, [text.slice(end)]]).map((one) => ({ ...node, text: one.join('') }));
}

/** Returns every combination of one item from each list. @throws search-too-complex */
function product<T>(lists: readonly (readonly T[])[]): T[][] {
  let combinations: T[][] = [[]];
  for (const list of lists) {
    combinations = combinations.flatMap((prefix) => list.map((item) => [...prefix, item]));
    if (combinations.length > SPELLINGS_LIMIT)
      throw searchError('search-too-complex', { limit: SPELLINGS_LIMIT, of: 'spellings' });
  }
  return combinations;
}

const DEPTH_LIMIT = 40;
const TERM_LIMIT = 50;
/** Maximum number of words with a star. For each, the index first merges all words with that prefix. */
const PREFIX_LIMIT = 6;
/** Minimum number of characters before a star. In a script without spaces, one is enough. */
const PREFIX_LEAST = 2;
/** Maximum phrase length in words as indexed: `a*a*a` is the phrase "a a a". Each word opens a list. */
const PHRASE_LIMIT = 100;
const NEAR_LIMIT = 5;
const UNSPACED = lazy(
  () =>
    /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]/u,
);

/**
 * Parses a query. Words next to each other are joined by AND. Precedence, highest first: brackets, `-` and NOT, NEAR,
 * AND, OR. Connecting words must be uppercase.
 *
 * @throws errors from `catalog/errors.ts`, each with its position
 */
export function parseQuery(query: string, context: ParseContext): SearchQuery {
  if (query.length > QUERY_LIMIT)
    throw searchError('search-too-long', { length: query.length, limit: QUERY_LIMIT });
  const { tokens, cut } = tokenize(query);
  if (cut < query.length)
    throw searchError('search-unbalanced', { position: cut, found: query[cut] ?? '' });
  return new Parser(query, tokens, context).query();
}

/** An operator before a bracket, which applies to everything in it. */
interface Within {
  readonly operator: string;
  readonly start: number;
}

class Parser {
  #at = 0;
  #depth = 0;
  #terms = 0;
  #prefixes = 0;
  #anySpelling = false;
  #asOf: { readonly moment: number; readonly token: Token } | undefined;
  readonly #ignored: Span[] = [];

  constructor(
    private readonly text: string,
    private readonly tokens: readonly Token[],
    private readonly context: ParseContext,
  ) {}

  query(): SearchQuery {
    const node = this.#or(undefined);
    const rest = this.#peek();
    if (rest !== undefined) throw this.#wrong('search-unbalanced', rest);
    const whole = { start: 0, end: this.text.length };
    if (node === undefined && this.#asOf === undefined)
      throw searchError('search-empty', { query: this.text });
    return {
      node:
        node === undefined
          ? { kind: 'all', span: whole }
          : this.#anySpelling
            ? respell(node)
            : node,
      asOf: this.#asOf?.moment ?? null,
      ignored: this.#ignored,
    };
  }

  /** Returns undefined if every part was ignored; the caller then omits the node. */
  #or(within: Within | undefined): SearchNode | undefined {
    const nodes: SearchNode[] = [];
    let alternatives = 0;
    for (;;) {
      const before = this.#at;
      const node = this.#and(within);
      alternatives += 1;
      const token = this.#peek();
      if (this.#at === before) {
        // A missing operand is valid in an empty query, but not next to an OR.
        const or = alternatives > 1 ? this.tokens[this.#at - 1] : isOr(token) ? token : undefined;
        if (or !== undefined) throw this.#wrong('search-missing-operand', or);
      }
      if (node !== undefined) nodes.push(node);
      if (!isOr(token)) break;
      this.#at += 1;
    }
    if (alternatives > 1 && this.#depth === 0 && this.#asOf !== undefined)
      throw this.#wrong('search-misplaced-asof', this.#asOf.token);
    return join('or', nodes);
  }

  #and(within: Within | undefined): SearchNode | undefined {
    const nodes: SearchNode[] = [];
    let and: Token | undefined;
    for (;;) {
      const token = this.#peek();
      if (token?.type === 'AND') {
        if (and !== undefined || this.#at === 0 || this.#opens(this.tokens[this.#at - 1]))
          throw this.#wrong('search-missing-operand', token);
        and = token;
        this.#at += 1;
        continue;
      }
      if (token === undefined || token.type === ')' || token.type === '}' || isOr(token)) {
        if (and !== undefined) throw this.#wrong('search-missing-operand', and);
        return join('and', nodes);
      }
      and = undefined;
      const node = this.#unary(within);
      if (node !== undefined) nodes.push(node);
    }
  }

  #unary(within: Within | undefined): SearchNode | undefined {
    const token = this.#peek();
    if (token?.type !== '-' && token?.type !== 'NOT') return this.#near(within);
    this.#at += 1;
    const following = this.#peek();
    if (following === undefined || this.#closes(following))
      throw this.#wrong('search-missing-operand', token);
    const node = this.#nested(() => this.#unary(within));
    return node === undefined
      ? undefined
      : { kind: 'not', node, span: { start: token.start, end: node.span.end } };
  }

  #near(within: Within | undefined): SearchNode | undefined {
    let node = this.#primary(within);
    let near = this.#peek();
    const terms: TextNode[] = [];
    let distance = 0;
    while (near?.type === 'near') {
      this.#at += 1;
      const following = this.#peek();
      if (following === undefined || this.#closes(following))
        throw this.#wrong('search-missing-operand', near);
      const right = this.#primary(within);
      if (terms.length === 0) terms.push(this.#nearTerm(node, near));
      terms.push(this.#nearTerm(right, near));
      if (terms.length > NEAR_LIMIT)
        throw searchError('search-too-complex', { limit: NEAR_LIMIT, of: 'near' });
      distance = Math.max(distance, near.distance);
      const [first] = terms;
      const last = terms.at(-1);
      if (first?.field !== last?.field) throw this.#wrong('search-near-operand', near);
      const span = { start: first?.span.start ?? 0, end: last?.span.end ?? 0 };
      node = { kind: 'near', terms, distance, span };
      near = this.#peek();
    }
    return node;
  }

  #nearTerm(node: SearchNode | undefined, near: Token): TextNode {
    if (node?.kind === 'text') return node;
    throw this.#wrong('search-near-operand', near);
  }

  #primary(within: Within | undefined): SearchNode | undefined {
    const token = this.#peek();
    if (token === undefined) return undefined;
    this.#at += 1;
    switch (token.type) {
      case '(':
        return this.#nested(() => this.#group(token, ')', () => this.#or(within)));
      case '{':
        return this.#nested(() => this.#group(token, '}', () => this.#braces(within)));
      case 'operator':
        return this.#operator(token);
      case 'word':
      case 'phrase':
        return this.#term(token, within);
      default:
        throw this.#wrong('search-missing-operand', token);
    }
  }

  /** `{a b}` is `(a OR b)`. */
  #braces(within: Within | undefined): SearchNode | undefined {
    const nodes: SearchNode[] = [];
    for (;;) {
      const token = this.#peek();
      if (token === undefined || token.type === '}') return join('or', nodes);
      if (isOr(token)) {
        this.#at += 1;
        continue;
      }
      if (token.type === ')' || token.type === 'AND')
        throw this.#wrong(
          token.type === ')' ? 'search-unbalanced' : 'search-missing-operand',
          token,
        );
      const node = this.#unary(within);
      if (node !== undefined) nodes.push(node);
    }
  }

  #group(
    opening: Token,
    closing: ')' | '}',
    inside: () => SearchNode | undefined,
  ): SearchNode | undefined {
    const node = inside();
    const token = this.#peek();
    if (token?.type !== closing) throw this.#wrong('search-unbalanced', token ?? opening);
    this.#at += 1;
    return node === undefined
      ? undefined
      : { ...node, span: { start: opening.start, end: token.end } };
  }

  #operator(token: Token & { readonly type: 'operator' }): SearchNode | undefined {
    const name = token.name.toLowerCase();
    if (name !== AS_OF && name !== SPELLING && !OPERATORS.has(name))
      throw unknownOperator(token.name, token.start);
    const value = this.#peek();
    const isTerm = value?.type === 'word' || value?.type === 'phrase';
    if (!token.valued || value === undefined || (name === SPELLING && !isTerm))
      throw searchError('search-missing-value', {
        position: token.start,
        found: `${token.name}:`,
        expected: name,
      });
    if (name === AS_OF && (this.#depth > 0 || !isTerm))
      throw this.#wrong('search-misplaced-asof', token);
    const node = this.#primary({ operator: name, start: token.start });
    return node === undefined ? undefined : { ...node, span: { ...node.span, start: token.start } };
  }

  #term(
    token: Token & { readonly type: 'word' | 'phrase' },
    within: Within | undefined,
  ): SearchNode | undefined {
    this.#terms += 1;
    if (this.#terms > TERM_LIMIT)
      throw searchError('search-too-complex', { limit: TERM_LIMIT, of: 'terms' });
    const { start, end, text, prefix } = token;
    const span = { start: within?.start ?? start, end };
    if (within === undefined && token.type === 'word' && text === '*') return { kind: 'all', span };
    const value: OperatorValue = { start, end, text, prefix, quoted: token.type === 'phrase' };
    if (within?.operator === AS_OF) {
      if (this.#asOf !== undefined) throw this.#wrong('search-misplaced-asof', token);
      this.#asOf = { moment: resolveAsOf(value, this.context, AS_OF), token };
      return undefined;
    }
    if (within?.operator === SPELLING) {
      checkSpelling(value);
      this.#anySpelling = true;
      return undefined;
    }
    const make = within === undefined ? undefined : OPERATORS.get(within.operator);
    const node: SearchNode =
      make === undefined || within === undefined
        ? { kind: 'text', field: 'any', text, prefix, span }
        : make(value, span, this.context, within.operator);
    if (node.kind !== 'text') return node;
    const sign = misplacedSign(token, within !== undefined);
    if (sign !== undefined)
      throw searchError('search-bad-wildcard', {
        position: start,
        found: this.text.slice(start, end),
        sign,
      });
    this.#checkLength(node);
    if (node.prefix) this.#checkPrefix(node, token);
    if (hasWord(text)) return node;
    this.#ignored.push({ start, end });
    return undefined;
  }

  #checkLength({ text, prefix }: TextNode): void {
    // A word has at least one character, so most text needs no counting.
    if (text.length < PHRASE_LIMIT) return;
    const words = (ftsString(text, prefix) ?? '').split(' ').length;
    if (words > PHRASE_LIMIT)
      throw searchError('search-too-complex', { limit: PHRASE_LIMIT, of: 'phrase' });
  }

  #checkPrefix({ text }: TextNode, token: Token): void {
    const last = text.match(/[\p{L}\p{N}\p{M}\p{Co}]+/gu)?.at(-1) ?? '';
    if (last !== '' && [...last].length < PREFIX_LEAST && !UNSPACED().test(last))
      throw searchError('search-short-prefix', {
        position: token.start,
        found: this.text.slice(token.start, token.end),
        least: PREFIX_LEAST,
      });
    this.#prefixes += 1;
    if (this.#prefixes > PREFIX_LIMIT)
      throw searchError('search-too-complex', { limit: PREFIX_LIMIT, of: 'prefixes' });
  }

  #nested<T>(inside: () => T): T {
    if (this.#depth >= DEPTH_LIMIT)
      throw searchError('search-too-complex', { limit: DEPTH_LIMIT, of: 'depth' });
    this.#depth += 1;
    const result = inside();
    this.#depth -= 1;
    return result;
  }

  #peek(): Token | undefined {
    return this.tokens[this.#at];
  }

  #opens(token: Token | undefined): boolean {
    return token === undefined || token.type === '(' || token.type === '{' || isOr(token);
  }

  #closes(token: Token): boolean {
    return token.type === ')' || token.type === '}' || token.type === 'AND' || isOr(token);
  }

  #wrong(
    code:
      | 'search-unbalanced'
      | 'search-missing-operand'
      | 'search-near-operand'
      | 'search-misplaced-asof',
    token: Token,
  ) {
    const found = this.text.slice(token.start, token.end);
    return searchError(code, { position: token.start, found });
  }
}

/** Emoji are not words, not even those that NFKC turns into letters: ™️, ℹ️, 🈁 and the keycap 1️⃣. */
const EMOJI = lazy(() => /\p{Emoji_Presentation}|\p{Emoji}\ufe0f\u20e3?|[0-9#*]\u20e3/gu);
const LETTER = lazy(() => /[\p{L}\p{N}\p{Co}]/u);

/** Reports whether a text still contains a word after the index has folded it. */
function hasWord(text: string): boolean {
  return isAscii(text)
    ? /[0-9A-Za-z]/.test(text)
    : LETTER().test(foldLetters(text.replaceAll(EMOJI(), ' ')));
}

/**
 * Returns a character meant as a wildcard, which would silently split the word. In quotes, only a star next to a letter
 * qualifies.
 */
function misplacedSign(
  { type, text: typed, prefix }: Token & { readonly type: 'word' | 'phrase' },
  isValue: boolean,
): '*' | '?' | '|' | '/' | undefined {
  // A keycap can contain a star.
  const text = isAscii(typed) ? typed : typed.replaceAll(EMOJI(), '');
  // An exact address.
  if (/^<.*>$/.test(text)) return undefined;
  if (type === 'phrase') return text.includes('*') && STAR_AT_LETTER().test(text) ? '*' : undefined;
  if (isExpression(text)) return '/';
  if (text.includes('*') && (isValue || hasWord(text))) return '*';
  if (text.includes('|') && BAR_IN_WORD().test(text)) return '|';
  // With other punctuation, it could be a URL.
  const whole = prefix ? `${text}*` : text;
  return /\?[^?]/u.test(whole) && PLAIN_WORD().test(whole) ? '?' : undefined;
}

const STAR_AT_LETTER = lazy(() => /\p{L}\p{M}*\*|\*\p{L}/u);
const BAR_IN_WORD = lazy(() => /[\p{L}\p{M}\p{N}]\|+[\p{L}\p{N}]/u);
const PLAIN_WORD = lazy(() => /^[\p{L}\p{M}\p{N}?*]+$/u);

/** Reports whether a word is a regular expression in slashes. Paths have more slashes and no metacharacters. */
function isExpression(word: string): boolean {
  const end = word.lastIndexOf('/');
  if (!word.startsWith('/') || end < 2 || !/^[gimsuy]{0,3}$/.test(word.slice(end + 1)))
    return false;
  const inside = word.slice(1, end);
  return !inside.includes('/') || /[\\[^$+*]/.test(inside);
}

function isOr(token: Token | undefined): boolean {
  return token?.type === 'OR' || token?.type === '|';
}

function join(kind: 'and' | 'or', nodes: readonly SearchNode[]): SearchNode | undefined {
  const [first] = nodes;
  const last = nodes.at(-1);
  if (first === undefined || last === undefined || nodes.length === 1) return first;
  return { kind, nodes, span: { start: first.span.start, end: last.span.end } };
}
