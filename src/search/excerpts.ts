import { type Snippet, wordEnd, wordStart } from './snippet.ts';
import { firstMatch, matchesBetween, type Range, type Sought } from './word-matches.ts';

/** A stretch of a text with its line breaks, and whether there is text before and behind it. */
export interface Excerpt extends Snippet {
  readonly before: boolean;
  readonly after: boolean;
}

/** What of a long text is shown. */
export interface Excerpts {
  readonly parts: readonly Excerpt[];
  /** Places at which something sought stands; at least so many where `complete` is false. */
  readonly hits: number;
  readonly complete: boolean;
}

/** UTF-16 units shown before a match, and behind it. */
const BEFORE = 120;
const BEHIND = 240;
/** UTF-16 units shown of a text in which nothing is sought. */
const BEGINNING = 4_000;
const MOST_PARTS = 20;
const MOST_HITS = 1_000;
/** UTF-16 units looked through at a time; a word that begins in one stretch may end this far in the next. */
const STRETCH = 4_096;
const OVERLAP = 256;

/** Returns the places of a text at which something sought stands, in order, each with what is around it; else its beginning. */
export function excerpts(text: string, words: readonly Sought[]): Excerpts {
  const found: Range[] = [];
  let complete = true;
  if (firstMatch(text, words) !== undefined)
    for (const match of matchesIn(text, words)) {
      complete = found.length < MOST_HITS;
      if (!complete) break;
      found.push(match);
    }
  if (found.length === 0) return { parts: [stretch(text, 0, BEGINNING, [])], hits: 0, complete };
  const parts: { from: number; to: number; matches: Range[] }[] = [];
  for (const match of found) {
    const last = parts.at(-1);
    if (last !== undefined && match.start - BEFORE <= last.to) {
      // Matches that never stop would be one part without an end.
      if (match.end - last.from > BEGINNING) continue;
      last.matches.push(match);
      last.to = match.end + BEHIND;
    } else if (parts.length < MOST_PARTS)
      parts.push({ from: match.start - BEFORE, to: match.end + BEHIND, matches: [match] });
    else break;
  }
  return {
    parts: parts.map(({ from, to, matches }) => stretch(text, from, to, matches)),
    hits: found.length,
    complete,
  };
}

/** UTF-16 units of a small page, and how many of them stand before the match it shows. */
const PAGE = 420;
const PAGE_LEAD = 80;

/** Returns the stretch of a text that fits a small page: around the first place at which something sought stands. */
export function smallPage(text: string, words: readonly Sought[]): Excerpt {
  const first = firstMatch(text, words);
  if (first === undefined || first.end <= PAGE / 2)
    return stretch(text, 0, PAGE, [
      ...matchesBetween(text, words, 0, first === undefined ? 0 : PAGE),
    ]);
  const from = first.start - PAGE_LEAD;
  const matches = [first, ...matchesBetween(text, words, first.end, from + PAGE)];
  return stretch(text, from, Math.max(from + PAGE, first.end), matches);
}

function* matchesIn(text: string, words: readonly Sought[]): Generator<Range, void, undefined> {
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

/** Ends at words where they are near; matches that it cuts are left out. */
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
