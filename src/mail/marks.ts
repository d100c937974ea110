/**
 * Returns the text with at most 30 combining marks in a row, what follows them in the row cut. Use it before
 * `normalize`, which sorts the marks of a row in quadratic time; 30 is what Unicode's Stream-Safe Text Format allows
 * (UAX #15), and no language writes ten.
 */
export function cutMarks(text: string): string {
  // The halfwidth sound marks are letters that become marks in NFKC. Made here, and not for a command that meets none.
  return text.replace(/([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu, '$1');
}
