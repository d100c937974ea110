import { cutMarks } from '../mail/marks.ts';

/**
 * One form of text for the index and for queries, so that both sides of a comparison went through the same
 * hands. FTS5's own tokenizer folds case and diacritics; what it cannot do is done here: compatibility forms
 * (NFKC), letters that are no base letter with a mark (ß, æ, ø, ł …), and scripts written without spaces, of
 * which it would make one token a sentence.
 */
export function indexText(text: string): string {
  let written = '';
  let done = 0;
  for (;;) {
    BEYOND_ASCII.lastIndex = done;
    if (!BEYOND_ASCII.test(text)) break;
    // With the letter before it, to which marks may belong. No other ASCII character is changed or changes anything.
    const start = Math.max(done, BEYOND_ASCII.lastIndex - 2);
    ASCII_STRETCH.lastIndex = BEYOND_ASCII.lastIndex;
    const end = ASCII_STRETCH.test(text) ? ASCII_STRETCH.lastIndex - STRETCH : text.length;
    written += text.slice(done, start) + rewritten(text.slice(start, end));
    done = end;
  }
  return done === 0 ? text : written + text.slice(done);
}

function rewritten(text: string): string {
  const folded = foldLetters(text);
  return RUNS().test(folded)
    ? folded.replaceAll(RUN(), (run) => ` ${bigrams(run).join(' ')} `)
    : folded;
}

/**
 * NFKC, only ASCII's signs between words, no invisible characters or optional marks, at most 30 marks on a letter, and
 * the letters below, without the rewriting of unspaced scripts.
 */
export function foldLetters(text: string): string {
  if (isAscii(text)) return text;
  // Invisible characters go first: between marks, they would hide how many of these stand in a row.
  const composed = cutMarks(text.replaceAll(INVISIBLE(), '').replaceAll(ISOLATED_MARKS, ''))
    .normalize('NFKC')
    .replaceAll(OPTIONAL_MARKS, '')
    .replaceAll(APOSTROPHES, "'");
  return withoutGeresh(composed)
    .replaceAll(BETWEEN_WORDS(), ' ')
    .replaceAll(SPECIAL, (letter) => LETTERS[letter] ?? letter)
    .replaceAll(GREEK, (letters) => letters.normalize('NFD').replaceAll(MARKS, ''));
}

/** Joins what geresh and gershayim part: צה״ל is one word, also with ASCII's signs, as most people type it. */
function withoutGeresh(text: string): string {
  return /[\u05d0-\u05ea]/.test(text)
    ? text.replaceAll(GERESH, '').replaceAll(GERSHAYIM, '')
    : text;
}

/**
 * A word as comparisons outside of FTS5 want it: folded, in lower case and without marks on Latin and Greek letters,
 * as `unicode61 remove_diacritics 2` has them. Marks that are part of other letters stay: й is not и.
 */
export function foldWord(word: string): string {
  if (isAscii(word)) return word.toLowerCase();
  // Lower case in JavaScript depends on neighbours: a capital sigma at the end of a word becomes the final one.
  return foldLetters(word)
    .toLowerCase()
    .normalize('NFC')
    .replaceAll('ς', 'σ')
    .replaceAll(LATIN(), (letters) => letters.normalize('NFD'))
    .replaceAll(MARKS, '');
}

/**
 * Pieces of an unspaced run for the index: overlapping pairs, and the last character alone, so that a query of
 * one character finds every one of them as the beginning of a piece.
 */
export function bigrams(run: string): string[] {
  const characters = clusters(run);
  const last = characters.at(-1);
  return last === undefined ? [] : [...pairs(characters), last];
}

/** Pieces of an unspaced run for a query: its pairs, or the one character there is. */
export function queryBigrams(run: string): string[] {
  const characters = clusters(run);
  return characters.length === 1 ? characters : pairs(characters);
}

/** Splits folded text into unspaced runs and the rest, in order. */
export function splitRuns(text: string): { readonly text: string; readonly unspaced: boolean }[] {
  if (isAscii(text)) return text === '' ? [] : [{ text, unspaced: false }];
  const parts: { readonly text: string; readonly unspaced: boolean }[] = [];
  let end = 0;
  for (const match of text.matchAll(RUN())) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), unspaced: false });
    parts.push({ text: match[0], unspaced: true });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), unspaced: false });
  return parts;
}

function pairs(characters: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i + 1 < characters.length; i += 1)
    out.push(`${characters[i] ?? ''}${characters[i + 1] ?? ''}`);
  return out;
}

/** Base characters with the marks that follow them. */
function clusters(run: string): string[] {
  return run.match(/.\p{M}*/gsu) ?? [];
}

