import {
  type ComponentValue,
  isCommentNode,
  isFunctionNode,
  isSimpleBlockNode,
  isTokenNode,
  isWhitespaceNode,
  parseListOfComponentValues,
  type SimpleBlockNode,
} from '@csstools/css-parser-algorithms';
import { type CSSToken, TokenType, tokenizer } from '@csstools/css-tokenizer';

/** Functions that compute a value, or match elements, from what stands between their brackets alone. */
const FUNCTIONS = new Set(
  (
    'rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark calc min max clamp var ' +
    'linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient ' +
    '-webkit-linear-gradient -webkit-radial-gradient -moz-linear-gradient cubic-bezier repeat minmax fit-content ' +
    'translate translatex translatey scale scalex scaley rotate skew skewx skewy matrix inset rect counter ' +
    'not is where nth-child nth-last-child nth-of-type nth-last-of-type lang'
  ).split(' '),
);

/** Signs of values and selectors. A `/` after a `<` would end a style element. */
const SIGNS = new Set('/*+-.>~|=^$!%&<'.split(''));

/** Properties that run or load something in some browser, or let a message follow the theme: mail is paper. */
const FORBIDDEN = new Set(['behavior', '-ms-behavior', '-moz-binding', 'src', 'color-scheme']);
const POSITIONS = new Set(['static', 'relative', 'absolute', 'initial', 'inherit', 'unset']);

/** Rules with rules inside. All others load something, or define what allowed values cannot name. */
const GROUPS = new Set(['media', 'supports']);

/** UTF-16 units of CSS per message, each different style attribute counted once. */
const MAX_CHARS = 512 * 1024;
/** Selectors per message: a browser may compare each of them with each element. */
const MAX_SELECTORS = 4_000;
const MAX_DEPTH = 32;
/** Tokenizer errors per style sheet. Each takes as long as hundreds of tokens. */
const MAX_ERRORS = 1_000;

type Values = readonly ComponentValue[];

interface Cleaned {
  readonly css: string;
  /** Addresses that allowed declarations would have loaded. */
  readonly urls: readonly string[];
}

const NOTHING: Cleaned = { css: '', urls: [] };

/**
 * Rewrites the CSS of one message so that it loads and runs nothing and covers nothing but the message.
 *
 * CSS is parsed as browsers do (CSS Syntax Level 3) and rewritten from decoded names, without the sender's escapes,
 * so that a browser reads what was checked. Each part is allowed, or its declaration or rule is left out.
 */
export class StyleFilter {
  #charsLeft = MAX_CHARS;
  #selectorsLeft = MAX_SELECTORS;
  readonly #attributes = new Map<string, Cleaned>();

  /** Returns the content of a style element, safe inside one. */
  sheet(text: string, media = ''): Cleaned {
    const query = this.#parse(media);
    const rules = this.#parse(text);
    if (query === null || rules === null) return NOTHING;
    const urls: string[] = [];
    const written = this.#rules(rules, urls);
    if (media.trim() === '') return { css: written, urls };
    const condition = mediaQuery(query);
    return condition === null ? NOTHING : { css: `@media ${condition}{${written}}`, urls };
  }

  /** Returns the value of a style attribute, not yet escaped for HTML. */
  attribute(text: string): Cleaned {
    const known = this.#attributes.get(text);
    if (known !== undefined) return known;
    const values = this.#parse(text);
    if (values === null) return NOTHING;
    const urls: string[] = [];
    const cleaned = { css: writeDeclarations(values, urls), urls };
    this.#attributes.set(text, cleaned);
    return cleaned;
  }

  /** Returns null if the text exceeds the limits. */
  #parse(text: string): Values | null {
    if (text.length > this.#charsLeft) return null;
    this.#charsLeft -= text.length;
    const tokens = boundedTokens(text);
    return tokens && parseListOfComponentValues(tokens);
  }

