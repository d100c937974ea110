import { bigrams, foldLetters, queryBigrams, splitRuns } from './normalise.ts';

/** What the tokenizer of the index takes for part of a word. */
const WORD = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;

/**
 * A word or phrase of a query as an FTS5 string, quoted, or undefined when it holds nothing that is indexed.
 * User text reaches MATCH by no other way: a quoted string has no syntax but the doubling of its quotes, and
 * even those are gone here, since only words are kept.
 */
export function ftsString(text: string, prefix: boolean): string | undefined {
  const words: string[] = [];
  let star = prefix;
  const parts = splitRuns(foldLetters(text)).filter((part) => part.text.match(WORD) !== null);
  for (const [index, part] of parts.entries()) {
    const last = index === parts.length - 1;
    if (!part.unspaced) words.push(...(part.text.match(WORD) ?? []));
    else if (!last) words.push(...bigrams(part.text));
    else {
      // The run may go on in the message: pairs match inside it, a single character at the head of any pair.
      words.push(...queryBigrams(part.text));
      star ||= bigrams(part.text).length === 1;
    }
  }
  if (words.length === 0) return undefined;
  return `"${words.join(' ')}"${star ? ' *' : ''}`;
}
