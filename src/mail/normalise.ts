import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { catalogError } from '../core/error-tables.ts';
import { cutMarks } from '../core/types.ts';

/**
 * Normalises text for the index and for queries. FTS5's tokenizer folds case and diacritics. This function does the
 * rest: compatibility forms (NFKC), letters that are more than a base letter with a mark (ß, æ, ø, ł …), and scripts
 * without spaces, where the tokenizer would treat a sentence as one token.
 */
export function indexText(text: string): string {
  let output = '';
  let position = 0;
  for (;;) {
    BEYOND_ASCII.lastIndex = position;
    if (!BEYOND_ASCII.test(text)) break;
    // Include the preceding letter, which may carry the marks. Other ASCII characters do not matter.
    const start = Math.max(position, BEYOND_ASCII.lastIndex - 2);
    ASCII_STRETCH.lastIndex = BEYOND_ASCII.lastIndex;
    const end = ASCII_STRETCH.test(text) ? ASCII_STRETCH.lastIndex - STRETCH : text.length;
    output += text.slice(position, start) + rewriteScripts(text.slice(start, end));
    position = end;
  }
  return position === 0 ? text : output + text.slice(position);
}

function rewriteScripts(text: string): string {
  const letters = foldLetters(text);
  return RUNS().test(letters)
    ? letters.replaceAll(RUN(), (run) => ` ${bigrams(run).join(' ')} `)
    : letters;
}

/**
 * Applies NFKC, the folds below and a limit of 30 marks per letter. Removes invisible characters, optional marks, and
 * non-ASCII symbols between words. Leaves scripts without spaces unchanged.
 */
export function foldLetters(text: string): string {
  if (isAscii(text)) return text;
  // Invisible characters between marks would hide long runs of marks.
  const letters = cutMarks(text.replaceAll(INVISIBLE(), '').replaceAll(ISOLATED_MARKS, ''))
    .normalize('NFKC')
    .replaceAll(OPTIONAL_MARKS, '')
    .replaceAll(APOSTROPHES, "'");
  return removeGeresh(letters)
    .replaceAll(BETWEEN_WORDS(), ' ')
    .replaceAll(SPECIAL, (letter) => LETTERS[letter] ?? letter)
    .replaceAll(GREEK, (letters) => letters.normalize('NFD').replaceAll(MARKS, ''));
}

/** Removes geresh and gershayim within words, so that צה״ל is one word even when typed with ASCII quotes. */
function removeGeresh(text: string): string {
  return /[\u05d0-\u05ea]/.test(text)
    ? text.replaceAll(GERESH, '').replaceAll(GERSHAYIM, '')
    : text;
}

/**
 * Folds a word as FTS5 does with `unicode61 remove_diacritics 2`: lower case, without marks on Latin and Greek letters.
 * Keeps marks on other letters: й is not и.
 */
export function foldWord(word: string): string {
  if (isAscii(word)) return word.toLowerCase();
  // In JavaScript, a capital sigma at the end of a word becomes ς.
  return foldLetters(word)
    .toLowerCase()
    .normalize('NFC')
    .replaceAll('ς', 'σ')
    .replaceAll(LATIN(), (letters) => letters.normalize('NFD'))
    .replaceAll(MARKS, '');
}

/** Returns a run's character pairs and its last character, so that every character starts a piece. */
export function bigrams(run: string): string[] {
  const characters = clusters(run);
  const last = characters.at(-1);
  return last === undefined ? [] : [...pairs(characters), last];
}

/** Returns the pieces to search for: a run's pairs, or its only character. */
function queryBigrams(run: string): string[] {
  const characters = clusters(run);
  return characters.length === 1 ? characters : pairs(characters);
}

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
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range covers all of ASCII
  return /^[\x00-\x7f]*$/.test(text);
}

/** Creates a value on first use. A Unicode regex takes up to 3 ms to create, and ASCII searches need none. */
export function lazy<T>(make: () => T): () => T {
  let cache: { readonly value: T } | undefined;
  return () => {
    cache ??= { value: make() };
    return cache.value;
  };
}

/** Shorter runs of ASCII are cheaper to rewrite than to skip. */
const STRETCH = 16;
const ASCII_STRETCH = /[\0-\x7f]{16}/g;
const BEYOND_ASCII = /[^\0-\x7f]/g;

