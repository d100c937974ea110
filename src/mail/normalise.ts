import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { catalogError } from '../core/error-tables.ts';
import { cutMarks } from '../core/types.ts';

/**
 * Normalises text for the index and for queries alike. FTS5's tokenizer folds case and diacritics; the rest happens
 * here: compatibility forms (NFKC), letters that are not a base letter with a mark (ß, æ, ø, ł …), and scripts without
 * spaces, where it would make a whole sentence one token.
 */
export function indexText(text: string): string {
  let written = '';
  let done = 0;
  for (;;) {
    BEYOND_ASCII.lastIndex = done;
    if (!BEYOND_ASCII.test(text)) break;
    // Include the letter before, to which marks may belong. Other ASCII characters neither change nor matter.
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
 * Applies NFKC, the letters below and a limit of 30 marks per letter; removes invisible characters, optional marks and
 * non-ASCII signs between words. Does not rewrite scripts without spaces.
 */
export function foldLetters(text: string): string {
  if (isAscii(text)) return text;
  // Remove invisible characters first: between marks, they would hide long runs of marks.
  const composed = cutMarks(text.replaceAll(INVISIBLE(), '').replaceAll(ISOLATED_MARKS, ''))
    .normalize('NFKC')
    .replaceAll(OPTIONAL_MARKS, '')
    .replaceAll(APOSTROPHES, "'");
  return withoutGeresh(composed)
    .replaceAll(BETWEEN_WORDS(), ' ')
    .replaceAll(SPECIAL, (letter) => LETTERS[letter] ?? letter)
    .replaceAll(GREEK, (letters) => letters.normalize('NFD').replaceAll(MARKS, ''));
}

/** Removes geresh and gershayim within words: צה״ל is one word, also with ASCII quotes, as most people type it. */
function withoutGeresh(text: string): string {
  return /[\u05d0-\u05ea]/.test(text)
    ? text.replaceAll(GERESH, '').replaceAll(GERSHAYIM, '')
    : text;
}

/**
 * Folds a word for comparisons outside FTS5: lower case, without marks on Latin and Greek letters, like `unicode61
 * remove_diacritics 2`. Marks that are part of other letters stay: й is not и.
 */
export function foldWord(word: string): string {
  if (isAscii(word)) return word.toLowerCase();
  // JavaScript's lower case depends on context: a capital sigma at a word's end becomes the final one.
  return foldLetters(word)
    .toLowerCase()
    .normalize('NFC')
    .replaceAll('ς', 'σ')
    .replaceAll(LATIN(), (letters) => letters.normalize('NFD'))
    .replaceAll(MARKS, '');
}

/** Returns pairs and the last character of a run: one-character queries thus match the start of some piece. */
export function bigrams(run: string): string[] {
  const characters = clusters(run);
  const last = characters.at(-1);
  return last === undefined ? [] : [...pairs(characters), last];
}

/** Returns the pieces of an unspaced run for a query: its pairs, or its only character. */
function queryBigrams(run: string): string[] {
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

function clusters(run: string): string[] {
  return run.match(/.\p{M}*/gsu) ?? [];
}

export function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the whole of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

/** Creates a value on first use: Unicode regexes take up to 3 ms each, which an ASCII search avoids. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** Minimum run of ASCII to skip when rewriting, which costs more than finding it. */
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
  // Interchangeable Arabic letters, and lookalikes in Persian and Urdu.
  ...{ آ: 'ا', أ: 'ا', إ: 'ا', ٱ: 'ا', ٲ: 'ا', ٳ: 'ا', ة: 'ه', ى: 'ي', ی: 'ي', ک: 'ك' },
  ...{ ۀ: 'ه', ہ: 'ه', ۂ: 'ه', ە: 'ه' },
};
/** Optional marks: harakat, Quranic signs, kashida, niqqud, cantillation, Syriac vowels, and enclosing marks. */
const OPTIONAL_MARKS =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each mark is meant by itself
  /(?:[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0897-\u089f\u08ca-\u08e1\u08e3-\u08ff\u20dd-\u20e0\u20e2-\u20e4]|\u0640|[\u{10efa}-\u{10eff}])+/gu;
/** Standalone presentation forms of harakat: NFKC would insert a space. */
const ISOLATED_MARKS = /[\ufc5e-\ufc63\ufe70-\ufe7f]+/g;
/** Unicode letters that look like an apostrophe: O\u02bcBrien is O'Brien. */
const APOSTROPHES = /[\u02b9-\u02bf\u02c8\u02ca\u02cb\u02ee\ua78b\ua78c]/g;
/** After these letters a geresh changes the sound; after others, an apostrophe may open a quotation. */
const GERESH =
  /(?<=[\u05d0-\u05ea])[\u05f3\u05f4](?=[\u05d0-\u05ea])|(?<=[גדזחטעצרת])['\u2018\u2019](?=[\u05d0-\u05ea])/gu;
const GERSHAYIM = /(?<=[\u05d0-\u05ea])["\u201c-\u201f](?=[\u05d0-\u05ea](?![\u05d0-\u05ea]))/gu;
/** FTS5 treats signs newer than its tables, such as most emoji, as letters. */
const BETWEEN_WORDS = once(() => /[^\p{L}\p{N}\p{M}\p{Co}\0-\x7f]+/gu);
/** Soft hyphens, joiners, direction marks: invisible, so not searched for. Fraud inserts them to evade filters. */
const INVISIBLE = once(() => /\p{Default_Ignorable_Code_Point}+/gu);
/** Excludes ASCII, which has no marks, and five letters whose marks the tokenizer keeps. */
const LATIN = once(() => /[^\P{Script=Latin}\0-\x7fǡǣǯǽǿ]+/gu);
const MARKS = /[\u0300-\u036f]/g;
/** Greek with accents and breathings, which the tokenizer keeps. */
const GREEK = /[\u0370-\u03ff\u1f00-\u1fff]+/gu;
const SPECIAL = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'gu');

/** Scripts without spaces or, as in Korean, with particles attached to words. */
const SCRIPTS = ['Han', 'Hira', 'Kana', 'Hang', 'Bopo', 'Thai', 'Laoo', 'Khmr', 'Mymr'];
/** Regular expression for one character of such a script. */
export const UNSPACED = `(?=[\\p{L}\\p{M}\\p{N}])[${SCRIPTS.map((script) => `\\p{scx=${script}}`).join('')}]`;
const RUN = once(() => new RegExp(`(?:${UNSPACED}\\p{M}*)+`, 'gu'));
/** Without `g`, because `test` must not keep a position. */
const RUNS = once(() => new RegExp(UNSPACED, 'u'));

/**
 * Words of the index's `meta` column: immutable, often selective filters that stop early within the index. All start
 * with z and contain no character at which the tokenizer splits.
 */

/** On every indexed message: the base of a query with only exclusions. */
export const TOKEN_ALL = 'zall';
export const TOKEN_ATTACHMENT = 'zatt';
export const TOKEN_INLINE = 'zinline';

/** Returns the word for messages that are or were in this mailbox, by its number in the catalog. */
export function mailboxToken(id: number): string {
  return `zbox${id}`;
}

/** Returns the words of a List-Id in order, so that a part of it is found as a phrase. */
export function listTokens(listId: string): string[] {
  return (foldWord(listId).match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `zl${word}`);
}

/** Returns the words for `image/png` and for any image. */
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

/** A word of the index's tokenizer. */
const WORD = once(() => /[\p{L}\p{N}\p{M}\p{Co}]+/gu);
/** The same in ASCII. */
const ASCII_WORD = /[0-9A-Za-z]+/g;

function wordsIn(text: string): readonly string[] {
  return text.match(isAscii(text) ? ASCII_WORD : WORD()) ?? [];
}

/**
 * Quotes a word or phrase of a query as an FTS5 string; undefined without indexed words. User text must reach MATCH
 * only this way: a quoted string has no syntax except doubled quotes, and only words are kept.
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
      // The run may continue in the message: pairs match within it, a single character at the start of any pair.
      words.push(...queryBigrams(part.text));
      star ||= bigrams(part.text).length === 1;
    }
  }
  if (words.length === 0) return undefined;
  return `"${words.join(' ')}"${star ? ' *' : ''}`;
}

/**
 * Packs text as one zstd frame without checksum, whose header contains the text's length in bytes.
 *
 * @param utf8 1 byte to 1 MiB
 * @param level 2 or more: level 1's window does not span the longest text, and then the header has two sizes
 */
export function packUtf8(utf8: Buffer, level: number): Buffer {
  return zstdCompressSync(utf8, {
    // One chunk for everything: the default of 128 KiB costs more than packing a short text.
    chunkSize: utf8.length + FRAME_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: level },
  });
}

/** Bytes above the headers of a frame and its blocks. Node.js refuses smaller chunks. */
const FRAME_BYTES = 64;

/**
 * Unpacks the result of `packUtf8`.
 *
 * @param maxBytes length of the longest text ever packed here; bounds the memory
 * @throws `catalog-damaged` with `reason` for invalid or longer data; a rebuild stores it again
 */
export function unpackUtf8(
  packed: Buffer,
  { maxBytes, file, reason }: { maxBytes: number; file: string; reason: string },
): string {
  try {
    const bytes = contentBytes(packed);
    if (bytes > maxBytes) throw new RangeError(`${bytes} bytes of text, but at most ${maxBytes}`);
    const utf8 = zstdDecompressSync(packed, {
      maxOutputLength: bytes,
      chunkSize: bytes + FRAME_BYTES,
    });
    // Node.js 22 returns the start of a truncated frame instead of throwing.
    if (utf8.length !== bytes) throw new RangeError(`${utf8.length} of ${bytes} bytes of text`);
    return utf8.toString('utf8');
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason }, error);
  }
}

