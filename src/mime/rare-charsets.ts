import iconv from 'iconv-lite';

/** Text of bytes in one charset; what is not valid in it becomes U+FFFD. */
type Decode = (bytes: Buffer) => string;

/** Charsets that iconv-lite lacks, by their name in lower case without separators. */
const DECODERS: Readonly<Record<string, Decode>> = {
  iso2022: decodeIso2022,
  hz: decodeHz,
  johab: decodeJohab,
  // iconv-lite has these two as they were before the euro.
  macintosh: (bytes) => new TextDecoder('macintosh').decode(bytes),
  macukraine: (bytes) => new TextDecoder('x-mac-cyrillic').decode(bytes),
};
const made = new Map<string, Decode>();

/** Returns the decoder of a charset that iconv-lite lacks; null for any other name. */
export function rareDecoder(key: string): Decode | null {
  if (Object.hasOwn(DECODERS, key)) return DECODERS[key] ?? null;
  if (!Object.hasOwn(TABLES, key)) return null;
  const known = made.get(key);
  if (known !== undefined) return known;
  const decode = decodeTable(TABLES[key]?.() ?? '');
  made.set(key, decode);
  return decode;
}

function decodeTable(characters: string): Decode {
  const units = Buffer.from(characters, 'utf16le');
  return (bytes) => {
    const text = Buffer.allocUnsafe(2 * bytes.length);
    for (let i = 0; i < bytes.length; i++)
      units.copy(text, 2 * i, 2 * (bytes[i] ?? 0), 2 * (bytes[i] ?? 0) + 2);
    return text.toString('utf16le');
  };
}

/** Escape sequences, shifts and line feeds: wherever the character set of ISO 2022 may change. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is searched for
const SHIFTS = /\x1b(?:\$[@AB]|\$[()*+][@-Z]|[(.][@-Z]|N[\s\S])|[\x0e\x0f\n]/g;

/** A character set of ISO 2022: where its 7-bit codes stand in a charset of iconv-lite. */
interface CodedSet {
  readonly charset: string;
  /** Bytes per character. */
  readonly width: 1 | 2;
  /** Byte before each character. */
  readonly prefix?: number;
}

const JIS: CodedSet = { charset: 'euc-jp', width: 2 };
const KATAKANA: CodedSet = { charset: 'shift_jis', width: 1 };
const KOREAN: CodedSet = { charset: 'euc-kr', width: 2 };
const CHINESE: CodedSet = { charset: 'gbk', width: 2 };
/** By the bytes behind ESC. Null is ASCII, and what differs from it in two signs. */
const SETS: Readonly<Record<string, CodedSet | null>> = {
  '(B': null,
  '(J': null,
  '(I': KATAKANA,
  $B: JIS,
  '$@': JIS,
  '$(B': JIS,
  '$(@': JIS,
  // JIS X 0213, of which most characters are in JIS X 0208 as well.
  '$(O': JIS,
  '$(Q': JIS,
  '$(D': { charset: 'euc-jp', width: 2, prefix: 0x8f },
  $A: CHINESE,
  '$(A': CHINESE,
  '$)A': CHINESE,
  '$(C': KOREAN,
  '$)C': KOREAN,
  '.A': { charset: 'iso-8859-1', width: 1 },
  '.F': { charset: 'iso-8859-7', width: 1 },
};

/**
 * Text in any profile of ISO 2022 that mail uses: ISO-2022-JP and its extensions (RFC 1468, 1554, 2237), cp50220 to
 * cp50222, ISO-2022-KR (RFC 1557), ISO-2022-CN without CNS 11643 (RFC 1922).
 */
