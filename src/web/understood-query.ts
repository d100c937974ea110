import { refuseUnknownNames } from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import type { ParseContext, SearchNode } from '../catalog/query-ast.ts';
import { expandSaved } from '../catalog/saved-searches.ts';
import type { CountRequest } from '../catalog/search.ts';
import { matchesBetween, type Range, type SoughtPhrase } from '../catalog/snippets.ts';
import { describeError, MailkeepError } from '../core/errors.ts';
import type { TextPiece } from './pages/message-props.ts';
import { type AccountsOf, accountsFor, type ServedReader, searchesFor } from './served-archive.ts';

/** Why a query finds nothing: the CLI's message, the affected part, and a query to try instead. */
export interface QueryProblem {
  readonly message: string;
  readonly hint: string | null;
  /** UTF-16 code units from `start` (inclusive) to `end` (exclusive); null for the whole text. */
  readonly stretch: { readonly start: number; readonly end: number } | null;
  readonly suggestion: { readonly text: string; readonly query: string } | null;
}

export type ParsedQuery =
  | { readonly request: CountRequest; readonly asOf: number | null; readonly problem: null }
  | { readonly request: null; readonly asOf: null; readonly problem: QueryProblem };

const EVERYTHING: SearchNode = { kind: 'all', span: { start: 0, end: 0 } };

export function parseQueryText(
  text: string,
  reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
  context: ParseContext,
  accounts: AccountsOf,
): ParsedQuery {
  try {
    const expanded = expandSaved(text, () => searchesFor(reader));
    const query =
      expanded.trim() === '' ? { node: EVERYTHING, asOf: null } : parseQuery(expanded, context);
    const asOf = query.asOf ?? undefined;
    const request = { node: query.node, asOf, accounts: accountsFor(reader, accounts, query.node) };
    refuseUnknownNames(reader.catalog.prepare(request).unknownNames());
    return { request, asOf: query.asOf, problem: null };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'usage') throw error;
    return { request: null, asOf: null, problem: problemOf(text, error) };
  }
}

/** Parses a query that this program wrote. Returns null if an address or path in it cannot be written in a query. */
export function plainRequest(query: string, context: ParseContext): CountRequest | null {
  try {
    const { node, asOf } = parseQuery(query === '' ? '*' : query, context);
    return { node, asOf: asOf ?? undefined };
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'usage') throw error;
    return null;
  }
}

function problemOf(text: string, error: MailkeepError): QueryProblem {
  const { message, hint: said } = describeError(error);
  const { found, position, suggestion, instead, operator, kind } = error.facts;
  // The CLI's hint refers to a command; a page shows the folders next to the query.
  const isListed = error.code === 'usage-unknown-name' && kind === 'folder' && suggestion === null;
  const hint = isListed ? 'Choose one from the list of folders.' : said;
  const stretch = stretchOf(text, found, position);
  const value = suggestion ?? instead;
  if (stretch === null || typeof found !== 'string' || typeof value !== 'string')
    return { message, hint, stretch, suggestion: null };
  const isOperator = found.endsWith(':') && !value.endsWith(':');
  const written = isOperator ? `${value}:` : quotedIfNeeded(value, text[stretch.start - 1]);
  const shown = typeof operator === 'string' ? `${operator}:${written}` : written;
  const query = text.slice(0, stretch.start) + written + text.slice(stretch.end);
  return { message, hint, stretch, suggestion: { text: shown, query } };
}

/** Positions are valid only if no saved search is used. Otherwise, a name is located if it occurs exactly once. */
function stretchOf(text: string, name: unknown, position: unknown): QueryProblem['stretch'] {
  if (typeof name !== 'string' || name === '') return null;
  if (typeof position === 'number')
    return text.startsWith(name, position)
      ? { start: position, end: position + name.length }
      : null;
  const start = text.indexOf(name);
  return start < 0 || text.includes(name, start + 1) ? null : { start, end: start + name.length };
}

function quotedIfNeeded(name: string, before: string | undefined): string {
  return before !== '"' && /[\s()]/.test(name) ? `"${name}"` : name;
}

/** Maximum pieces of a text on one page, because quotes that alternate with replies line by line would take seconds. */
const MAX_PIECES = 2_000;
const MAX_MATCHES = 1_000;
/** Maximum characters of a message to search for matches, because folding every word takes time. */
const MATCHED_CHARS = 200_000;

export function textPieces(text: string, sought: readonly SoughtPhrase[] = []): TextPiece[] {
  const pieces: { kind: TextPiece['kind']; lines: string[] }[] = [];
  let signature = false;
  for (const line of text.replace(/\r\n?/g, '\n').split('\n')) {
    const quoted = /^[ \t]?>/.test(line);
    // RFC 3676, section 4.3; the space after the dashes is often lost.
    if (/^-- ?$/.test(line)) signature = true;
    if (quoted) signature = false;
    const kind = quoted ? 'quote' : signature ? 'signature' : 'text';
    const last = pieces.at(-1);
    if (last !== undefined && (last.kind === kind || pieces.length >= MAX_PIECES))
      last.lines.push(line);
    else pieces.push({ kind, lines: [line] });
  }
  let chars = MATCHED_CHARS;
  let most = MAX_MATCHES;
  let mostLinks = MAX_MATCHES;
  return pieces.map((piece) => {
    const shown = piece.lines.join('\n');
    const links = linkRanges(shown, mostLinks);
    mostLinks -= links.length;
    if (sought.length === 0 || chars <= 0) return { ...piece, matches: [], links };
    const matches: TextPiece['matches'][number][] = [];
    for (const match of matchesBetween(shown, sought, 0, chars)) {
      if (matches.length >= most) break;
      matches.push(match);
    }
    chars -= shown.length;
    most -= matches.length;
    return { ...piece, matches, links };
  });
}

/** An address with its scheme; guesses such as `readme.md` would be wrong too often. */
const LINK = /(?<![\p{L}\p{N}])(?:https?:\/\/|mailto:)[^\s<>"“”„]{1,2000}/giu;
const BRACKETS: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' };

function linkRanges(text: string, most: number): Range[] {
  const links: Range[] = [];
  for (const { 0: found, index } of text.matchAll(LINK)) {
    if (links.length >= most) break;
    const end = index + lengthOfLink(found);
    if (URL.canParse(text.slice(index, end))) links.push({ start: index, end });
  }
  return links;
}

/** Returns the length without the punctuation of the sentence around a link, such as brackets opened before it. */
function lengthOfLink(text: string): number {
  const depths = new Map<string, number>();
  for (const sign of text) {
    const opening = BRACKETS[sign];
    if (opening !== undefined) depths.set(opening, (depths.get(opening) ?? 0) - 1);
    else depths.set(sign, (depths.get(sign) ?? 0) + 1);
  }
  for (let end = text.length; ; end -= 1) {
    const last = text[end - 1] ?? '';
    const opening = BRACKETS[last];
    const isStray = opening !== undefined && (depths.get(opening) ?? 0) < 0;
    if (isStray) depths.set(opening, (depths.get(opening) ?? 0) + 1);
    else if (!/[.,;:!?'’*_~|]/.test(last)) return end;
  }
}
