import { foldLetters, foldWord, isAscii, lazy, splitRuns, UNSPACED } from '../mail/normalise.ts';
import type { SearchNode, TextField, TextNode } from './query-ast.ts';

/** Consecutive words to find. With `prefix`, the last one is a prefix. `loose` words occur in unspaced text. */
export interface SoughtPhrase {
  readonly words: readonly string[];
  readonly prefix: boolean;
  readonly loose: boolean;
}

const SPACED = `(?!${UNSPACED})`;
const PART = '[\\p{L}\\p{N}\\p{M}\\p{Co}]';
const PART_BEFORE = lazy(() => new RegExp(`${SPACED}${PART}$`, 'u'));
/** In an unspaced script, each run is a word, even next to other letters. */
const WORD = lazy(
  () =>
    new RegExp(`(?:${UNSPACED}\\p{M}*)+|${SPACED}[\\p{L}\\p{N}\\p{Co}](?:${SPACED}${PART})*`, 'gu'),
);

/** Returns the words and phrases that a query looks for in `fields`, by default in bodies. Omits excluded ones. */
export function soughtPhrases(
  node: SearchNode,
  fields: readonly TextField[] = ['any', 'body'],
): SoughtPhrase[] {
  const below = (part: SearchNode): SoughtPhrase[] => soughtPhrases(part, fields);
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.flatMap(below);
    case 'near':
      return node.terms.flatMap(below);
    case 'text':
      return fields.includes(node.field) ? sought(node) : [];
    default:
      return [];
  }
}

/** UTF-16 code units of a text, half-open. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

function firstMatch(text: string, words: readonly SoughtPhrase[]): Range | undefined {
  if (words.length === 0) return undefined;
  return new PlainMatches(text, words, 0, text.length).next(0) ?? findFolded(text, words);
}

/** Yields the matches that start in a half-open range. */
export function* matchesBetween(
  text: string,
  words: readonly SoughtPhrase[],
  from: number,
  to: number,
): Generator<Range, void, undefined> {
  const end = Math.min(to, text.length);
  const plain = isAscii(text.slice(from, end))
    ? new PlainMatches(text, words, from, end)
    : undefined;
  for (let at = from; at < end; ) {
    const next = plain === undefined ? findFrom(text, words, at, end) : plain.next(at);
    if (next === undefined) return;
    yield next;
    at = next.end;
  }
}

function sought({ text, prefix }: TextNode): SoughtPhrase[] {
  return splitRuns(foldLetters(text)).flatMap((part, index, parts): SoughtPhrase[] => {
    const words = wordsIn(part.text).map(foldWord);
    if (words.length === 0) return [];
    return [{ words, prefix: prefix && index === parts.length - 1, loose: part.unspaced }];
  });
}

interface Cursor {
  readonly one: SoughtPhrase;
  /** Position up to which the text has been searched. */
  at: number;
  found: Range | undefined;
}

/**
 * Finds matches that differ at most in case, as nearly all do. This is twenty times as fast as `findFrom`, which
 * accents and unspaced scripts require. Lower-cases the text once and searches it once per word.
 */
class PlainMatches {
  readonly #lower: string;
  readonly #cursors: Cursor[];

  constructor(
    private readonly text: string,
    words: readonly SoughtPhrase[],
    private readonly from: number,
    private readonly to: number,
  ) {
    this.#lower = text.slice(from, to).toLowerCase();
    const isComparable = this.#lower.length === to - from;
    const plain = isComparable ? words.filter(({ loose }) => !loose) : [];
    this.#cursors = plain.map((one) => ({ one, at: from, found: undefined }));
  }

  /** Returns the first match at or after a position, which must not decrease between calls. */
  next(from: number): Range | undefined {
    let first: Range | undefined;
    for (const cursor of this.#cursors) {
      this.#advance(cursor, from, first?.start ?? this.to);
      const { found } = cursor;
      if (found !== undefined && found.start < (first?.start ?? this.to)) first = found;
    }
    return first;
  }