/**
 * Returns the size in the frame's header (RFC 8878, 3.1.1.1), which equals its window size.
 *
 * @throws RangeError for a frame that `packUtf8` does not create
 */
function contentBytes(packed: Buffer): number {
  switch (packed[4]) {
    case 0x20:
      return packed.readUInt8(5);
    case 0x60:
      return packed.readUInt16LE(5) + 256;
    case 0xa0:
      return packed.readUInt32LE(5);
    default:
      throw new RangeError('no size in the frame header');
  }
}

/** UTF-8 bytes per message kept for snippets. Text beyond is searchable, but not in snippets. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * Packs a message's text, cut to `TEXT_BYTES_PER_MESSAGE`; null for no text.
 *
 * Each text is packed separately: any twenty hits cost twenty times 20 µs, and forgetting removes the text with its
 * row.
 */
export function packText(text: string): Buffer | null {
  // Cuts at a whole character. Every UTF-16 unit takes at least a byte, so the rest is irrelevant.
  const { written } = ENCODER.encodeInto(text.slice(0, TEXT_BYTES_PER_MESSAGE), SCRATCH);
  return written === 0 ? null : packUtf8(SCRATCH.subarray(0, written), LEVEL);
}

const ENCODER = new TextEncoder();
/** Reused: a buffer per text would be off-heap garbage, which triggers frequent collections. */
const SCRATCH = Buffer.alloc(TEXT_BYTES_PER_MESSAGE);

