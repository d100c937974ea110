import {
  bigrams,
  foldLetters,
  foldWord,
  isAscii,
  once,
  queryBigrams,
  splitRuns,
} from './normalise.ts';

/**
 * Words of the index's `meta` column: filters that never change for a message and may be selective, so that
 * they stop early inside the index. All begin with z and have no character at which the tokenizer splits.
 */

/** Every indexed message has it: what a query of exclusions starts from. */
export const TOKEN_ALL = 'zall';
export const TOKEN_ATTACHMENT = 'zatt';
export const TOKEN_INLINE = 'zinline';

/** A place in this mailbox, by its number in the catalog, now or ever. */
export function mailboxToken(id: number): string {
  return `zbox${id}`;
}

/** Words of a List-Id, in order, so that a part of it is found as a phrase. */
export function listTokens(listId: string): string[] {
  return (foldWord(listId).match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `zl${word}`);
}

/** `image/png` as itself, and as any image. */
export function mimeTokens(contentType: string): string[] {
  const [type = '', subtype = ''] = contentType.toLowerCase().split(';', 1)[0]?.split('/') ?? [];
  const major = plain(type);
  const minor = plain(subtype);
  if (major === '') return [];
  return minor === '' ? [`zm${major}`] : [`zm${major}`, `zm${major}z${minor}`];
}

function plain(text: string): string {
  return text.replaceAll(/[^a-z0-9]/g, '');
}

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
