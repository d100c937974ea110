import { isAscii, isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';
import { rareDecoder } from './rare-charsets.ts';

/** Characters of a charset's label that are read; real names have at most 45. */
const MAX_LABEL = 100;
/** A C1 control in text labelled ISO 8859-1 is really a character of windows-1252. */
const C1 = /[\u0080-\u009f]/;

/**
 * Text of bytes in the charset that a mail names for them. Nothing is dropped: what is not valid in the
 * charset becomes U+FFFD, an unknown or missing charset is read as UTF-8 when it is that, else as
 * windows-1252. NULs are removed, since text continues to SQLite and terminals.
 *
 * @param charset the label as found in the mail, or null where there is none
 */
export function decodeText(bytes: Buffer, charset: string | null): string {
  return withoutNul(decodeNamed(bytes, charsetKey(charset), 'windows-1252'));
}

/**
 * As `decodeText`, for HTML and XML: bytes that are no UTF-8, and for which the mail names no charset, are in the one
 * that the document itself names.
 */
export function decodeMarkup(bytes: Buffer, charset: string | null): string {
  const key = charsetKey(charset);
  if (key !== UNTOLD) return decodeText(bytes, charset);
  const own = charsetKey(documentCharset(bytes));
  // A document in UTF-16 could not be read as far as this.
  const isUsable = own !== UNTOLD && !own.startsWith('utf');
  return isUsable && !isUtf8(bytes)
    ? withoutNul(decodeNamed(bytes, key, own))
    : decodeText(bytes, charset);
}

/** Bytes of a document in which its charset is looked for; browsers ask for it in the first 1024. */
const HEAD_BYTES = 4096;

function documentCharset(bytes: Buffer): string | null {
  const head = bytes.toString('latin1', 0, HEAD_BYTES).replace(/<!--[\s\S]*?-->/g, '');
  const named =
    /^\s*<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([^"']{1,40})/i.exec(head) ??
    /<meta\s[^>]{0,400}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})/i.exec(head);
  return named?.[1] ?? null;
}

/** The key of names that tell nothing beyond "bytes": what they label is UTF-8, or the Western charset of old mail. */
const UNTOLD = '';
const UNTOLD_KEYS =
  /^(?:|utf8.*|cp65001|unicode[12]\d*utf8|xunicode20utf8|utf|u8|(?:us)?ascii.*|cp367|ibm367|csascii|iso646.*|646|isoir6|ansix34.*|ansi|us|unknown.*|xunknown|[78]bit|x?binary|default|none|null|text|autodetect|xautodetect|auto|xuserdefined|charset|base64|quotedprintable|hex)$/;

/** Names by which mail calls charsets that iconv-lite has under others. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ...each('iso88591', 'iso8859 latin 8859 latin1 l1 isolatin1 csisolatin1 isoir100 cp819 ibm819'),
  ...each('iso885913', 'latin7 l7'),
  ...each('iso885914', 'latin8 l8 isoceltic'),
  ...each('iso885915', 'latin9 latin0 l9 l0 isolatin9'),
  ...each('iso885916', 'latin10 l10'),
  ...each('windows1254', 'iso88599 latin5 l5 isoir148 isolatin5 csisolatin5'),
  ...each('windows874', 'iso885911 tis620 tis6200 tis62025290 tis62025291 isoir166 dos874 thai'),
  ...each('iso88598', 'visual isolatinhebrew hebrew'),
  ...each('iso88598i', 'logical'),
  ...each('iso88597', 'suneugreek'),
  ...each('koi8r', 'koi koi8'),
  ...each('cp1125', 'cp866u ruscii'),
  ...each('cp861', 'cpis'),
  ...each('hproman8', 'cp1051 ibm1051 roman8 r8'),
  ...each('rk1048', 'kz1048 strk10482002'),
  ...each('pt154', 'cp154 ptcp154 cyrillicasian'),
  ...each('windows1252', 'palmos'),
  ...each('macintosh', 'macroman mac'),
  ...each('macukraine', 'maccyrillic macukrainian'),
  ...each('maccenteuro', 'maclatin2 macce maccentraleurope maccentraleurroman'),
  ...each('macromania', 'macromanian'),
  ...each('shiftjis', 'macjapanese shiftjis2004 sjis2004 shiftjisx0213 sjisx0213 pck cp943'),
  ...each('eucjp', 'ujis eucpkdfmtjapanese eucjis2004 eucjisx0213 jisx0213 cp51932 cp20932'),
  ...each(
    'iso2022',
    'jis cp50220 cp50221 cp50222 cp50225 cp50227 iso2022jp iso2022kr iso2022cn iso2022cnext',
  ),
  ...each('iso2022', 'iso2022jp1 iso2022jp2 iso2022jp3 iso2022jp2004 iso2022jpext iso2022jpms'),
  ...each('hz', 'hzgb hzgb2312 cp52936'),
  ...each('johab', 'cp1361 ms1361'),
  ...each('euckr', 'mackorean ksx1001 cp51949 uhc ksc5601 ksc56011987 ksc56011989 ksc56011992'),
  ...each('gbk', 'macsimpchinese macchinesesimp gb2312 eucgb2312cn cp51936 cngb gb231280 cp1386'),
  ...each('gb18030', 'gb180302000 gb180302005 cp54936'),
  ...each('big5hkscs', 'big5 big5tw mactradchinese macchinesetrad hkscs cnbig5 xbig5 cp1370'),
  ...each('utf16', 'unicode utf16 u16 ucs2 iso10646ucs2 cp1200'),
  ...each('utf16be', 'unicodefffe unicodebigunmarked cp1201'),
  ...each('utf16le', 'unicodefeff unicodelittleunmarked'),
  ...each('utf32', 'u32 ucs4 iso10646ucs4 cp12000'),
  ...each('utf7', 'u7 unicode11utf7 unicode20utf7 cp65000'),
  ...each('cp037', 'ebcdiccpca ebcdiccpnl ebcdiccpus ebcdiccpwt cp039 037 039'),
  ...each('cp273', '273'),
  ...each('cp424', 'ebcdiccphe 424'),
  ...each('cp500', 'ebcdiccpbe ebcdiccpch 500'),
  ...each('cp1026', '1026'),
  ...each('cp1140', '1140'),
]);

function each(name: string, aliases: string): [string, string][] {
  return aliases.split(' ').map((alias) => [alias, name]);
}

/** Keys of recent labels: mail has few of them. */
const recent = new Map<string, string>();
const RECENT_LABELS = 500;

/** Returns the key of a label: a charset of iconv-lite or of rare-charsets.ts, or `UNTOLD`. */
function charsetKey(label: string | null): string {
  if (label === null) return UNTOLD;
  const cut = label.slice(0, MAX_LABEL);
  const known = recent.get(cut);
  if (known !== undefined) return known;
  if (recent.size >= RECENT_LABELS) recent.clear();
  const key = keyOf(cut);
  recent.set(cut, key);
  return key;
}

/** Labels come with comments, in quotes, in any spelling, with the parameter's name, with others behind them. */
function keyOf(label: string): string {
  const named = label
    .replace(/\([^()]*\)?/g, ' ')
    .replace(/["'<>\s]{0,9}charset["'\s]{0,9}[=:]/gi, ' ');
  const first = /[^\s"'<>;,=]+/.exec(named)?.[0] ?? '';
  for (const text of [named, first]) {
    // Without the language of an encoded word, and then without the year of a standard.
    const spelled = (text.split('*', 1)[0] ?? '').trim();
    for (const name of [spelled, spelled.replace(/[:_-](?:19|20)\d\d$/, '')]) {
      const key = name.toLowerCase().replace(/[^a-z0-9]/g, '');
      const spellings = [key, key.replace(/^x{0,2}(?:cs)?(?=[a-z0-9])/, ''), ...numberedKeys(key)];
      const found = spellings.map(canonicalKey).find((one) => one !== null);
      if (found !== undefined) return found;
    }
  }
  return UNTOLD;
}

/** Names of a numbered code page, or of a part of ISO 8859, whatever a program calls it. */
function numberedKeys(key: string): string[] {
  const page =
    /^x?(?:cs)?(?:ms|microsoft)?(?:windows|win|cp|ibm|ms|dos|pc|oem|codepage|ansi)(?:cp)?0*(\d{3,5})/.exec(
      key,
    )?.[1];
  if (page !== undefined) return [`cp${page.padStart(3, '0')}`, page];
  const part = /^x?(?:cs)?iso8859(1[0-6]|[1-9])(?:[a-z].*)?$/.exec(key)?.[1];
  return part === undefined ? [] : [`iso8859${part}`];
}

function canonicalKey(key: string): string | null {
  if (UNTOLD_KEYS.test(key)) return UNTOLD;
  const name = ALIASES.get(key) ?? key;
  return rareDecoder(name) !== null || iconv.encodingExists(name) ? name : null;
}

/** @param fallback the charset of bytes that are no UTF-8 and about which nothing else is known */
function decodeNamed(bytes: Buffer, key: string, fallback: string): string {
  const marked = bomCharset(bytes);
  if (marked !== null) return iconv.decode(bytes, marked);
  if (key.startsWith('utf')) return iconv.decode(bytes, key);
  if (announcesIso2022(bytes, key)) return decodeAs(bytes, 'iso2022');
  // 8-bit text under the label of a 7-bit charset.
  const isOther = (key === 'iso2022' || key === 'hz') && !isAscii(bytes);
  if (key === UNTOLD || isOther) return decodeUntold(bytes, fallback);
  const text = decodeAs(bytes, key);
  // Bytes that are not what the label says, but are UTF-8.
  return text.includes('\ufffd') && isUtf8(bytes) ? bytes.toString('utf8') : text;
}

function decodeAs(bytes: Buffer, key: string): string {
  if (key === 'iso88591') return decodeLatin1(bytes);
  return rareDecoder(key)?.(bytes) ?? iconv.decode(bytes, key);
}

const ESCAPE = 0x1b;
/** What designates a set of two-byte characters, or katakana. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is searched for
const DESIGNATION = /\x1b(?:\$(?:[@AB]|[()][@-Z])|\(I)/;

/** Text of ISO 2022 says so at each change of the character set, so no label is needed, and none is to be believed. */
function announcesIso2022(bytes: Buffer, key: string): boolean {
  if (!bytes.includes(ESCAPE) || (key !== 'iso2022' && !isAscii(bytes))) return false;
  return DESIGNATION.test(bytes.toString('latin1'));
}

/** A byte order mark outweighs any label. */
function bomCharset(bytes: Buffer): string | null {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  // Two bytes alone are as likely the ÿþ of a broken label, so a UTF-16 mark needs a plausible first letter.
  if (bytes[0] === 0xff && bytes[1] === 0xfe && bytes[3] === 0) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff && bytes[2] === 0) return 'utf-16be';
  return null;
}

function decodeUntold(bytes: Buffer, fallback: string): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text;
  // Damaged UTF-8 keeps its good characters; what is mostly invalid was never UTF-8.
  let bad = 0;
  let good = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0xfffd) bad++;
    else if (unit > 0x7f) good++;
  }
  if (good > bad) return text;
  return JAPANESE.map((key) => decodeAs(bytes, key)).find(isJapanese) ?? decodeAs(bytes, fallback);
}

/** 8-bit charsets of Japanese mail, which often names none. */
const JAPANESE = ['shiftjis', 'eucjp'];
/** Kana that text must have to be taken for Japanese, and its share of the characters beyond ASCII. */
const MIN_KANA = 3;
const MIN_KANA_SHARE = 0.3;

/**
 * Returns whether decoded text is Japanese: valid throughout, with as many kana as only Japanese has. Bytes of
 * other charsets that happen to be valid give Chinese characters or half-width katakana.
 */
function isJapanese(text: string): boolean {
  let kana = 0;
  let others = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0xfffd) return false;
    if (unit >= 0x3041 && unit <= 0x30fe) kana++;
    else if (unit > 0x7f) others++;
  }
  return kana >= MIN_KANA && kana >= MIN_KANA_SHARE * (kana + others);
}

function decodeLatin1(bytes: Buffer): string {
  const text = bytes.toString('latin1');
  return C1.test(text) ? iconv.decode(bytes, 'windows-1252') : text;
}

/** Text without NUL characters. */
export function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '') : text;
}

/** The first `max` UTF-16 units of a text, never half of a surrogate pair. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}
