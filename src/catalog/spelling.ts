import { editDistance } from '../core/names.ts';
import { foldWord, lazy } from '../mail/normalise.ts';
import type { Connection } from './database.ts';
import type { SearchNode, TextNode } from './query-ast.ts';
import type { CountRequest, HitCount, PreparedQuery } from './search.ts';

/** A query with words of the archive instead of words that it does not have. */
export interface Respelling {
  readonly query: string;
  readonly found: HitCount;
}

/** In characters. Shorter words have too many neighbours, and nobody types longer ones. */
const SHORTEST = 4;
const LONGEST = 40;
/** Leading characters that must be equal, because the index lists its words in alphabetical order only. */
const EQUAL = 2;
/** Words of fewer characters may differ in one place, longer ones in two. */
const LONG = 6;
const WORD = lazy(() => /^[\p{L}\p{M}]+$/u);
const WORDS = 'SELECT term FROM temp.index_words WHERE term >= ? AND term < ?';

interface Near {
  readonly word: string;
  readonly edits: number;
}

/** Returns words of the whole index, nearest first. Some may be in mailboxes that a limited reader must not see. */
function wordsNear(connection: Connection, typed: string, mayContinue: () => boolean): Near[] {
  const word = foldWord(typed);
  const letters = [...word];
  if (letters.length < SHORTEST || letters.length > LONGEST) return [];
  const start = letters.slice(0, EQUAL).join('');
  const most = letters.length < LONG ? 1 : 2;
  const near: Near[] = [];
  for (const { term } of connection.text<{ term: string }>(WORDS, [start, `${start}\u{10ffff}`])) {
    if (Math.abs(term.length - word.length) <= most && WORD().test(term)) {
      const edits = editDistance(word, term);
      if (edits > 0 && edits <= most) near.push({ word: term, edits });
    }
    if (!mayContinue()) break;
  }
  return near.sort((a, b) => a.edits - b.edits || (a.word < b.word ? -1 : 1));
}

/**
 * Finds words that are spelled similarly to those of a query without results. If the archive lacks some of its words,
 * these are replaced, otherwise the one word that helps most.
 *
 * @param query text of the request; words that are quoted, or come from elsewhere, are left as they are
 * @param prepare searches what the reader may see, so that words from other mailboxes are never offered
 */
export function respell(
  connection: Connection,
  query: string,
  { node }: Pick<CountRequest, 'node'>,
  prepare: (node: SearchNode) => Pick<PreparedQuery, 'countWhile' | 'walk'>,
  mayContinue: () => boolean,
): Respelling | null {
  const count = (part: SearchNode): HitCount => prepare(part).countWhile(mayContinue);
  const words = wantedWords(node).filter((word) => isPlainWord(word, query));
  const missing = words.filter((word) => isMissing(prepare(word).walk({}, mayContinue)));
  /** Of the nearest words that are found, returns the most frequent. */
  const best = (word: TextNode, whole: (change: Change) => SearchNode) => {
    let found: { change: Change; edits: number; hits: number } | null = null;
    for (const { word: text, edits } of wordsNear(connection, word.text, mayContinue)) {
      if ((found !== null && edits > found.edits) || !mayContinue()) break;
      const change = { word, other: { ...word, text } };
      const hits = count(whole(change)).count;
      if (hits > (found?.hits ?? 0)) found = { change, edits, hits };
    }
    return found;
  };
  const changes: Change[] = [];
  for (const word of missing) {
    // Words that must occur together are chosen together, except for the first ones.
    const isLast = word === missing.at(-1);
    const found = best(word, (change) =>
      isLast ? replaceWord(node, [...changes, change]) : change.other,
    );
    if (found !== null) changes.push(found.change);
  }
  if (missing.length === 0) {
    const single = words
      .map((word) => best(word, (change) => replaceWord(node, [change])))
      .filter((found) => found !== null)
      .sort((a, b) => a.edits - b.edits || b.hits - a.hits);
    changes.push(...single.slice(0, 1).map(({ change }) => change));
  }
  if (changes.length === 0) return null;
  const found = count(replaceWord(node, changes));
  return found.count === 0 ? null : { query: written(query, changes), found };
}

interface Change {
  readonly word: TextNode;
  readonly other: TextNode;
}

/** A common word is found much faster than it is counted. */
function isMissing(walk: ReturnType<PreparedQuery['walk']>): boolean {
  const { done, value: stoppedAt } = walk.next();
  walk.return(null);
  return done === true && stoppedAt === null;
}

function wantedWords(node: SearchNode): TextNode[] {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.flatMap(wantedWords);
    case 'near':
      return [...node.terms];
    case 'text':
      return [node];
    default:
      return [];
  }
}

/** A span starts with its operator, and ends with the word unless that is quoted. */
function isPlainWord({ text, prefix, span }: TextNode, query: string): boolean {
  return !prefix && WORD().test(text) && query.slice(span.end - text.length, span.end) === text;
}

function replaceWord(node: SearchNode, changes: readonly Change[]): SearchNode {
  const other = (text: TextNode) => changes.find(({ word }) => word === text)?.other ?? text;
  switch (node.kind) {
    case 'and':
    case 'or':
      return { ...node, nodes: node.nodes.map((part) => replaceWord(part, changes)) };
    case 'near':
      return { ...node, terms: node.terms.map(other) };
    case 'text':
      return other(node);
    default:
      return node;
  }
}

function written(query: string, changes: readonly Change[]): string {
  return changes
    .toSorted((a, b) => b.word.span.end - a.word.span.end)
    .reduce((text, { word, other }) => {
      const { end } = word.span;
      return text.slice(0, end - word.text.length) + other.text + text.slice(end);
    }, query);
}
