import { firstMatch, matchesBetween, type Range, type Sought } from './word-matches.ts';

/** A piece of a message's text, with the ranges (UTF-16 code units of `text`) that the query matched. */
export interface Snippet {
  readonly text: string;
  readonly matches: readonly { readonly start: number; readonly end: number }[];
}

const LENGTH = 160;
/** How much of the text stands before the first match. */
const LEAD = 50;
/**
 * The piece of `text` around the first place at which something sought stands, on one line; undefined when
 * nothing does.
 */
export function snippet(text: string, words: readonly Sought[]): Snippet | undefined {
  const first = firstMatch(text, words);
  if (first === undefined) return undefined;
  const start = wordStart(text, Math.max(0, first.start - LEAD));
  const end = wordEnd(text, Math.min(text.length, Math.max(start + LENGTH, first.end)));
  return folded(text, start, end, [first, ...matchesBetween(text, words, first.end, end)]);
}

/** How a text begins, on one line: what stands for it where nothing in it was sought. */
export function beginning(text: string): string {
  return folded(text, 0, wordEnd(text, Math.min(text.length, LENGTH)), []).text;
}

/** Back to the beginning of the word at a position, if it is near. */
export function wordStart(text: string, at: number): number {
  let start = at;
  while (start > 0 && at - start < 20 && !/\s/u.test(text[start - 1] ?? '')) start -= 1;
  return at - start < 20 ? start : whole(text, at);
}

export function wordEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && end - at < 20 && !/\s/u.test(text[end] ?? '')) end += 1;
  return end - at < 20 ? end : whole(text, at);
}

/** Not between the halves of a surrogate pair. */
function whole(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

/** White space becomes one space each, and the ranges move along. */
function folded(text: string, begin: number, end: number, found: readonly Range[]): Snippet {
  let start = begin;
  while (start < end && SPACE.test(text[start] ?? '')) start += 1;
  let out = begin > 0 ? '… ' : '';
  const piece = text.slice(start, end);
  // From where in `piece` to where in `out`: only gaps of more than one character move anything.
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
    const [from, to] = [moved(range.start - start, shifts), moved(range.end - start, shifts)];
    return from === undefined || to === undefined || to > out.length
      ? []
      : [{ start: from, end: to }];
  });
  return { text: end < text.length ? `${out} …` : out, matches };
}

const SPACE = /\s/;
/** White space that is not one blank. */
const GAPS = /[^\S ]\s*| \s+/g;

function moved(at: number, shifts: readonly { from: number; by: number }[]): number | undefined {
  const shift = shifts.findLast(({ from }) => from <= at);
  return shift === undefined ? undefined : at + shift.by;
}
