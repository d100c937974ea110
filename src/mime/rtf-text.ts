import { decodeText } from './charsets.ts';

/** Groups that hold no text of the document. */
const DESTINATIONS =
  /^(?:fonttbl|colortbl|stylesheet|info|pict|object|objdata|fldinst|filetbl|listtable|listoverridetable|rsidtbl|generator|themedata|datastore|latentstyles|xmlnstbl|revtbl|nonshppict)$/;

const SIGNS: Readonly<Record<string, string>> = {
  par: '\n',
  line: '\n',
  sect: '\n',
  page: '\n',
  row: '\n',
  cell: '\t',
  tab: '\t',
  emdash: '—',
  endash: '–',
  bullet: '•',
  lquote: '‘',
  rquote: '’',
  ldblquote: '“',
  rdblquote: '”',
  '~': ' ',
  _: '-',
  '\\': '\\',
  '{': '{',
  '}': '}',
  '\n': '\n',
  '\r': '\n',
};

/** Code pages of the charsets that a font may have. */
const FONT_PAGES: Readonly<Record<number, number>> = {
  77: 10000,
  128: 932,
  129: 949,
  130: 1361,
  134: 936,
  136: 950,
  161: 1253,
  162: 1254,
  163: 1258,
  177: 1255,
  178: 1256,
  186: 1257,
  204: 1251,
  222: 874,
  238: 1250,
};

interface Group {
  /** Holds no text. */
  hidden: boolean;
  isFontTable: boolean;
  font: number;
  /** Characters behind a Unicode one that stand for it in old programs. */
  substitutes: number;
}

/** Groups within groups whose settings are kept apart. */
const MAX_DEPTH = 500;
const TOKEN =
  /\\(?:([a-z]{1,32})(-?\d{1,9})? ?|'([\da-f]{2})|([^a-z']))|([{}])|[\r\n]+|([^\\{}\r\n]+)|\\/giy;

/** Text of a document in Rich Text Format 1.9, without its fields' instructions and pictures. Takes linear time. */
export function rtfText(source: string): string {
  const reader = new RtfReader();
  TOKEN.lastIndex = 0;
  for (let token = TOKEN.exec(source); token !== null; token = TOKEN.exec(source)) {
    const [, word, parameter, hex, sign, brace, text] = token;
    if (brace === '{') reader.open();
    else if (brace === '}') reader.close();
    else if (word !== undefined) {
      const value = parameter === undefined ? null : Number(parameter);
      if (word === 'bin') TOKEN.lastIndex += Math.max(0, value ?? 0);
      else reader.control(word, value);
    } else if (hex !== undefined) reader.addByte(Number.parseInt(hex, 16));
    else if (sign === '*') reader.hide();
    else if (sign !== undefined) reader.add(SIGNS[sign] ?? '');
    else if (text !== undefined) reader.add(text);
  }
  return reader.text();
}

class RtfReader {
  readonly #pieces: string[] = [];
  readonly #groups: Group[] = [];
  readonly #pages = new Map<number, number>();
  #group: Group = { hidden: false, isFontTable: false, font: 0, substitutes: 1 };
  #depth = 0;
  #page = 1252;
  #bytes: number[] = [];
  /** Characters that are left out: they stand for one that was added. */
  #skipped = 0;
  /** Within what Outlook adds to HTML in RTF for programs that know RTF only. */
  #isRepeated = false;

  open(): void {
    this.#flush();
    this.#depth++;
    if (this.#depth <= MAX_DEPTH) {
      this.#groups.push(this.#group);
      this.#group = { ...this.#group };
    }
  }

  close(): void {
    this.#flush();
    if (this.#depth > 0 && this.#depth-- <= MAX_DEPTH)
      this.#group = this.#groups.pop() ?? this.#group;
  }

  hide(): void {
    this.#group.hidden = true;
  }

  control(word: string, value: number | null): void {
    if (word === 'u' && value !== null) {
      this.#flush();
      this.#push(String.fromCharCode(value & 0xffff));
      this.#skipped = this.#group.substitutes;
      return;
    }
    if (DESTINATIONS.test(word)) {
      this.#group.hidden = true;
      this.#group.isFontTable ||= word === 'fonttbl';
    } else if (word === 'ansicpg') this.#page = value ?? this.#page;
    else if (word === 'mac') this.#page = 10000;
    else if (word === 'pc') this.#page = 437;
    else if (word === 'uc') this.#group.substitutes = Math.max(0, value ?? 1);
    else if (word === 'htmlrtf') this.#isRepeated = value !== 0;
    else if (word === 'f' && value !== null) {
      this.#flush();
      this.#group.font = value;
    } else if (word === 'fcharset' && this.#group.isFontTable) {
      const page = FONT_PAGES[value ?? 0];
      if (page !== undefined) this.#pages.set(this.#group.font, page);
    } else if (Object.hasOwn(SIGNS, word)) this.add(SIGNS[word] ?? '');
  }

  addByte(byte: number): void {
    if (this.#skipped > 0) this.#skipped--;
    else this.#bytes.push(byte);
  }

  add(text: string): void {
    this.#flush();
    const from = Math.min(this.#skipped, text.length);
    this.#skipped -= from;
    this.#push(text.slice(from));
  }

  text(): string {
    this.#flush();
    return this.#pieces.join('');
  }

  #push(text: string): void {
    if (!this.#group.hidden && !this.#isRepeated) this.#pieces.push(text);
  }

  #flush(): void {
    if (this.#bytes.length === 0) return;
    const page = this.#pages.get(this.#group.font) ?? this.#page;
    const bytes = Buffer.from(this.#bytes);
    this.#bytes = [];
    this.#push(decodeText(bytes, page === 10000 ? 'macintosh' : `cp${page}`));
  }
}