function decodeIso2022(bytes: Buffer): string {
  const source = bytes.toString('latin1');
  let plain: CodedSet | null = null;
  // Before any designation, only the Japanese profiles shift: to katakana.
  let shifted: CodedSet | null = KATAKANA;
  let single: CodedSet | null = null;
  let isShifted = false;
  let text = '';
  let done = 0;
  const add = (end: number) => {
    if (end > done) text += codedText(source.slice(done, end), isShifted ? shifted : plain);
  };
  for (const match of source.matchAll(SHIFTS)) {
    add(match.index);
    const [shift] = match;
    done = match.index + shift.length;
    if (shift === '\n') {
      isShifted = false;
      text += shift;
    } else if (shift === '\x0e') isShifted = true;
    else if (shift === '\x0f') isShifted = false;
    else if (shift[1] === 'N') text += codedText(shift.slice(2), single);
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

/** Text of 7-bit codes in a set; 8-bit codes in it count as 7-bit ones, outside of all sets they are stray Japanese. */
function codedText(codes: string, set: CodedSet | null): string {
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

/** Two bytes a character from `~{` to `~}`; `~~` is a tilde, and `~` at the end of a line joins lines (RFC 1843). */
const HZ = /~(?:\{((?:[!-w][!-~]|\r?\n)*)(?:~\})?|(~)|\r?\n)/g;

function decodeHz(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replace(HZ, (_, codes: string | undefined, tilde: string | undefined) =>
      codes === undefined ? (tilde ?? '') : codedText(codes, CHINESE),
    );
}

/** Signs of the parts of a Korean syllable that stand alone. */
const INITIALS = 'ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ';
const FINALS = 'ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ';
const FIRST_VOWEL = 0x314f;
const FIRST_SYLLABLE = 0xac00;

/** Korean as in KS X 1001, annex 3: syllables are put together of five bits for each part. */
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
  // Two codes in each group of eight are left out, and one of the final ones.
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

/** Signs and Chinese characters, which stand in the order of KS X 1001. */
function otherJohab(lead: number, trail: number): string | undefined {
  const row = lead < 0xe0 ? 2 * (lead - 0xd9) : 2 * lead - 0x197;
  const cell = trail < 0x91 ? trail - 0x31 : trail - 0x43;
  const isCode = (trail >= 0x31 && trail <= 0x7e) || (trail >= 0x91 && trail <= 0xfe);
  if (lead === 0xd8 || lead === 0xdf || lead > 0xf9 || !isCode) return undefined;
  const second = cell >= 0x5e ? 1 : 0;
  return iconv.decode(Buffer.from([row + second + 0xa1, cell - 0x5e * second + 0xa1]), 'euc-kr');
}

/** The first 64 characters of every EBCDIC charset: controls, in the order of IBM. */
const EBCDIC_CONTROLS =
  '\u0000\u0001\u0002\u0003\u009c\u0009\u0086\u007f\u0097\u008d\u008e\u000b\u000c\u000d\u000e\u000f\u0010\u0011\u0012\u0013\u009d\u0085\u0008\u0087\u0018\u0019\u0092\u008f\u001c\u001d\u001e\u001f\u0080\u0081\u0082\u0083\u0084\u000a\u0017\u001b\u0088\u0089\u008a\u008b\u008c\u0005\u0006\u0007\u0090\u0091\u0016\u0093\u0094\u0095\u0096\u0004\u0098\u0099\u009a\u009b\u0014\u0015\u009e\u001a';

/** Returns the 256 characters of an EBCDIC charset, given those between the controls and the last. */
function ebcdic(characters: string): string {
  return `${EBCDIC_CONTROLS}${characters}\u009f`;
}

/** Returns the 256 characters of a charset that begins with ASCII, given the other 128. */
function ascii(characters: string): string {
  return String.fromCharCode(...Array.from({ length: 128 }, (_, byte) => byte)) + characters;
}

/** Characters of the single-byte charsets that iconv-lite lacks, by the charset's name without separators. */
const TABLES: Readonly<Record<string, () => string>> = {
  cp037: () =>
    ebcdic(
      ' \u00a0âäàáãåçñ¢.<(+|&éêëèíîïìß!$*);¬-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µ~stuvwxyz¡¿ÐÝÞ®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
    ),
  cp273: () =>
    ebcdic(
      ' \u00a0â{àáãåçñÄ.<(+!&éêëèíîïì~Ü$*);^-/Â[ÀÁÃÅÇÑö,%_>?øÉÊËÈÍÎÏÌ`:#§\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µßstuvwxyz¡¿ÐÝÞ®¢£¥·©@¶¼½¾¬|‾¨´×äABCDEFGHI\u00adô¦òóõüJKLMNOPQR¹û}ùúÿÖ÷STUVWXYZ²Ô\\ÒÓÕ0123456789³Û]ÙÚ',
    ),
  cp424: () =>
    ebcdic(
      ' \u05d0\u05d1\u05d2\u05d3\u05d4\u05d5\u05d6\u05d7\u05d8¢.<(+|&\u05d9\u05da\u05db\u05dc\u05dd\u05de\u05df\u05e0\u05e1!$*);¬-/\u05e2\u05e3\u05e4\u05e5\u05e6\u05e7\u05e8\u05e9¦,%_>?\ufffd\u05ea\ufffd\ufffd\u00a0\ufffd\ufffd\ufffd‗`:#@\'="\ufffdabcdefghi«»\ufffd\ufffd\ufffd±°jklmnopqr\ufffd\ufffd\ufffd¸\ufffd¤µ~stuvwxyz\ufffd\ufffd\ufffd\ufffd\ufffd®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00ad\ufffd\ufffd\ufffd\ufffd\ufffd}JKLMNOPQR¹\ufffd\ufffd\ufffd\ufffd\ufffd\\÷STUVWXYZ²\ufffd\ufffd\ufffd\ufffd\ufffd0123456789³\ufffd\ufffd\ufffd\ufffd',
    ),
  cp500: () =>
    ebcdic(
      ' \u00a0âäàáãåçñ[.<(+!&éêëèíîïìß]$*);^-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ¤µ~stuvwxyz¡¿ÐÝÞ®¢£¥·©§¶¼½¾¬|¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
    ),
  cp875: () =>
    ebcdic(
      ' ΑΒΓΔΕΖΗΘΙ[.<(+!&ΚΛΜΝΞΟΠΡΣ]$*);^-/ΤΥΦΧΨΩΪΫ|,%_>?¨ΆΈΉ\u00a0ΊΌΎΏ`:#@\'="΅abcdefghiαβγδεζ°jklmnopqrηθικλμ´~stuvwxyzνξοπρσ£άέήϊίόύϋώςτυφχψ{ABCDEFGHI\u00adωΐΰ‘―}JKLMNOPQR±½\u001a·’¦\\\u001aSTUVWXYZ²§\u001a\u001a«¬0123456789³©\u001a\u001a»',
    ),
  cp1026: () =>
    ebcdic(
      ' \u00a0âäàáãå{ñÇ.<(+!&éêëèíîïìßĞİ*);^-/ÂÄÀÁÃÅ[Ñş,%_>?øÉÊËÈÍÎÏÌı:ÖŞ\'=ÜØabcdefghi«»}`¦±°jklmnopqrªºæ¸Æ¤µöstuvwxyz¡¿]$@®¢£¥·©§¶¼½¾¬|¯¨´×çABCDEFGHI\u00adô~òóõğJKLMNOPQR¹û\\ùúÿü÷STUVWXYZ²Ô#ÒÓÕ0123456789³Û"ÙÚ',
    ),
  cp1140: () =>
    ebcdic(
      ' \u00a0âäàáãåçñ¢.<(+|&éêëèíîïìß!$*);¬-/ÂÄÀÁÃÅÇÑ¦,%_>?øÉÊËÈÍÎÏÌ`:#@\'="Øabcdefghi«»ðýþ±°jklmnopqrªºæ¸Æ€µ~stuvwxyz¡¿ÐÝÞ®^£¥·©§¶¼½¾[]¯¨´×{ABCDEFGHI\u00adôöòóõ}JKLMNOPQR¹ûüùúÿ\\÷STUVWXYZ²ÔÖÒÓÕ0123456789³ÛÜÙÚ',
    ),
  cp1006: () =>
    ascii(
      '\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9\u060c\u061b\u00ad\u061f\ufe81\ufe8d\ufe8e\ufe8e\ufe8f\ufe91\ufb56\ufb58\ufe93\ufe95\ufe97\ufb66\ufb68\ufe99\ufe9b\ufe9d\ufe9f\ufb7a\ufb7c\ufea1\ufea3\ufea5\ufea7\ufea9\ufb84\ufeab\ufead\ufb8c\ufeaf\ufb8a\ufeb1\ufeb3\ufeb5\ufeb7\ufeb9\ufebb\ufebd\ufebf\ufec1\ufec5\ufec9\ufeca\ufecb\ufecc\ufecd\ufece\ufecf\ufed0\ufed1\ufed3\ufed5\ufed7\ufed9\ufedb\ufb92\ufb94\ufedd\ufedf\ufee0\ufee1\ufee3\ufb9e\ufee5\ufee7\ufe85\ufeed\ufba6\ufba8\ufba9\ufbaa\ufe80\ufe89\ufe8a\ufe8b\ufef1\ufef2\ufef3\ufbb0\ufbae\ufe7c\ufe7d',
    ),
  macarabic: () =>
    ascii(
      'Ä\u00a0ÇÉÑÖÜáàâä\u06ba«çéèêëí…îïñó»ôö÷úùûü !"#$\u066a&\'()*+\u060c-./\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669:\u061b<=>\u061f❊\u0621\u0622\u0623\u0624\u0625\u0626\u0627\u0628\u0629\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638\u0639\u063a[\\]^_\u0640\u0641\u0642\u0643\u0644\u0645\u0646\u0647\u0648\u0649\u064a\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u067e\u0679\u0686\u06d5\u06a4\u06af\u0688\u0691{|}\u0698\u06d2',
    ),
  macfarsi: () =>
    ascii(
      'Ä\u00a0ÇÉÑÖÜáàâä\u06ba«çéèêëí…îïñó»ôö÷úùûü !"#$\u066a&\'()*+\u060c-./\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9:\u061b<=>\u061f❊\u0621\u0622\u0623\u0624\u0625\u0626\u0627\u0628\u0629\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638\u0639\u063a[\\]^_\u0640\u0641\u0642\u0643\u0644\u0645\u0646\u0647\u0648\u0649\u064a\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u067e\u0679\u0686\u06d5\u06a4\u06af\u0688\u0691{|}\u0698\u06d2',
    ),
};