  /** Advances a cursor to its next match, unless that starts at or after `before`. */
  #advance(cursor: Cursor, from: number, before: number): void {
    if (cursor.found !== undefined && cursor.found.start >= from) return;
    cursor.found = undefined;
    const [head = ''] = cursor.one.words;
    for (let at = Math.max(cursor.at, from); at < before; at += 1) {
      const next = this.#lower.indexOf(head, at - this.from);
      at = next < 0 ? this.to : this.from + next;
      cursor.at = at;
      if (at >= before) return;
      // Two units, because the preceding letter may be a surrogate pair.
      if (endsInWord(this.text.slice(Math.max(0, at - 2), at))) continue;
      const found = findFrom(this.text, [cursor.one], at, at + 1);
      if (found === undefined) continue;
      cursor.found = found;
      cursor.at = at + 1;
      return;
    }
    cursor.at = Math.max(cursor.at, Math.min(before, this.to));
  }
}

/**
 * Returns the first match with accents or in an unspaced script, if `PlainMatches` found none. Folding a whole text
 * takes as long as unpacking it, but only words with non-ASCII letters can change.
 */
function findFolded(text: string, words: readonly SoughtPhrase[]): Range | undefined {
  const stretches = stretchesBeyondAscii(text);
  const [earliest] = stretches;
  if (earliest === undefined) return undefined;
  const lower = foldWord(stretches.map(({ start, end }) => text.slice(start, end)).join(' '));
  // A word that no folded word contains cannot match, so most text need not be searched.
  const phrases = words.filter(({ words: [head = ''] }) => lower.includes(head));
  return phrases.length === 0 ? undefined : findFrom(text, phrases, earliest.start, text.length);
}

/** Returns the ranges between dividers that contain at least one non-ASCII character. */
function stretchesBeyondAscii(text: string): Range[] {
  // If lower-casing changes the length, `PlainMatches` has searched nothing.
  if (text.toLowerCase().length !== text.length) return [{ start: 0, end: text.length }];
  const found: Range[] = [];
  BEYOND_ASCII.lastIndex = 0;
  for (let next = BEYOND_ASCII.exec(text); next !== null; next = BEYOND_ASCII.exec(text)) {
    let start = next.index;
    let end = start + 1;
    while (start > 0 && !isDivider(text.charCodeAt(start - 1))) start -= 1;
    while (end < text.length && !isDivider(text.charCodeAt(end))) end += 1;
    found.push({ start, end });
    BEYOND_ASCII.lastIndex = end;
  }
  return found;
}

/** Excludes the characters that `isDivider` accepts. */
const BEYOND_ASCII = /[^\0-\x7f\u00a0\u2010-\u2027\u2030-\u203d]/g;

/** Spaces, control characters, and punctuation common in mail: dashes, quotation marks, dots, bullets. */
function isDivider(code: number): boolean {
  return (
    code <= 0x20 ||
    code === 0xa0 ||
    (code >= 0x2010 && code <= 0x2027) ||
    (code >= 0x2030 && code <= 0x203d)
  );
}

function findFrom(
  text: string,
  words: readonly SoughtPhrase[],
  from: number,
  to: number,
): Range | undefined {
  const window: { readonly word: string; readonly start: number; readonly end: number }[] = [];
  const longest = Math.max(...words.map((one) => (one.loose ? 1 : one.words.length)));
  let ahead = nextWord(text, from);
  for (;;) {
    while (ahead !== undefined && window.length < longest) {
      const shown = text.slice(ahead.start, ahead.end);
      window.push({ word: foldWord(shown), ...ahead });
      ahead = nextWord(text, ahead.end);
    }
    const [first] = window;
    if (first === undefined || first.start >= to) return undefined;
    for (const one of words) {
      const end = one.loose ? looseEnd(first, one) : matchEnd(window, one);
      if (end !== undefined) return end;
    }
    window.shift();
  }
}

function wordsIn(text: string): string[] {
  const words: string[] = [];
  for (let word = nextWord(text, 0); word !== undefined; word = nextWord(text, word.end))
    words.push(text.slice(word.start, word.end));
  return words;
}

/** Returns the first word at or after a position. Needs `WORD` only for letters that `kindOf` does not know. */
function nextWord(text: string, from: number): Range | undefined {
  let start = from;
  while (kindOf(text.charCodeAt(start)) === 'sign') start += 1;
  let end = start;
  while (kindOf(text.charCodeAt(end)) === 'part') end += 1;
  if (start === text.length) return undefined;
  if (end > start && (end === text.length || kindOf(text.charCodeAt(end)) === 'sign'))
    return { start, end };
  const word = WORD();
  word.lastIndex = start;
  const found = word.exec(text);
  return found === null ? undefined : { start: found.index, end: found.index + found[0].length };
}

