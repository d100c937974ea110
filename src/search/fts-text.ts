import { bigrams, foldLetters, isAscii, once, queryBigrams, splitRuns } from './normalise.ts';

/** What the tokenizer of the index takes for part of a word. */
const WORD = once(() => /[\p{L}\p{N}\p{M}\p{Co}]+/gu);
/** The same in ASCII. */
const ASCII_WORD = /[0-9A-Za-z]+/g;

function wordsIn(text: string): readonly string[] {
  return text.match(isAscii(text) ? ASCII_WORD : WORD()) ?? [];
}

/**
 * A word or phrase of a query as an FTS5 string, quoted, or undefined when it holds nothing that is indexed.
 * User text reaches MATCH by no other way: a quoted string has no syntax but the doubling of its quotes, and
 * even those are gone here, since only words are kept.
 */
export function ftsString(text: string, prefix: boolean): string | undefined {
  const words: string[] = [];
  let star = prefix;
  const parts = splitRuns(foldLetters(text)).filter((part) => wordsIn(part.text).length > 0);
  for (const [index, part] of parts.entries()) {
    const last = index === parts.length - 1;
    if (!part.unspaced) words.push(...wordsIn(part.text));
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