const LETTERS: Readonly<Record<string, string>> = {
  ...{ ß: 'ss', ẞ: 'SS', æ: 'ae', Æ: 'AE', œ: 'oe', Œ: 'OE', ø: 'o', Ø: 'O', ł: 'l', Ł: 'L' },
  ...{ đ: 'd', Đ: 'D', ð: 'd', Ð: 'D', þ: 'th', Þ: 'TH', ħ: 'h', Ħ: 'H', ı: 'i', İ: 'I' },
  ...{ ё: 'е', Ё: 'Е', ς: 'σ' },
  // Interchangeable Arabic letters, and lookalikes in Persian and Urdu.
  ...{ آ: 'ا', أ: 'ا', إ: 'ا', ٱ: 'ا', ٲ: 'ا', ٳ: 'ا', ة: 'ه', ى: 'ي', ی: 'ي', ک: 'ك' },
  ...{ ۀ: 'ه', ہ: 'ه', ۂ: 'ه', ە: 'ه' },
};
/** Harakat, Quranic signs, kashida, niqqud, cantillation, Syriac vowels, and enclosing marks. */
const OPTIONAL_MARKS =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each mark stands for itself
  /(?:[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0897-\u089f\u08ca-\u08e1\u08e3-\u08ff\u20dd-\u20e0\u20e2-\u20e4]|\u0640|[\u{10efa}-\u{10eff}])+/gu;
/** Standalone forms of harakat. NFKC would insert a space. */
const ISOLATED_MARKS = /[\ufc5e-\ufc63\ufe70-\ufe7f]+/g;
/** Letters that look like an apostrophe: O\u02bcBrien is O'Brien. */
const APOSTROPHES = /[\u02b9-\u02bf\u02c8\u02ca\u02cb\u02ee\ua78b\ua78c]/g;
/** After these letters, a geresh changes the sound. After others, an apostrophe may open a quotation. */
const GERESH =
  /(?<=[\u05d0-\u05ea])[\u05f3\u05f4](?=[\u05d0-\u05ea])|(?<=[גדזחטעצרת])['\u2018\u2019](?=[\u05d0-\u05ea])/gu;
const GERSHAYIM = /(?<=[\u05d0-\u05ea])["\u201c-\u201f](?=[\u05d0-\u05ea](?![\u05d0-\u05ea]))/gu;
/** FTS5 treats symbols that are newer than its tables, such as most emoji, as letters. */
const BETWEEN_WORDS = lazy(() => /[^\p{L}\p{N}\p{M}\p{Co}\0-\x7f]+/gu);
/** Soft hyphens, joiners and direction marks. Nobody searches for them, and fraudsters insert them to evade filters. */
const INVISIBLE = lazy(() => /\p{Default_Ignorable_Code_Point}+/gu);
/** Excludes ASCII, which has no marks, and five letters whose marks the tokenizer keeps. */
const LATIN = lazy(() => /[^\P{Script=Latin}\0-\x7fǡǣǯǽǿ]+/gu);
const MARKS = /[\u0300-\u036f]/g;
/** The tokenizer keeps the accents and breathings of Greek. */
const GREEK = /[\u0370-\u03ff\u1f00-\u1fff]+/gu;
const SPECIAL = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'gu');

/** Scripts without spaces, and Korean, which attaches particles to words. */
const SCRIPTS = ['Han', 'Hira', 'Kana', 'Hang', 'Bopo', 'Thai', 'Laoo', 'Khmr', 'Mymr'];
export const UNSPACED = `(?=[\\p{L}\\p{M}\\p{N}])[${SCRIPTS.map((script) => `\\p{scx=${script}}`).join('')}]`;
const RUN = lazy(() => new RegExp(`(?:${UNSPACED}\\p{M}*)+`, 'gu'));
/** No `g` flag: `test` must not keep a position. */
const RUNS = lazy(() => new RegExp(UNSPACED, 'u'));

/**
 * Words in the index's `meta` column. They act as filters that never change, are often selective, and stop early within
 * the index. All start with z and contain no word separators.
 */

/** Added to every indexed message, for queries that only exclude. */
export const TOKEN_ALL = 'zall';
export const TOKEN_ATTACHMENT = 'zatt';
export const TOKEN_INLINE = 'zinline';

export function mailboxToken(id: number): string {
  return `zbox${id}`;
}

/** Returns the words of a List-Id in order, so that a phrase can match part of it. */
export function listTokens(listId: string): string[] {
  return (foldWord(listId).match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `zl${word}`);
}

/** Returns two words: for `image/png`, one for the type and one for any image. */
export function mimeTokens(contentType: string): string[] {
  const [type = '', subtype = ''] = contentType.toLowerCase().split(';', 1)[0]?.split('/') ?? [];
  const major = lettersAndDigits(type);
  const minor = lettersAndDigits(subtype);
  if (major === '') return [];
  return minor === '' ? [`zm${major}`] : [`zm${major}`, `zm${major}z${minor}`];
}

function lettersAndDigits(text: string): string {
  return text.replaceAll(/[^a-z0-9]/g, '');
}

const WORD = lazy(() => /[\p{L}\p{N}\p{M}\p{Co}]+/gu);
const ASCII_WORD = /[0-9A-Za-z]+/g;

function splitWords(text: string): readonly string[] {
  return text.match(isAscii(text) ? ASCII_WORD : WORD()) ?? [];
}

/**
 * Quotes a word or phrase from a query as an FTS5 string, or returns undefined if it has no indexed words. User text
 * must reach MATCH only through here: the only syntax in a quoted string is doubled quotes.
 */
export function ftsString(text: string, prefix: boolean): string | undefined {
  const words: string[] = [];
  let star = prefix;
  const parts = splitRuns(foldLetters(text)).filter((part) => splitWords(part.text).length > 0);
  for (const [index, part] of parts.entries()) {
    const last = index === parts.length - 1;
    if (!part.unspaced) words.push(...splitWords(part.text));
    else if (!last) words.push(...bigrams(part.text));
    else {
      // The run may continue in the message. Pairs match inside it; a single character matches the start of any pair.
      words.push(...queryBigrams(part.text));
      star ||= bigrams(part.text).length === 1;
    }
  }
  if (words.length === 0) return undefined;
  return `"${words.join(' ')}"${star ? ' *' : ''}`;
}

/**
 * Packs text as one zstd frame without a checksum. The frame header contains the length in bytes.
 *
 * @param utf8 1 byte to 1 MiB
 * @param level 2 or more. Level 1's window does not span the longest text, so the header would have two sizes
 */
export function packUtf8(utf8: Buffer, level: number): Buffer {
  return zstdCompressSync(utf8, {
    // Use a single chunk: the default of 128 KiB costs more than packing a short text.
    chunkSize: utf8.length + FRAME_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: level },
  });
}