  #rules(values: Values, urls: string[]): string {
    let written = '';
    for (const { prelude, block } of rulesIn(values)) {
      const [first, ...rest] = prelude;
      const token = isTokenNode(first) ? first.value : null;
      if (token?.[0] === TokenType.AtKeyword) {
        const name = token[4].value.toLowerCase();
        const condition = GROUPS.has(name) ? mediaQuery(rest) : null;
        if (condition !== null)
          written += `@${name} ${condition}{${this.#rules(block.value, urls)}}\n`;
        continue;
      }
      const selectors = write(prelude, null);
      if (selectors === null) continue;
      this.#selectorsLeft -= selectors.split(',').length;
      if (this.#selectorsLeft < 0) return written;
      written += `${selectors}{${writeDeclarations(block.value, urls)}}\n`;
    }
    return written;
  }
}

/** Returns the tokens of a text; null if it nests too deeply or is hardly CSS. */
function boundedTokens(css: string): CSSToken[] | null {
  const tokens: CSSToken[] = [];
  let errors = 0;
  let depth = 0;
  const onParseError = () => {
    errors += 1;
  };
  const reader = tokenizer({ css }, { onParseError });
  while (!reader.endOfFile()) {
    const token = reader.nextToken();
    tokens.push(token);
    if (OPENING.has(token[0])) depth += 1;
    else if (CLOSING.has(token[0])) depth = Math.max(0, depth - 1);
    if (depth > MAX_DEPTH || errors > MAX_ERRORS) return null;
  }
  return [...tokens, reader.nextToken()];
}

const { OpenParen, OpenSquare, OpenCurly, CloseParen, CloseSquare, CloseCurly } = TokenType;
const OPENING = new Set([OpenParen, OpenSquare, OpenCurly, TokenType.Function]);
const CLOSING = new Set([CloseParen, CloseSquare, CloseCurly]);

interface Rule {
  readonly prelude: Values;
  readonly block: SimpleBlockNode;
}

/** Yields rules with a block, without blanks around what stands before it. At-rules that end with `;` are skipped. */
function* rulesIn(values: Values): Iterable<Rule> {
  let prelude: ComponentValue[] = [];
  for (const value of values) {
    const type = isTokenNode(value) ? value.value[0] : null;
    if (isSimpleBlockNode(value) && value.startToken[0] === OpenCurly) {
      yield { prelude, block: value };
      prelude = [];
    } else if (type === TokenType.Semicolon && isAtRule(prelude)) prelude = [];
    else if (type === TokenType.CDO || type === TokenType.CDC) continue;
    else if (prelude.length > 0 || !isBlank(value)) prelude.push(value);
  }
}

function isAtRule([first]: Values): boolean {
  return isTokenNode(first) && first.value[0] === TokenType.AtKeyword;
}

function isBlank(value: ComponentValue | undefined): boolean {
  return isWhitespaceNode(value) || isCommentNode(value);
}

/** Returns the condition of a group of rules; null if it is not allowed, or asks for the theme. */
function mediaQuery(values: Values): string | null {
  const condition = write(values, null);
  return condition === null || /prefers-color-scheme/i.test(condition) ? null : condition.trim();
}

function writeDeclarations(values: Values, urls: string[]): string {
  let written = '';
  let piece: ComponentValue[] = [];
  for (const value of values) {
    const endsRule = isSimpleBlockNode(value) && value.startToken[0] === OpenCurly;
    const endsDeclaration = isTokenNode(value) && value.value[0] === TokenType.Semicolon;
    if (!endsRule && !endsDeclaration) piece.push(value);
    else {
      // Rules within rules are left out.
      if (endsDeclaration) written += writeDeclaration(piece, urls);
      piece = [];
    }
  }
  return written + writeDeclaration(piece, urls);
}

