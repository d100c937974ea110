/** What was found in a text: UTF-16 code units from `start` up to `end`. */
interface Match {
  readonly start: number;
  readonly end: number;
}

/** Code units before the first match at most: a narrow row shows some forty. */
const LEAD = 20;
/** A word is cut only if it is longer than this. */
const WORD = 16;

/** Returns a snippet that begins shortly before what was found, so that the end of a row does not hide it. */
export function rowSnippet(
  text: string,
  matches: readonly Match[],
): { readonly text: string; readonly matches: readonly Match[] } {
  const first = matches[0]?.start ?? 0;
  if (first <= LEAD + 2) return { text, matches };
  const from = first - LEAD;
  const blank = text.indexOf(' ', from - 1);
  const begin =
    blank >= 0 && blank < Math.min(first, from + WORD) ? blank + 1 : wholeAt(text, from);
  const moved = begin - 2;
  return {
    text: `… ${text.slice(begin)}`,
    matches: matches.map(({ start, end }) => ({ start: start - moved, end: end - moved })),
  };
}

/** A place that does not part the halves of a character. */
function wholeAt(text: string, at: number): number {
  return /[\uDC00-\uDFFF]/.test(text.charAt(at)) ? at + 1 : at;
}
