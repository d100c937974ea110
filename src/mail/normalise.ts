import { brotliDecompressSync, constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { catalogError } from '../core/error-tables.ts';
import { cutMarks } from '../core/types.ts';

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

/**
 * Packs text as one zstd frame, without a checksum, whose header states how many bytes it holds.
 *
 * @param utf8 1 byte to 1 MiB
 * @param level 2 or more: the window of level 1 does not span the longest text, and then the header states two sizes
 */
export function packUtf8(utf8: Buffer, level: number): Buffer {
  return zstdCompressSync(utf8, {
    // Room for all of it at once: the default of 128 KiB costs more than packing a short text.
    chunkSize: utf8.length + FRAME_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: level },
  });
}

/** More than the headers of a frame and its blocks take, in bytes. Node.js refuses smaller chunks than this. */
const FRAME_BYTES = 64;

/**
 * Unpacks what `packUtf8` made, or the brotli stream that programs before version 4 of the catalog stored.
 *
 * @param maxBytes bytes of the longest text that was ever packed here; unpacking takes no more memory than that
 * @throws `catalog-damaged` with `reason` for what does not unpack or holds more; a rebuild stores it again
 */
export function unpackUtf8(
  packed: Buffer,
  { maxBytes, file, reason }: { maxBytes: number; file: string; reason: string },
): string {
  try {
    return (isZstd(packed) ? fromZstd : fromBrotli)(packed, maxBytes).toString('utf8');
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason }, error);
  }
}

/**
 * The first bytes of every zstd frame. No brotli stream begins with them: to brotli they start an uncompressed block with
 * padding bits that are not zero (RFC 7932, 9.2).
 */
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

function isZstd(packed: Buffer): boolean {
  return packed.subarray(0, ZSTD_MAGIC.length).equals(ZSTD_MAGIC);
}

function fromZstd(packed: Buffer, maxBytes: number): Buffer {
  const bytes = contentBytes(packed);
  if (bytes > maxBytes) throw new RangeError(`${bytes} bytes of text, but at most ${maxBytes}`);
  const utf8 = zstdDecompressSync(packed, {
    maxOutputLength: bytes,
    chunkSize: bytes + FRAME_BYTES,
  });
  // Node.js 22 returns the beginning of a frame that is cut off instead of throwing.
  if (utf8.length !== bytes) throw new RangeError(`${utf8.length} of ${bytes} bytes of text`);
  return utf8;
}

/**
 * Returns the size in the frame's header (RFC 8878, 3.1.1.1), which is also the size of its window.
 *
 * @throws RangeError for a frame that `packUtf8` does not make
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

function fromBrotli(packed: Buffer, maxBytes: number): Buffer {
  // Most texts pack to more than a quarter: unpacking then takes one step, and hardly more memory than the text.
  const chunkSize = FRAME_BYTES + Math.min(maxBytes, packed.length * 4);
  return brotliDecompressSync(packed, { maxOutputLength: maxBytes, chunkSize });
}

/** Text kept for snippets: of one message, bytes of UTF-8. What lies beyond is searchable, but shown by no snippet. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * Packs a message's text, cut to `TEXT_BYTES_PER_MESSAGE`; null for no text.
 *
 * Each text is packed by itself: twenty hits then cost twenty times 20 µs wherever they stand, and what is forgotten
 * goes with its row.
 */
export function packText(text: string): Buffer | null {
  // Without half a character at the end. No UTF-16 unit takes less than a byte: those behind need not be looked at.
  const { written } = ENCODER.encodeInto(text.slice(0, TEXT_BYTES_PER_MESSAGE), SCRATCH);
  return written === 0 ? null : packUtf8(SCRATCH.subarray(0, written), LEVEL);
}

const ENCODER = new TextEncoder();
/** Used again for each text: a buffer each would be garbage outside of the heap, which has the collector run often. */
const SCRATCH = Buffer.alloc(TEXT_BYTES_PER_MESSAGE);

/**
 * The level of zstd. Texts of real mail shrink to 0.473 at 26 µs each; level 6 takes them to 0.464 at 43 µs, level 19 to
 * 0.459 at 300 µs.
 */
const LEVEL = 3;

/**
 * Unpacks what `packText` made.
 *
 * @throws `catalog-damaged` for what does not unpack or is longer; a rebuild stores it again
 */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  return unpackUtf8(packed, { maxBytes: TEXT_BYTES_PER_MESSAGE, file, reason: 'text' });
}

/** Texts that are kept unpacked: those of about a dozen pages. */
const KEPT_TEXTS = 256;

/**
 * Unpacks texts of messages and keeps those that were asked for last: one search after another shows many of the same
 * messages, and Node.js takes 12 µs to make a zstd context for each text. A text is recognised by the bytes it was unpacked
 * from, so one that was replaced or forgotten is not given again.
 */
export class UnpackedTexts {
  readonly #kept = new Map<number, { readonly packed: Buffer; readonly text: string }>();

  constructor(private readonly file: string) {}

  /** Returns the text of a message, and throws, as `unpackText`. */
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