function endsInWord(text: string): boolean {
  if (text === '') return false;
  const kind = kindOf(text.charCodeAt(text.length - 1));
  return kind === undefined ? PART_BEFORE().test(text) : kind === 'part';
}

/**
 * Reports whether a UTF-16 unit can be part of a word. Covers ASCII, Latin-1, Latin Extended-A and -B, and common
 * punctuation; undefined for anything else. An expression for all of Unicode takes longer to compile than most searches
 * take.
 */
function kindOf(code: number): 'part' | 'sign' | undefined {
  if (code < 0x80)
    return (code >= 0x61 && code <= 0x7a) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x30 && code <= 0x39)
      ? 'part'
      : 'sign';
  if (code < 0xc0) return LATIN_1_PARTS.includes(code) ? 'part' : 'sign';
  // The multiplication and division signs.
  if (code < 0x250) return code === 0xd7 || code === 0xf7 ? 'sign' : 'part';
  return isDivider(code) ? 'sign' : undefined;
}

const LATIN_1_PARTS = [0xaa, 0xb2, 0xb3, 0xb5, 0xb9, 0xba, 0xbc, 0xbd, 0xbe];

function matchEnd(
  window: readonly { readonly word: string; readonly start: number; readonly end: number }[],
  { words, prefix }: SoughtPhrase,
): Range | undefined {
  const last = words.length - 1;
  const isMatch = words.every((word, i) => {
    const shown = window[i]?.word;
    if (shown === undefined) return false;
    return i === last && prefix ? shown.startsWith(word) : shown === word;
  });
  if (!isMatch) return undefined;
  return { start: window[0]?.start ?? 0, end: window[last]?.end ?? 0 };
}

/** In an unspaced run, a match can start at any character. */
function looseEnd(
  shown: { readonly word: string; readonly start: number; readonly end: number },
  { words }: SoughtPhrase,
): Range | undefined {
  const [word = ''] = words;
  const at = shown.word.indexOf(word);
  if (at < 0) return undefined;
  // If folding changes the length, the whole run is marked.
  if (shown.word.length !== shown.end - shown.start) return { start: shown.start, end: shown.end };
  return { start: shown.start + at, end: shown.start + at + word.length };
}

/** Part of a message's text, with the ranges that the query matched. */
export interface Snippet {
  readonly text: string;
  readonly matches: readonly { readonly start: number; readonly end: number }[];
}

const LENGTH = 160;
/** Length of the text before the first match. */
const LEAD = 50;
/** Returns the part of a text around its first match, on one line. */
export function snippet(text: string, words: readonly SoughtPhrase[]): Snippet | undefined {
  const first = firstMatch(text, words);
  if (first === undefined) return undefined;
  const start = wordStart(text, Math.max(0, first.start - LEAD));
  const end = wordEnd(text, Math.min(text.length, Math.max(start + LENGTH, first.end)));
  return collapse(text, start, end, [first, ...matchesBetween(text, words, first.end, end)]);
}

/** Returns the start of a text without matches, on one line. */
export function openingText(text: string): string {
  return collapse(text, 0, wordEnd(text, Math.min(text.length, LENGTH)), []).text;
}

/** Returns the start of the word at a position, if it is nearby. */
function wordStart(text: string, at: number): number {
  let start = at;
  while (start > 0 && at - start < 20 && !/\s/u.test(text[start - 1] ?? '')) start -= 1;
  return at - start < 20 ? start : whole(text, at);
}

function wordEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && end - at < 20 && !/\s/u.test(text[end] ?? '')) end += 1;
  return end - at < 20 ? end : whole(text, at);
}