/** Space for the headers of a frame and its blocks. Node.js rejects smaller chunks. */
const FRAME_BYTES = 64;

/**
 * Unpacks the output of `packUtf8`.
 *
 * @param maxBytes length of the longest text ever packed here
 * @throws `catalog-damaged` with `reason` if the data is invalid or too long. A rebuild fixes this
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
 * Returns the size declared in a frame's header (RFC 8878, 3.1.1.1), which equals its window size.
 *
 * @throws RangeError if `packUtf8` would never create such a frame
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

/** UTF-8 bytes to keep per message for snippets. Later text is searchable, but never shown in snippets. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * Packs the first `TEXT_BYTES_PER_MESSAGE` bytes of a text, or returns null if it is empty. Each text is packed
 * separately, so reading twenty hits takes just twenty times 20 µs, and forgetting a message deletes its text.
 */
export function packText(text: string): Buffer | null {
  // `encodeInto` never splits a character. A UTF-16 unit takes at least one byte.
  const { written } = ENCODER.encodeInto(text.slice(0, TEXT_BYTES_PER_MESSAGE), SCRATCH);
  return written === 0 ? null : packUtf8(SCRATCH.subarray(0, written), LEVEL);
}

const ENCODER = new TextEncoder();
/** Reused, because a buffer per text would be off-heap garbage that triggers frequent collections. */
const SCRATCH = Buffer.alloc(TEXT_BYTES_PER_MESSAGE);

/** Level 3 shrinks real mail to 0.473 of its size in 26 µs, level 6 to 0.464 in 43 µs, level 19 to 0.459 in 300 µs. */
const LEVEL = 3;

/** @throws `catalog-damaged` if the data is invalid or too long. A rebuild fixes this */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  return unpackUtf8(packed, { maxBytes: TEXT_BYTES_PER_MESSAGE, file, reason: 'text' });
}

const KEPT_TEXTS = 256;

/**
 * Unpacks message texts and caches recent ones. Successive searches show many of the same messages, and Node.js takes
 * 12 µs per text to create a zstd context. Compares packed bytes, so a replaced or forgotten text is never returned.
 */
export class UnpackedTexts {
  readonly #cache = new Map<number, { readonly packed: Buffer; readonly text: string }>();

  constructor(private readonly file: string) {}

  /** @throws the same errors as `unpackText` */
  of(docid: number, packed: Buffer | null): string {
    if (packed === null) return '';
    const cached = this.#cache.get(docid);
    const text = cached?.packed.equals(packed) ? cached.text : unpackText(packed, this.file);
    this.#cache.delete(docid);
    this.#cache.set(docid, { packed, text });
    const oldest = this.#cache.keys().next();
    if (this.#cache.size > KEPT_TEXTS && oldest.done !== true) this.#cache.delete(oldest.value);
    return text;
  }
}
