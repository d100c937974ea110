import { isAscii, isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';

type Decode = (bytes: Buffer) => string;

/** Charsets missing from iconv-lite, keyed by lower-case name without separators. */
const DECODERS: Readonly<Record<string, Decode>> = {
  iso2022: decodeIso2022,
  hz: decodeHz,
  johab: decodeJohab,
  // iconv-lite has pre-euro versions of these two.
  macintosh: (bytes) => new TextDecoder('macintosh').decode(bytes),
  macukraine: (bytes) => new TextDecoder('x-mac-cyrillic').decode(bytes),
};

function rareDecoder(key: string): Decode | null {
  if (Object.hasOwn(DECODERS, key)) return DECODERS[key] ?? null;
  const table = Object.hasOwn(TABLES, key) ? TABLES[key] : undefined;
  return table === undefined ? null : (bytes) => decodeTable(bytes, expandTable(table));
}

function decodeTable(bytes: Buffer, characters: string): string {
  const units = Buffer.from(characters, 'utf16le');
  const text = Buffer.allocUnsafe(2 * bytes.length);
  for (const [i, byte] of bytes.entries()) units.copy(text, 2 * i, 2 * byte, 2 * byte + 2);
  return text.toString('utf16le');
}

/** Escape sequences, shifts and line feeds, where ISO 2022 can switch character sets. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the search is for control characters
const SHIFTS = /\x1b(?:\$[@AB]|\$[()*+][@-Z]|[(.][@-Z]|N[\s\S])|[\x0e\x0f\n]/g;

interface CodedSet {
  readonly charset: string;
  readonly width: 1 | 2;
  readonly prefix?: number;
}

const JIS: CodedSet = { charset: 'euc-jp', width: 2 };
const KATAKANA: CodedSet = { charset: 'shift_jis', width: 1 };
const KOREAN: CodedSet = { charset: 'euc-kr', width: 2 };
const CHINESE: CodedSet = { charset: 'gbk', width: 2 };
/** Character sets, keyed by the bytes after ESC. Null means ASCII, or a variant that differs in two characters. */
const SETS: Readonly<Record<string, CodedSet | null>> = {
  ...{ '(B': null, '(J': null, '(I': KATAKANA, $B: JIS, '$@': JIS, '$(B': JIS, '$(@': JIS },
  // JIS X 0213; most of its characters are also in JIS X 0208.
  '$(O': JIS,
  '$(Q': JIS,
  '$(D': { charset: 'euc-jp', width: 2, prefix: 0x8f },
  ...{ $A: CHINESE, '$(A': CHINESE, '$)A': CHINESE, '$(C': KOREAN, '$)C': KOREAN },
  '.A': { charset: 'iso-8859-1', width: 1 },
  '.F': { charset: 'iso-8859-7', width: 1 },
};

/**
 * Decodes all ISO 2022 profiles found in mail: ISO-2022-JP and its extensions (RFC 1468, 1554, 2237), cp50220 to
 * cp50222, ISO-2022-KR (RFC 1557), and ISO-2022-CN without CNS 11643 (RFC 1922).
 */
function decodeIso2022(bytes: Buffer): string {
  const source = bytes.toString('latin1');
  let plain: CodedSet | null = null;
  // Before a set is designated, only Japanese profiles shift, and only to katakana.
  let shifted: CodedSet | null = KATAKANA;
  let single: CodedSet | null = null;
  let isShifted = false;
  let text = '';
  let next = 0;
  const add = (end: number) => {
    if (end > next) text += decodeCodes(source.slice(next, end), isShifted ? shifted : plain);
  };
  for (const match of source.matchAll(SHIFTS)) {
    add(match.index);
    const [shift] = match;
    next = match.index + shift.length;
    if (shift === '\n') {
      isShifted = false;
      text += shift;
    } else if (shift === '\x0e') isShifted = true;
    else if (shift === '\x0f') isShifted = false;
    else if (shift[1] === 'N') text += decodeCodes(shift.slice(2), single);
    else {
      const set = SETS[shift.slice(1)] ?? null;
      if (shift[1] === '.') single = set;
      else if (shift[2] === ')') shifted = set;
      else plain = set;
    }
  }
  add(source.length);
  return text;
}

/** Decodes a set's 7-bit codes, ignoring the eighth bit. Without a set, treats 8-bit codes as stray Japanese. */
function decodeCodes(codes: string, set: CodedSet | null): string {
  if (set === null)
    return codes.replace(/[\x80-\xff]+/g, (stray) =>
      iconv.decode(Buffer.from(stray, 'latin1'), 'shift_jis'),
    );
  const { charset, width, prefix } = set;
  const bytes: number[] = [];
  for (let i = 0; i < codes.length; i++) {
    const byte = codes.charCodeAt(i) & 0x7f;
    if (byte <= 0x20 || i + width > codes.length) bytes.push(byte);
    else {
      if (prefix !== undefined) bytes.push(prefix);
      bytes.push(byte | 0x80);
      if (width === 2) bytes.push(codes.charCodeAt(++i) | 0x80);
    }
  }
  return iconv.decode(Buffer.from(bytes), charset);
}

/** Two bytes per character between `~{` and `~}`; `~~` is a tilde; `~` before a line break joins lines (RFC 1843). */
const HZ = /~(?:\{((?:[!-w][!-~]|\r?\n)*)(?:~\})?|(~)|\r?\n)/g;

function decodeHz(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replace(HZ, (_, codes: string | undefined, tilde: string | undefined) =>
      codes === undefined ? (tilde ?? '') : decodeCodes(codes, CHINESE),
    );
}

const INITIALS = 'ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ';
const FINALS = 'ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ';
const FIRST_VOWEL = 0x314f;
const FIRST_SYLLABLE = 0xac00;

/** Decodes Johab (KS X 1001, annex 3), a Korean encoding with five bits for each part of a syllable. */
function decodeJohab(bytes: Buffer): string {
  let text = '';
  for (let i = 0; i < bytes.length; i++) {
    const lead = bytes[i] ?? 0;
    if (lead < 0x80) {
      text += lead === 0x5c ? '₩' : String.fromCharCode(lead);
      continue;
    }
    const trail = bytes[++i] ?? 0;
    text += (lead < 0xd8 ? syllable((lead << 8) | trail) : otherJohab(lead, trail)) ?? '\ufffd';
  }
  return text;
}

function syllable(code: number): string | undefined {
  const initial = ((code >> 10) & 31) - 2;
  const vowelBits = (code >> 5) & 31;
  const finalBits = code & 31;
  // Each group of eight skips two codes; the finals skip one.
  const vowel = vowelBits === 2 ? -1 : vowelBits - 3 - 2 * (vowelBits >> 3);
  const final = finalBits - 1 - (finalBits > 0x11 ? 1 : 0);
  const isVowel = (vowelBits & 7) > 1 && vowel < 21;
  if (!isVowel || finalBits < 1 || finalBits === 0x12 || final > 27 || initial < -1 || initial > 18)
    return undefined;
  if (initial >= 0 && vowel >= 0)
    return String.fromCharCode(FIRST_SYLLABLE + (initial * 21 + vowel) * 28 + final);
  if (initial >= 0) return final === 0 ? INITIALS[initial] : undefined;
  if (vowel >= 0) return final === 0 ? String.fromCharCode(FIRST_VOWEL + vowel) : undefined;
  return final === 0 ? '\u3000' : FINALS[final - 1];
}

/** Returns a symbol or Chinese character. Both follow the order of KS X 1001. */
function otherJohab(lead: number, trail: number): string | undefined {
  const row = lead < 0xe0 ? 2 * (lead - 0xd9) : 2 * lead - 0x197;
  const cell = trail < 0x91 ? trail - 0x31 : trail - 0x43;
  const isCode = (trail >= 0x31 && trail <= 0x7e) || (trail >= 0x91 && trail <= 0xfe);
  if (lead === 0xd8 || lead === 0xdf || lead > 0xf9 || !isCode) return undefined;
  const second = cell >= 0x5e ? 1 : 0;
  return iconv.decode(Buffer.from([row + second + 0xa1, cell - 0x5e * second + 0xa1]), 'euc-kr');
}

const EBCDIC_CONTROLS =
  '\u0000\u0001\u0002\u0003\u009c\u0009\u0086\u007f\u0097\u008d\u008e\u000b\u000c\u000d\u000e\u000f\u0010\u0011\u0012\u0013\u009d\u0085\u0008\u0087\u0018\u0019\u0092\u008f\u001c\u001d\u001e\u001f\u0080\u0081\u0082\u0083\u0084\u000a\u0017\u001b\u0088\u0089\u008a\u008b\u008c\u0005\u0006\u0007\u0090\u0091\u0016\u0093\u0094\u0095\u0096\u0004\u0098\u0099\u009a\u009b\u0014\u0015\u009e\u001a';

function expandTable(characters: string): string {
  if (characters.length > 128) return `${EBCDIC_CONTROLS}${characters}\u009f`;
  const ascii = Array.from({ length: 128 }, (_, byte) => byte);
  return String.fromCharCode(...ascii) + characters;
}

/**
 * Single-byte charsets missing from iconv-lite, keyed by name without separators. EBCDIC strings list the characters
 * between the controls and the last code; other strings list those after ASCII.
 */
const TABLES: Readonly<Record<string, string>> = {
  cp037:
    ' \u00a0âäàáãåçñ¢.<(+|&éêëèíîïìß!$*);¬-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µ~stuvwxyz¡¿ÐÝÞ®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
  cp273:
    ' \u00a0â{àáãåçñÄ.<(+!&éêëèíîïì~Ü$*);^-/Â[ÀÁÃÅÇÑö,%_>?øÉÊËÈÍÎÏÌ`:#§\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µßstuvwxyz¡¿ÐÝÞ®¢£¥·©@¶¼½¾¬|‾¨´×äABCDEFGHI\u00adô¦òóõüJKLMNOPQR¹û}ùúÿÖ÷STUVWXYZ²Ô\\ÒÓÕ0123456789³Û]ÙÚ',
  cp424:
    ' \u05d0\u05d1\u05d2\u05d3\u05d4\u05d5\u05d6\u05d7\u05d8¢.<(+|&\u05d9\u05da\u05db\u05dc\u05dd\u05de\u05df\u05e0\u05e1!$*);¬-/\u05e2\u05e3\u05e4\u05e5\u05e6\u05e7\u05e8\u05e9¦,%_>?\ufffd\u05ea\ufffd\ufffd\u00a0\ufffd\ufffd\ufffd‗`:#@\'="\ufffdabcdefghi«»\ufffd\ufffd\ufffd±°jklmnopqr\ufffd\ufffd\ufffd¸\ufffd¤µ~stuvwxyz\ufffd\ufffd\ufffd\ufffd\ufffd®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00ad\ufffd\ufffd\ufffd\ufffd\ufffd}JKLMNOPQR¹\ufffd\ufffd\ufffd\ufffd\ufffd\\÷STUVWXYZ²\ufffd\ufffd\ufffd\ufffd\ufffd0123456789³\ufffd\ufffd\ufffd\ufffd',
  cp500:
    ' \u00a0âäàáãåçñ[.<(+!&éêëèíîïìß]$*);^-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µ~stuvwxyz¡¿ÐÝÞ®¢£¥·©§¶¼½¾¬|¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
  cp875:
    ' ΑΒΓΔΕΖΗΘΙ[.<(+!&ΚΛΜΝΞΟΠΡΣ]$*);^-/ΤΥΦΧΨΩΪΫ|,%_>?¨ΆΈΉ\u00a0ΊΌΎΏ`:#@\'="΅abcdefghiαβγδεζ°jklmnopqrηθικλμ´~stuvwxyzνξοπρσ£άέήϊίόύϋώςτυφχψ{ABCDEFGHI\u00adωΐΰ‘―}JKLMNOPQR±½\u001a·’¦\\\u001aSTUVWXYZ²§\u001a\u001a«¬0123456789³©\u001a\u001a»',
  cp1026:
    ' \u00a0âäàáãå{ñÇ.<(+!&éêëèíîïìßĞİ*);^-/ÂÄÀÁÃÅ[Ñş,%_>?øÉÊËÈÍÎÏÌı:ÖŞ\'=ÜØabcdefghi«»}`¦±°jklmnopqrªºæ¸Æ¤µöstuvwxyz¡¿]$@®¢£¥·©§¶¼½¾¬|¯¨´×çABCDEFGHI\u00adô~òóõğJKLMNOPQR¹û\\ùúÿü÷STUVWXYZ²Ô#ÒÓÕ0123456789³Û"ÙÚ',
  cp1140:
    ' \u00a0âäàáãåçñ¢.<(+|&éêëèíîïìß!$*);¬-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ€µ~stuvwxyz¡¿ÐÝÞ®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
  cp1006:
    '\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9\u060c\u061b\u00ad\u061f\ufe81\ufe8d\ufe8e\ufe8e\ufe8f\ufe91\ufb56\ufb58\ufe93\ufe95\ufe97\ufb66\ufb68\ufe99\ufe9b\ufe9d\ufe9f\ufb7a\ufb7c\ufea1\ufea3\ufea5\ufea7\ufea9\ufb84\ufeab\ufead\ufb8c\ufeaf\ufb8a\ufeb1\ufeb3\ufeb5\ufeb7\ufeb9\ufebb\ufebd\ufebf\ufec1\ufec5\ufec9\ufeca\ufecb\ufecc\ufecd\ufece\ufecf\ufed0\ufed1\ufed3\ufed5\ufed7\ufed9\ufedb\ufb92\ufb94\ufedd\ufedf\ufee0\ufee1\ufee3\ufb9e\ufee5\ufee7\ufe85\ufeed\ufba6\ufba8\ufba9\ufbaa\ufe80\ufe89\ufe8a\ufe8b\ufef1\ufef2\ufef3\ufbb0\ufbae\ufe7c\ufe7d',
  macarabic:
    'Ä\u00a0ÇÉÑÖÜáàâä\u06ba«çéèêëí…îïñó»ôö÷úùûü !"#$\u066a&\'()*+\u060c-./\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669:\u061b<=>\u061f❊\u0621\u0622\u0623\u0624\u0625\u0626\u0627\u0628\u0629\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638\u0639\u063a[\\]^_\u0640\u0641\u0642\u0643\u0644\u0645\u0646\u0647\u0648\u0649\u064a\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u067e\u0679\u0686\u06d5\u06a4\u06af\u0688\u0691{|}\u0698\u06d2',
  macfarsi:
    'Ä\u00a0ÇÉÑÖÜáàâä\u06ba«çéèêëí…îïñó»ôö÷úùûü !"#$\u066a&\'()*+\u060c-./\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9:\u061b<=>\u061f❊\u0621\u0622\u0623\u0624\u0625\u0626\u0627\u0628\u0629\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638\u0639\u063a[\\]^_\u0640\u0641\u0642\u0643\u0644\u0645\u0646\u0647\u0648\u0649\u064a\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u067e\u0679\u0686\u06d5\u06a4\u06af\u0688\u0691{|}\u0698\u06d2',
};

/** Longest label to read. Real names are at most 45 characters long. */
const MAX_LABEL = 100;
const C1 = /[\u0080-\u009f]/;

/**
 * Decodes bytes in the charset that the mail declares. Drops nothing: invalid bytes become U+FFFD. If the charset is
 * unknown or missing, decodes valid UTF-8 as such and anything else as windows-1252. Removes NULs, since the text goes
 * to SQLite and terminals.
 *
 * @param charset the label in the mail
 */
export function decodeText(bytes: Buffer, charset: string | null): string {
  return withoutNul(decodeNamed(bytes, charsetKey(charset), 'windows-1252'));
}

/** Like `decodeText`, for HTML and XML. Unlabelled bytes that are not UTF-8 use the document's own declaration. */
export function decodeMarkup(bytes: Buffer, charset: string | null): string {
  const key = charsetKey(charset);
  if (key !== UNTOLD) return decodeText(bytes, charset);
  const declared = charsetKey(documentCharset(bytes));
  const isUsable = declared !== UNTOLD && !declared.startsWith('utf');
  return isUsable && !isUtf8(bytes)
    ? withoutNul(decodeNamed(bytes, key, declared))
    : decodeText(bytes, charset);
}

/** How many bytes at the start of a document to search for its charset. Browsers search 1,024. */
const HEAD_BYTES = 4096;

function documentCharset(bytes: Buffer): string | null {
  const head = bytes.toString('latin1', 0, HEAD_BYTES).replace(/<!--[\s\S]*?-->/g, '');
  const match =
    /^\s*<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([^"']{1,40})/i.exec(head) ??
    /<meta\s[^>]{0,400}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})/i.exec(head);
  return match?.[1] ?? null;
}

/** Key for labels that do not identify a charset. The bytes are UTF-8 or, in old mail, the Western charset. */
const UNTOLD = '';
const UNTOLD_KEYS =
  /^(?:|utf8.*|cp65001|unicode[12]\d*utf8|xunicode20utf8|utf|u8|(?:us)?ascii.*|cp367|ibm367|csascii|iso646.*|646|isoir6|ansix34.*|ansi|us|unknown.*|xunknown|[78]bit|x?binary|default|none|null|text|autodetect|xautodetect|auto|xuserdefined|charset|base64|quotedprintable|hex)$/;

const ALIASES: ReadonlyMap<string, string> = new Map([
  ...pair('iso88591', 'iso8859 latin 8859 latin1 l1 isolatin1 csisolatin1 isoir100 cp819 ibm819'),
  ...pair('iso885913', 'latin7 l7'),
  ...pair('iso885914', 'latin8 l8 isoceltic'),
  ...pair('iso885915', 'latin9 latin0 l9 l0 isolatin9'),
  ...pair('iso885916', 'latin10 l10'),
  ...pair('windows1254', 'iso88599 latin5 l5 isoir148 isolatin5 csisolatin5'),
  ...pair('windows874', 'iso885911 tis620 tis6200 tis62025290 tis62025291 isoir166 dos874 thai'),
  ...pair('iso88598', 'visual isolatinhebrew hebrew'),
  ...pair('iso88598i', 'logical'),
  ...pair('iso88597', 'suneugreek'),
  ...pair('koi8r', 'koi koi8'),
  ...pair('cp1125', 'cp866u ruscii'),
  ...pair('cp861', 'cpis'),
  ...pair('hproman8', 'cp1051 ibm1051 roman8 r8'),
  ...pair('rk1048', 'kz1048 strk10482002'),
  ...pair('pt154', 'cp154 ptcp154 cyrillicasian'),
  ...pair('windows1252', 'palmos'),
  ...pair('macintosh', 'macroman mac'),
  ...pair('macukraine', 'maccyrillic macukrainian'),
  ...pair('maccenteuro', 'maclatin2 macce maccentraleurope maccentraleurroman'),
  ...pair('macromania', 'macromanian'),
  ...pair('shiftjis', 'macjapanese shiftjis2004 sjis2004 shiftjisx0213 sjisx0213 pck cp943'),
  ...pair('eucjp', 'ujis eucpkdfmtjapanese eucjis2004 eucjisx0213 jisx0213 cp51932 cp20932'),
  ...pair(
    'iso2022',
    'jis cp50220 cp50221 cp50222 cp50225 cp50227 iso2022jp iso2022kr iso2022cn iso2022cnext',
  ),
  ...pair('iso2022', 'iso2022jp1 iso2022jp2 iso2022jp3 iso2022jp2004 iso2022jpext iso2022jpms'),
  ...pair('hz', 'hzgb hzgb2312 cp52936'),
  ...pair('johab', 'cp1361 ms1361'),
  ...pair('euckr', 'mackorean ksx1001 cp51949 uhc ksc5601 ksc56011987 ksc56011989 ksc56011992'),
  ...pair('gbk', 'macsimpchinese macchinesesimp gb2312 eucgb2312cn cp51936 cngb gb231280 cp1386'),
  ...pair('gb18030', 'gb180302000 gb180302005 cp54936'),
  ...pair('big5hkscs', 'big5 big5tw mactradchinese macchinesetrad hkscs cnbig5 xbig5 cp1370'),
  ...pair('utf16', 'unicode utf16 u16 ucs2 iso10646ucs2 cp1200'),
  ...pair('utf16be', 'unicodefffe unicodebigunmarked cp1201'),
  ...pair('utf16le', 'unicodefeff unicodelittleunmarked'),
  ...pair('utf32', 'u32 ucs4 iso10646ucs4 cp12000'),
  ...pair('utf7', 'u7 unicode11utf7 unicode20utf7 cp65000'),
  ...pair('cp037', 'ebcdiccpca ebcdiccpnl ebcdiccpus ebcdiccpwt cp039 037 039'),
  ...pair('cp273', '273'),
  ...pair('cp424', 'ebcdiccphe 424'),
  ...pair('cp500', 'ebcdiccpbe ebcdiccpch 500'),
  ...pair('cp1026', '1026'),
  ...pair('cp1140', '1140'),
]);

function pair(name: string, aliases: string): [string, string][] {
  return aliases.split(' ').map((alias) => [alias, name]);
}

/** Cached keys of recent labels. Mail uses few distinct labels. */
const recent = new Map<string, string>();
const RECENT_LABELS = 500;

function charsetKey(label: string | null): string {
  if (label === null) return UNTOLD;
  const name = label.slice(0, MAX_LABEL);
  const cached = recent.get(name);
  if (cached !== undefined) return cached;
  if (recent.size >= RECENT_LABELS) recent.clear();
  const key = parseLabel(name);
  recent.set(name, key);
  return key;
}

/** Parses a label, tolerating comments, quotes, odd spelling, the parameter's name and extra names. */
function parseLabel(label: string): string {
  const plain = label
    .replace(/\([^()]*\)?/g, ' ')
    .replace(/["'<>\s]{0,9}charset["'\s]{0,9}[=:]/gi, ' ');
  const first = /[^\s"'<>;,=]+/.exec(plain)?.[0] ?? '';
  for (const text of [plain, first]) {
    // Drop the language of an encoded word, then the year of a standard.
    const base = (text.split('*', 1)[0] ?? '').trim();
    for (const name of [base, base.replace(/[:_-](?:19|20)\d\d$/, '')]) {
      const key = name.toLowerCase().replace(/[^a-z0-9]/g, '');
      const spellings = [key, key.replace(/^x{0,2}(?:cs)?(?=[a-z0-9])/, ''), ...numericKeys(key)];
      const match = spellings.map(canonicalKey).find((value) => value !== null);
      if (match !== undefined) return match;
    }
  }
  return UNTOLD;
}

/** Returns possible keys for a numbered code page or ISO 8859 part in any vendor's spelling. */
function numericKeys(key: string): string[] {
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

/** @param fallback charset for unlabelled bytes that are not UTF-8 */
function decodeNamed(bytes: Buffer, key: string, fallback: string): string {
  const mark = bomCharset(bytes);
  if (mark !== null) return iconv.decode(bytes, mark);
  if (key.startsWith('utf')) return iconv.decode(bytes, key);
  if (announcesIso2022(bytes, key)) return decodeAs(bytes, 'iso2022');
  // 8-bit text cannot be in the 7-bit charset that its label declares.
  const isOther = (key === 'iso2022' || key === 'hz') && !isAscii(bytes);
  if (key === UNTOLD || isOther) return decodeUntold(bytes, fallback);
  const text = decodeAs(bytes, key);
  // Mislabelled UTF-8.
  return text.includes('\ufffd') && isUtf8(bytes) ? bytes.toString('utf8') : text;
}

function decodeAs(bytes: Buffer, key: string): string {
  if (key === 'iso88591') return decodeLatin1(bytes);
  return rareDecoder(key)?.(bytes) ?? iconv.decode(bytes, key);
}

const ESCAPE = 0x1b;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the search is for a control character
const DESIGNATION = /\x1b(?:\$(?:[@AB]|[()][@-Z])|\(I)/;

/** Reports whether bytes designate ISO 2022 character sets, which override a missing or wrong label. */
function announcesIso2022(bytes: Buffer, key: string): boolean {
  if (!bytes.includes(ESCAPE) || (key !== 'iso2022' && !isAscii(bytes))) return false;
  return DESIGNATION.test(bytes.toString('latin1'));
}

function bomCharset(bytes: Buffer): string | null {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  // ÿþ may be mislabelled text, so require a plausible letter after a UTF-16 mark.
  if (bytes[0] === 0xff && bytes[1] === 0xfe && bytes[3] === 0) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff && bytes[2] === 0) return 'utf-16be';
  return null;
}

function decodeUntold(bytes: Buffer, fallback: string): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text;
  // Mostly valid characters indicate damaged UTF-8. Otherwise the text was never UTF-8.
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

/** 8-bit charsets found in Japanese mail, which often lacks a label. */
const JAPANESE = ['shiftjis', 'eucjp'];
/** Minimum number of kana in Japanese text, and their minimum share of non-ASCII characters. */
const MIN_KANA = 3;
const MIN_KANA_SHARE = 0.3;

/** Reports whether text is valid and has enough kana, which is unlikely for text in another charset. */
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

export function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '') : text;
}

/** Truncates text to `max` UTF-16 units without splitting a surrogate pair. */
export function truncateText(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}