/** Returns a position that does not split a surrogate pair. */
function whole(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

/** Collapses white space into single spaces, and adjusts the ranges. */
function collapse(text: string, begin: number, end: number, found: readonly Range[]): Snippet {
  let start = begin;
  while (start < end && SPACE.test(text[start] ?? '')) start += 1;
  let out = begin > 0 ? '… ' : '';
  const piece = text.slice(start, end);
  // Offsets from `piece` to `out`. Only gaps of several characters change them.
  const shifts = [{ from: 0, by: out.length }];
  let at = 0;
  GAPS.lastIndex = 0;
  for (let gap = GAPS.exec(piece); gap !== null; gap = GAPS.exec(piece)) {
    const behind = GAPS.lastIndex;
    out += `${piece.slice(at, gap.index)} `;
    shifts.push({ from: behind, by: out.length - behind });
    at = behind;
  }
  out = `${out}${piece.slice(at)}`.trimEnd();
  const matches = found.flatMap((range) => {
    const [from, to] = [move(range.start - start, shifts), move(range.end - start, shifts)];
    return from === undefined || to === undefined || to > out.length
      ? []
      : [{ start: from, end: to }];
  });
  return { text: end < text.length ? `${out} …` : out, matches };
}

const SPACE = /\s/;
/** White space other than a single space. */
const GAPS = /[^\S ]\s*| \s+/g;

function move(at: number, shifts: readonly { from: number; by: number }[]): number | undefined {
  const shift = shifts.findLast(({ from }) => from <= at);
  return shift === undefined ? undefined : at + shift.by;
}

/** Part of a text with its line breaks, and whether text precedes and follows it. */
export interface Excerpt extends Snippet {
  readonly before: boolean;
  readonly after: boolean;
}

export interface Excerpts {
  readonly parts: readonly Excerpt[];
  /** A lower bound unless `complete`. */
  readonly hits: number;
  readonly complete: boolean;
}

/** UTF-16 units shown before and after a match. */
const BEFORE = 120;
const BEHIND = 240;
/** UTF-16 units shown of a text without matches. */
const BEGINNING = 4_000;
const MAX_PARTS = 20;
const MAX_HITS = 1_000;
/** UTF-16 units searched at a time. A word can extend this far into the next range. */
const STRETCH = 4_096;
const OVERLAP = 256;

/**
 * Returns the matches in a text, in order, with the text around them. If there are none, returns the start of the text.
 */
export function excerpts(text: string, words: readonly SoughtPhrase[]): Excerpts {
  const found: Range[] = [];
  let complete = true;
  if (firstMatch(text, words) !== undefined)
    for (const match of matchesIn(text, words)) {
      complete = found.length < MAX_HITS;
      if (!complete) break;
      found.push(match);
    }
  if (found.length === 0) return { parts: [stretch(text, 0, BEGINNING, [])], hits: 0, complete };
  const parts: { from: number; to: number; matches: Range[] }[] = [];
  for (const match of found) {
    const last = parts.at(-1);
    if (last !== undefined && match.start - BEFORE <= last.to) {
      // Adjacent matches must not form an endless part.
      if (match.end - last.from > BEGINNING) continue;
      last.matches.push(match);
      last.to = match.end + BEHIND;
    } else if (parts.length < MAX_PARTS)
      parts.push({ from: match.start - BEFORE, to: match.end + BEHIND, matches: [match] });
    else break;
  }
  return {
    parts: parts.map(({ from, to, matches }) => stretch(text, from, to, matches)),
    hits: found.length,
    complete,
  };
}

/** UTF-16 units in a small page, and before its match. */
const PAGE = 420;
const PAGE_LEAD = 80;

/** Returns a small page of a text, around the first match. */
export function firstExcerpt(text: string, words: readonly SoughtPhrase[]): Excerpt {
  const first = firstMatch(text, words);
  if (first === undefined || first.end <= PAGE / 2)
    return stretch(text, 0, PAGE, [
      ...matchesBetween(text, words, 0, first === undefined ? 0 : PAGE),
    ]);
  const from = first.start - PAGE_LEAD;
  const matches = [first, ...matchesBetween(text, words, first.end, from + PAGE)];
  return stretch(text, from, Math.max(from + PAGE, first.end), matches);
}

function* matchesIn(
  text: string,
  words: readonly SoughtPhrase[],
): Generator<Range, void, undefined> {
  for (let at = 0; at < text.length; ) {
    const end = Math.min(text.length, at + STRETCH);
    let next = end;
    for (const match of matchesBetween(text, words, at, Math.min(text.length, end + OVERLAP))) {
      yield match;
      next = Math.max(next, match.end);
    }
    at = next;
  }
}

/** Returns a part that ends at nearby word boundaries. Omits matches that it would cut. */
function stretch(text: string, from: number, to: number, found: readonly Range[]): Excerpt {
  const start = wordStart(text, Math.max(0, from));
  const end = wordEnd(text, Math.min(text.length, Math.max(start, to)));
  return {
    text: text.slice(start, end),
    matches: found
      .filter((match) => match.start >= start && match.end <= end)
      .map((match) => ({ start: match.start - start, end: match.end - start })),
    before: start > 0,
    after: end < text.length,
  };
}