/** Returns a declaration with its `;`, or nothing if it is not allowed. */
function writeDeclaration(piece: Values, urls: string[]): string {
  const [name, ...rest] = piece.slice(piece.findIndex((value) => !isBlank(value)));
  const colon = rest.findIndex((value) => !isBlank(value));
  const isProperty = isTokenNode(name) && name.value[0] === TokenType.Ident;
  const sign = rest[colon];
  if (!isProperty || !isTokenNode(sign) || sign.value[0] !== TokenType.Colon) return '';
  const property = writeToken(name.value);
  if (property === null || FORBIDDEN.has(property.toLowerCase())) return '';
  const loads: string[] = [];
  const value = write(rest.slice(colon + 1), loads)?.trim();
  if (value === undefined) return '';
  const [keyword = ''] = value.toLowerCase().split(/[ !]/);
  if (property.toLowerCase() === 'position' && !POSITIONS.has(keyword)) return '';
  urls.push(...loads);
  return `${property}:${value};`;
}

/**
 * Rewrites values; null if one of them is not allowed.
 *
 * @param loads gets the addresses that are replaced by `none`; null where addresses are not allowed at all
 */
function write(values: Values, loads: string[] | null): string | null {
  let written = '';
  let endsBlank = false;
  for (const value of values) {
    const text = isBlank(value) ? ' ' : writeValue(value, loads);
    if (text === null) return null;
    written += endsBlank ? text.trimStart() : text;
    endsBlank = text === ' ' || text === NONE;
  }
  return written.includes('</') ? null : written;
}

function writeValue(value: ComponentValue, loads: string[] | null): string | null {
  if (isFunctionNode(value)) {
    const name = value.getName().toLowerCase();
    if (name === 'url')
      return writeUrl(
        value.value.find((one) => !isBlank(one)),
        loads,
      );
    const inner = FUNCTIONS.has(name) ? write(value.value, loads) : null;
    return inner === null ? null : `${name}(${inner})`;
  }
  if (isSimpleBlockNode(value)) {
    const [type, open] = value.startToken;
    const inner = type === OpenCurly ? null : write(value.value, loads);
    return inner === null ? null : `${open}${inner}${open === '(' ? ')' : ']'}`;
  }
  if (!isTokenNode(value)) return null;
  const token = value.value;
  return token[0] === TokenType.URL ? writeUrl(value, loads) : writeToken(token);
}

/** Apart from what stands next to it, which could otherwise become part of the word. */
const NONE = ' none ';

/** Replaces an address. `none` keeps the rest of a background, such as its colour. */
function writeUrl(address: ComponentValue | undefined, loads: string[] | null): string | null {
  if (loads === null) return null;
  const token = isTokenNode(address) ? address.value : null;
  if (token?.[0] === TokenType.URL || token?.[0] === TokenType.String) loads.push(token[4].value);
  return NONE;
}

function writeToken(token: CSSToken): string | null {
  switch (token[0]) {
    case TokenType.Ident:
      return writeName(token[4].value);
    case TokenType.Hash:
      return /^[\w-]+$/.test(token[4].value) ? `#${token[4].value}` : null;
    case TokenType.String:
      return `"${token[4].value.replace(/["\\<\p{Cc}]/gu, escapeSign)}"`;
    case TokenType.Dimension:
      return /^[-+.\w]+$/.test(token[1]) ? token[1] : null;
    case TokenType.Number:
    case TokenType.Percentage:
    case TokenType.Comma:
    case TokenType.Colon:
      return token[1];
    case TokenType.Delim:
      return SIGNS.has(token[4].value) ? token[4].value : null;
    default:
      return null;
  }
}

/** Writes a name, such as that of `.sm\\:hidden`, with an escape for each sign that is not a letter or digit of ASCII. */
function writeName(name: string): string {
  return name === '-' ? escapeSign(name) : name.replace(/(?<=^-?)\d|[^-\w]/gu, escapeSign);
}

function escapeSign(sign: string): string {
  return `\\${sign.codePointAt(0)?.toString(16)} `;
}
