/**
 * Makes text from mail safe for a terminal. A subject may contain escape sequences that move the cursor or set the
 * window title. Bidi controls can disguise a file name's extension, and zero-width characters can hide words from a
 * search. Printable text is unchanged: letters of all scripts, emoji and combining marks are kept.
 */

/** CRLF, LF, CR, NEL, line and paragraph separator, vertical tab, form feed. */
const LINE_END = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;
/** C0 controls except tab and LF, plus DEL and C1 controls. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this regex matches control characters
const CONTROL = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;
/**
 * Invisible characters: bidi marks, embeddings and isolates; zero-width spaces and joiners, soft hyphen, word joiner
 * and invisible operators, Mongolian vowel separator, Hangul fillers, byte order mark, interlinear annotations, tag
 * characters.
 */
const INVISIBLE =
  /[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|\u034f|[\u{e0000}-\u{e0fff}]/gu;
/** Noncharacters, and unpaired surrogates, which no terminal can print. */
const BROKEN = /[\p{Surrogate}\p{Noncharacter_Code_Point}]/gu;
/** Fast path, since most text is printable ASCII. */
const PLAIN_LINE = /^[\x20-\x7e]*$/;
/** One column per UTF-16 unit: Latin, Greek and Cyrillic letters without combining marks, and common punctuation. */
const ONE_COLUMN_EACH =
  /^[\x20-\x7e\u00a0-\u00ac\u00ae-\u02ff\u0386-\u0482\u048a-\u052f\u2010-\u2027\u20ac]*$/;
const PLAIN_LINES = /^[\t\n\x20-\x7e]*$/;

/** Makes multiline text safe. Keeps LF and tab, converts other line endings to LF and shows other controls as symbols. */
export function terminalSafe(text: string): string {
  if (PLAIN_LINES.test(text)) return text;
  return text
    .replace(LINE_END, '\n')
    .replace(BROKEN, '\ufffd')
    .replace(CONTROL, symbolFor)
    .replace(INVISIBLE, '');
}

/** Like `terminalSafe`, but returns a single line with white space trimmed and collapsed. */
export function terminalLine(text: string): string {
  const safe = PLAIN_LINE.test(text) ? text : terminalSafe(text);
  return safe.replace(/\s+/g, ' ').trim();
}

/** Characters that are invisible or reorder a line, except for joiners within letters (as in Persian) and emoji. */
const UNSEEN =
  /\u034f|[\p{Cc}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Returns one line for a page: `evil<RLO>gnp.exe` visibly ends in `.exe`. Collapses gaps that hide an extension. */
export function plainLine(text: string): string {
  if (PLAIN_LINE.test(text) && !text.includes('  ')) return text;
  return text
    .replace(/[\t\n\r\v\f\u0085\u2028\u2029]/g, ' ')
    .replace(UNSEEN, '')
    .replace(/\s+/g, ' ')
    .trim();
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the symbol for a control character, such as ␛ for ESC. C1 controls have no symbols. */
function symbolFor(control: string): string {
  const code = control.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? '\u2421' : '\ufffd';
}

/** East Asian Wide and Fullwidth (UAX #11), as whole blocks. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;
const EMOJI = /\p{Emoji_Presentation}|\p{Emoji}\ufe0f/u;
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]+$/u;

/** Marks, joiners, flags, skin tones and conjoining Jamo. Nothing else combines code points into one character. */
const COMPOSED = /\p{M}|\u200d|[\u1100-\u11ff]|[\u{1f1e6}-\u{1f1ff}]|[\u{1f3fb}-\u{1f3ff}]/u;

let segmenter: Intl.Segmenter | undefined;

/** Returns user-perceived characters. Creates the segmenter on first use, because that takes 10 ms. */
function graphemes(text: string): Iterable<{ readonly segment: string; readonly index: number }> {
  if (!COMPOSED.test(text)) return codePoints(text);
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return segmenter.segment(text);
}

function* codePoints(text: string) {
  let index = 0;
  for (const segment of text) {
    yield { segment, index };
    index += segment.length;
  }
}

/** Returns the width of text on a terminal in columns: two for wide characters and emoji, none for lone marks. */
export function displayWidth(text: string): number {
  if (ONE_COLUMN_EACH.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes(text)) width += graphemeWidth(segment);
  return width;
}

function graphemeWidth(grapheme: string): number {
  if (grapheme.length === 1 && grapheme >= ' ' && grapheme <= '~') return 1;
  if (EMOJI.test(grapheme) || WIDE.test(grapheme)) return 2;
  return NO_WIDTH.test(grapheme) ? 0 : 1;
}

/** Cuts a safe line to at most `columns` columns, including the `…` that marks the cut. Never splits a character. */
export function fitColumns(text: string, columns: number): string {
  if (columns <= 0) return '';
  // A character is never wider than two columns per UTF-16 unit.
  if (text.length * 2 <= columns) return text;
  if (ONE_COLUMN_EACH.test(text)) {
    return text.length <= columns ? text : `${text.slice(0, columns - 1)}…`;
  }
  let width = 0;
  let end = 0;
  for (const { segment, index } of graphemes(text)) {
    if (width <= columns - 1) end = index;
    width += graphemeWidth(segment);
    if (width > columns) return `${text.slice(0, end)}…`;
  }
  return text;
}

/** Returns text that is exactly `columns` wide: cut as by `fitColumns`, or padded on the right. */
export function padColumns(text: string, columns: number): string {
  const fitted = fitColumns(text, columns);
  return fitted + ' '.repeat(Math.max(0, columns - displayWidth(fitted)));
}

/**
 * Returns one line of JSON. Standard JSON escapes only controls below 0x20. This function also escapes DEL, C1 controls
 * (which some terminals obey), both line separators and bidi controls, which can disguise an extension.
 */
export function jsonLine(value: unknown): string {
  return escaped(
    JSON.stringify(value),
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  );
}

/**
 * Characters that terminals obey or hide but JSON does not escape: DEL, C1, bidi, zero-width, line separators, fillers.
 */
const UNSEEN_IN_JSON = /[\x7f-\x9f\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]|\u034f/gu;

/** Returns JSON for people, with the same characters escaped. */
export function visibleJson(value: unknown, indent?: number): string {
  return escaped(JSON.stringify(value, undefined, indent) ?? 'null', UNSEEN_IN_JSON);
}

function escaped(json: string, characters: RegExp): string {
  return json.replace(characters, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