/** True where no character lies beyond ASCII. */
export function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the whole of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

/**
 * Makes something when it is first asked for. Regular expressions with properties of characters take one to three
 * milliseconds each to make, which a search of ASCII from the command line need not wait for.
 */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** As many ASCII characters in a row are left out of the rewriting, which costs more than finding them. */
const STRETCH = 16;
const ASCII_STRETCH = /[\0-\x7f]{16}/g;
const BEYOND_ASCII = /[^\0-\x7f]/g;

const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  ẞ: 'SS',
  æ: 'ae',
  Æ: 'AE',
  œ: 'oe',
  Œ: 'OE',
  ø: 'o',
  Ø: 'O',
  ł: 'l',
  Ł: 'L',
  đ: 'd',
  Đ: 'D',
  ð: 'd',
  Ð: 'D',
  þ: 'th',
  Þ: 'TH',
  ħ: 'h',
  Ħ: 'H',
  ı: 'i',
  İ: 'I',
  ё: 'е',
  Ё: 'Е',
  ς: 'σ',
  // Arabic letters that people write for each other, and those of Persian and Urdu that look the same.
  ...{ آ: 'ا', أ: 'ا', إ: 'ا', ٱ: 'ا', ٲ: 'ا', ٳ: 'ا', ة: 'ه', ى: 'ي', ی: 'ي', ک: 'ك' },
  ...{ ۀ: 'ه', ہ: 'ه', ۂ: 'ه', ە: 'ه' },
};
/**
 * Marks that writers may leave out: harakat, Quranic signs, kashida, niqqud, cantillation, Syriac vowels, and frames
 * around a character such as that of a keycap.
 */
const OPTIONAL_MARKS =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each mark is meant by itself
  /(?:[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0897-\u089f\u08ca-\u08e1\u08e3-\u08ff\u20dd-\u20e0\u20e2-\u20e4]|\u0640|[\u{10efa}-\u{10eff}])+/gu;
/** Presentation forms of harakat without a letter: NFKC would put a space in their place. */
const ISOLATED_MARKS = /[\ufc5e-\ufc63\ufe70-\ufe7f]+/g;
/** Letters of Unicode that people read as an apostrophe: O\u02bcBrien is O'Brien. */
const APOSTROPHES = /[\u02b9-\u02bf\u02c8\u02ca\u02cb\u02ee\ua78b\ua78c]/g;
/** After these letters a geresh changes the sound; after others, an apostrophe may open a quotation. */
const GERESH =
  /(?<=[\u05d0-\u05ea])[\u05f3\u05f4](?=[\u05d0-\u05ea])|(?<=[גדזחטעצרת])['\u2018\u2019](?=[\u05d0-\u05ea])/gu;
const GERSHAYIM = /(?<=[\u05d0-\u05ea])["\u201c-\u201f](?=[\u05d0-\u05ea](?![\u05d0-\u05ea]))/gu;
/** FTS5 takes signs that are younger than its tables, as most emoji are, for letters. */
const BETWEEN_WORDS = once(() => /[^\p{L}\p{N}\p{M}\p{Co}\0-\x7f]+/gu);
/**
 * Soft hyphens, joiners, direction marks: nobody sees them, so nobody looks for them. Fraud puts them into words to
 * hide these from filters.
 */
const INVISIBLE = once(() => /\p{Default_Ignorable_Code_Point}+/gu);
/** Those of ASCII have no marks; five have marks that the tokenizer leaves on. */
const LATIN = once(() => /[^\P{Script=Latin}\0-\x7fǡǣǯǽǿ]+/gu);
const MARKS = /[\u0300-\u036f]/g;
/** Greek with accents and breathings, which the tokenizer leaves on. */
const GREEK = /[\u0370-\u03ff\u1f00-\u1fff]+/gu;
const SPECIAL = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'gu');

/** Scripts written without spaces, or, as Korean, with particles that stick to the word. */
const SCRIPTS = ['Han', 'Hira', 'Kana', 'Hang', 'Bopo', 'Thai', 'Laoo', 'Khmr', 'Mymr'];
/** One character of such a script, as a piece of a regular expression. */
export const UNSPACED = `(?=[\\p{L}\\p{M}\\p{N}])[${SCRIPTS.map((script) => `\\p{scx=${script}}`).join('')}]`;
const RUN = once(() => new RegExp(`(?:${UNSPACED}\\p{M}*)+`, 'gu'));
/** Without `g`: `test` must not remember a place. */
const RUNS = once(() => new RegExp(UNSPACED, 'u'));