/** zstd level. Texts of real mail shrink to 0.473 in 26 µs; level 6 reaches 0.464 in 43 µs, 19 0.459 in 300 µs. */
const LEVEL = 3;

/**
 * Unpacks the result of `packText`.
 *
 * @throws `catalog-damaged` for invalid or longer data; a rebuild stores it again
 */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  return unpackUtf8(packed, { maxBytes: TEXT_BYTES_PER_MESSAGE, file, reason: 'text' });
}

/** Cached unpacked texts: about a dozen pages. */
const KEPT_TEXTS = 256;

/**
 * Unpacks texts of messages and caches recent ones: successive searches show many of the same messages, and Node.js
 * takes 12 µs to create a zstd context per text. Packed bytes are compared, so a replaced or forgotten text is never
 * returned.
 */
export class UnpackedTexts {
  readonly #kept = new Map<number, { readonly packed: Buffer; readonly text: string }>();

  constructor(private readonly file: string) {}

  /** Returns or throws as `unpackText` does. */
  of(docid: number, packed: Buffer | null): string {
    if (packed === null) return '';
    const known = this.#kept.get(docid);
    const text = known?.packed.equals(packed) ? known.text : unpackText(packed, this.file);
    this.#kept.delete(docid);
    this.#kept.set(docid, { packed, text });
    const oldest = this.#kept.keys().next();
    if (this.#kept.size > KEPT_TEXTS && oldest.done !== true) this.#kept.delete(oldest.value);
    return text;
  }
}
