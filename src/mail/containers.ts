import { inflateSync } from 'node:zlib';
import { decodeText } from './charsets.ts';
import type { LeafInfo } from './part-tree.ts';

/** RTF groups whose text is not part of the document. */
const DESTINATIONS =
  /^(?:fonttbl|colortbl|stylesheet|info|pict|object|objdata|fldinst|filetbl|listtable|listoverridetable|rsidtbl|generator|themedata|datastore|latentstyles|xmlnstbl|revtbl|nonshppict)$/;

const SIGNS: Readonly<Record<string, string>> = {
  ...{ par: '\n', line: '\n', sect: '\n', page: '\n', row: '\n', '\n': '\n', '\r': '\n' },
  ...{ cell: '\t', tab: '\t', emdash: '—', endash: '–', bullet: '•', '~': ' ', _: '-' },
  ...{ lquote: '‘', rquote: '’', ldblquote: '“', rdblquote: '”', '\\': '\\', '{': '{', '}': '}' },
};

const FONT_PAGES: Readonly<Record<number, number>> = {
  ...{ 77: 10000, 128: 932, 129: 949, 130: 1361, 134: 936, 136: 950, 161: 1253, 162: 1254 },
  ...{ 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250 },
};

interface Group {
  hidden: boolean;
  isFontTable: boolean;
  font: number;
  substitutes: number;
}

const MAX_DEPTH = 500;
const TOKEN =
  /\\(?:([a-z]{1,32})(-?\d{1,9})? ?|'([\da-f]{2})|([^a-z']))|([{}])|[\r\n]+|([^\\{}\r\n]+)|\\/giy;

/** Returns the text of a Rich Text Format 1.9 document without field instructions or images. Runs in linear time. */
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
  #skipped = 0;
  /** True inside the RTF version of HTML text, which Outlook adds for RTF-only programs. */
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

/** A part found in a container. `info` is null if `bytes` starts with a part header. */
interface ContainedPart {
  readonly info: Pick<LeafInfo, 'contentType' | 'filename' | 'contentId'> | null;
  readonly bytes: Buffer;
}

/** TNEF (MS-OXTNEF): message and attachment attributes, including MAPI properties. */
const SIGNATURE = 0x223e9f78;

const BODY = 0x800c;
const MESSAGE_PROPERTIES = 0x9003;
const CODEPAGE = 0x9007;
const NEW_ATTACHMENT = 0x9002;
const ATTACHMENT_TITLE = 0x8010;
const ATTACHMENT_DATA = 0x800f;
const ATTACHMENT_PROPERTIES = 0x9005;

const PR_BODY = 0x1000;
const PR_RTF_COMPRESSED = 0x1009;
const PR_HTML = 0x1013;
const PR_ATTACH_DATA = 0x3701;
const PR_ATTACH_FILENAME = 0x3704;
const PR_ATTACH_LONG_FILENAME = 0x3707;
const PR_ATTACH_MIME_TAG = 0x370e;
const PR_ATTACH_CONTENT_ID = 0x3712;

const STRING8 = 0x1e;
const UNICODE = 0x1f;
const OBJECT = 0x0d;
const BINARY = 0x102;
const MULTIPLE = 0x1000;
/** Byte sizes of fixed-size values, padded to a multiple of four. */
const FIXED: Readonly<Record<number, number>> = {
  ...{ 2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16 },
};

const MAX_ATTACHMENTS = 1000;
const MAX_LEVELS = 8;

interface Property {
  readonly type: number;
  readonly value: Buffer;
}

interface Attachment {
  title: Buffer | null;
  data: Buffer | null;
  properties: ReadonlyMap<number, Property>;
}

/** Returns the parts of a TNEF message (`winmail.dat`) up to the first defect, or null if the bytes are not TNEF. */
function tnefParts(bytes: Buffer, level = 0): ContainedPart[] | null {
  if (bytes.length < 6 || bytes.readUInt32LE(0) !== SIGNATURE) return null;
  let body: Buffer | null = null;
  let properties: ReadonlyMap<number, Property> = new Map();
  let charset = 'windows-1252';
  const attachments: Attachment[] = [];
  for (const { id, value } of readAttributes(bytes)) {
    const attachment = attachments.at(-1);
    if (id === BODY) body = value;
    else if (id === MESSAGE_PROPERTIES) properties = readProperties(value);
    else if (id === CODEPAGE && value.length >= 4) charset = `cp${value.readUInt32LE(0)}`;
    else if (id === NEW_ATTACHMENT && attachments.length < MAX_ATTACHMENTS)
      attachments.push({ title: null, data: null, properties: new Map() });
    else if (attachment === undefined) continue;
    else if (id === ATTACHMENT_TITLE) attachment.title = value;
    else if (id === ATTACHMENT_DATA) attachment.data = value;
    else if (id === ATTACHMENT_PROPERTIES) attachment.properties = readProperties(value);
  }
  const text = messageText(body, properties, charset);
  return [
    ...(text === null ? [] : [text]),
    ...attachments.flatMap((attachment) => attachmentParts(attachment, charset, level)),
  ];
}

function* readAttributes(
  bytes: Buffer,
): Generator<{ readonly id: number; readonly value: Buffer }> {
  // Attributes follow the signature and a key: level, id with type, length, value, checksum.
  for (let at = 6; at + 9 <= bytes.length; ) {
    const id = bytes.readUInt16LE(at + 1);
    const from = at + 9;
    const to = from + bytes.readUInt32LE(at + 5);
    if (to > bytes.length) return;
    yield { id, value: bytes.subarray(from, to) };
    at = to + 2;
  }
}

function readProperties(bytes: Buffer): ReadonlyMap<number, Property> {
  const result = new Map<number, Property>();
  try {
    let at = 4;
    for (let left = bytes.readUInt32LE(0); left > 0 && at + 4 <= bytes.length; left--) {
      const type = bytes.readUInt16LE(at) & ~MULTIPLE;
      const isMultiple = (bytes.readUInt16LE(at) & MULTIPLE) !== 0;
      const id = bytes.readUInt16LE(at + 2);
      at += 4;
      // A named property starts with a set, followed by a number or text.
      if (id >= 0x8000) {
        const isText = bytes.readUInt32LE(at + 16) === 1;
        at += 24 + (isText ? padToFour(bytes.readUInt32LE(at + 20)) : 0);
      }
      const length = FIXED[type];
      if (length === undefined && ![STRING8, UNICODE, OBJECT, BINARY].includes(type)) break;
      let values = 1;
      if (isMultiple || length === undefined) {
        values = bytes.readUInt32LE(at);
        at += 4;
      }
      for (; values > 0 && at <= bytes.length; values--) {
        const size = length ?? bytes.readUInt32LE(at);
        if (length === undefined) at += 4;
        if (at + size > bytes.length) return result;
        result.set(id, { type, value: bytes.subarray(at, at + size) });
        at += padToFour(size);
      }
    }
  } catch (error) {
    // The properties are truncated.
    if (!(error instanceof RangeError)) throw error;
  }
  return result;
}

function padToFour(size: number): number {
  return Math.ceil(size / 4) * 4;
}

function readString(property: Property | undefined, charset: string): string | null {
  if (property === undefined) return null;
  const { type, value } = property;
  const text = type === UNICODE ? value.toString('utf16le') : decodeText(value, charset);
  return cutAtNul(text) || null;
}

function cutAtNul(text: string): string {
  return text.split('\0', 1)[0] ?? '';
}

function messageText(
  body: Buffer | null,
  properties: ReadonlyMap<number, Property>,
  charset: string,
): ContainedPart | null {
  const html = properties.get(PR_HTML);
  if (html !== undefined) return part('text/html', null, htmlBytes(html));
  const rtf = properties.get(PR_RTF_COMPRESSED);
  const text =
    readString(properties.get(PR_BODY), charset) ??
    (body === null ? null : cutAtNul(decodeText(body, charset))) ??
    (rtf === undefined ? null : rtfText(decompressRtf(rtf.value).toString('latin1')));
  return text === null || text.trim() === '' ? null : part('text/plain', null, Buffer.from(text));
}

/** Returns bytes rather than text, so that a charset declared in a `meta` element is used. */
function htmlBytes({ type, value }: Property): Buffer {
  return type === UNICODE ? Buffer.from(value.toString('utf16le')) : value;
}

function attachmentParts(
  { title, data, properties }: Attachment,
  charset: string,
  level: number,
): ContainedPart[] {
  const name =
    readString(properties.get(PR_ATTACH_LONG_FILENAME), charset) ??
    readString(properties.get(PR_ATTACH_FILENAME), charset) ??
    (title === null ? null : cutAtNul(decodeText(title, charset)));
  const object = properties.get(PR_ATTACH_DATA);
  // An embedded message follows an interface identifier.
  const embedded = object?.type === OBJECT ? object.value.subarray(16) : object?.value;
  const bytes = data ?? embedded ?? Buffer.alloc(0);
  const inner = object?.type === OBJECT && level < MAX_LEVELS ? tnefParts(bytes, level + 1) : null;
  if (inner !== null) return inner;
  const type = readString(properties.get(PR_ATTACH_MIME_TAG), charset) ?? '';
  const contentType = /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/.test(type)
    ? type.toLowerCase()
    : 'application/octet-stream';
  const contentId = readString(properties.get(PR_ATTACH_CONTENT_ID), charset);
  return [part(contentType, name ?? 'attachment.dat', bytes, contentId)];
}

function part(
  contentType: string,
  filename: string | null,
  bytes: Buffer,
  contentId: string | null = null,
): ContainedPart {
  return { info: { contentType, filename, contentId }, bytes };
}

/** Initial dictionary for compressed text (MS-OXRTFCP 2.1.3.1.4). */
const DICTIONARY = Buffer.from(
  '{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx',
  'latin1',
);
const COMPRESSED_RTF = 0x75465a4c;
const MAX_RTF_BYTES = 8 * 1024 * 1024;

/** Decompresses RTF in TNEF (MS-OXRTFCP) up to the first defect. */
function decompressRtf(bytes: Buffer): Buffer {
  if (bytes.length < 16) return Buffer.alloc(0);
  if (bytes.readUInt32LE(8) !== COMPRESSED_RTF) return bytes.subarray(16);
  const window = Buffer.alloc(4096, ' ');
  DICTIONARY.copy(window);
  let write = DICTIONARY.length;
  const size = Math.min(bytes.readUInt32LE(4), MAX_RTF_BYTES);
  const out = Buffer.alloc(size);
  let length = 0;
  const put = (byte: number): void => {
    window[write] = byte;
    write = (write + 1) % 4096;
    if (length < size) out[length++] = byte;
  };
  for (let at = 16; at < bytes.length && length < size; ) {
    const flags = bytes[at++] ?? 0;
    for (let bit = 0; bit < 8 && at < bytes.length; bit++) {
      if ((flags & (1 << bit)) === 0) {
        put(bytes[at++] ?? 0);
        continue;
      }
      const reference = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
      at += 2;
      const from = reference >> 4;
      if (from === write) return out.subarray(0, length);
      for (let i = 0; i < (reference & 15) + 2; i++) put(window[(from + i) % 4096] ?? 0);
    }
  }
  return out.subarray(0, length);
}

const CMS = /^application\/(?:x-)?pkcs7-mime$/i;
const CMS_NAME = /\.p7[mz]$/i;
const TNEF = /^application\/(?:x-|vnd\.)?ms-tnef$/i;
const TNEF_NAME = /^(?:winmail[^/]*|win)\.dat$/i;

/** Maximum size of a container in bytes, before and after decompression. */
export const MAX_CONTAINER_BYTES = 24 * 1024 * 1024;

/** Reports whether a leaf may contain the message's actual parts, as in signed mail and mail from Exchange. */
export function isContainer({ contentType, filename }: LeafInfo): boolean {
  const name = filename ?? '';
  return (
    CMS.test(contentType) || TNEF.test(contentType) || CMS_NAME.test(name) || TNEF_NAME.test(name)
  );
}

/** Returns a container's parts up to the first defect, ignoring signatures. Returns none if the bytes are encrypted. */
export function unpackContainer({ filename }: LeafInfo, bytes: Buffer): ContainedPart[] {
  const tnef = tnefParts(bytes);
  if (tnef !== null) return tnef;
  const content = cmsContent(removeArmour(bytes));
  if (content === null || content.length === 0) return [];
  // A signed file such as `bill.xml.p7m` rather than a signed message.
  const inner = /^(.+\.\w{1,5})\.p7m$/i.exec(filename ?? '')?.[1];
  if (inner === undefined) return [{ info: null, bytes: content }];
  return [
    {
      info: { contentType: 'application/octet-stream', filename: inner, contentId: null },
      bytes: content,
    },
  ];
}

/** Encoded object identifiers of content types (RFC 5652, RFC 3274, RFC 5083). */
const PKCS7 = '2a864886f70d0107';
const SIGNED = `${PKCS7}02`;
const COMPRESSED = '2a864886f70d0109100109';
const ENCRYPTED = [`${PKCS7}03`, `${PKCS7}04`, `${PKCS7}06`, '2a864886f70d0109100117'];

/** Reports whether the bytes are the start of S/MIME-encrypted or armoured OpenPGP data. */
export function isEncrypted(head: Buffer): boolean {
  if (/^\s*-----BEGIN PGP MESSAGE-----/.test(head.toString('latin1', 0, 200))) return true;
  const cms = contentInfo(removeArmour(head));
  return cms !== null && ENCRYPTED.includes(cms.type);
}

/** Removes PEM armour or a second layer of base64, which some programs add. */
function removeArmour(bytes: Buffer): Buffer {
  const head = bytes.toString('latin1', 0, 64);
  if (!/^(?:-----BEGIN (?:PKCS7|CMS)-----\s|MI[A-Za-z0-9+/])/.test(head)) return bytes;
  return Buffer.from(bytes.toString('latin1').replace(/-----[A-Z0-9 ]{1,30}-----/g, ''), 'base64');
}

/** A BER element (ITU-T X.690). The content of a truncated element extends to the end of the bytes. */
interface Element {
  readonly tag: number;
  readonly from: number;
  /** Null for content of indefinite length, which a zero element terminates. */
  readonly to: number | null;
}

const SEQUENCE = 0x30;
const OBJECT_IDENTIFIER = 0x06;
const OCTETS = 0x04;
const OCTETS_IN_PIECES = 0x24;
const EXPLICIT = 0xa0;
const END_OF_CONTENTS = 0x00;

/** Reads an element's header. Returns undefined if the header is incomplete or its tag is unsupported. */
function elementAt(bytes: Buffer, at: number): Element | undefined {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f) return undefined;
  const from = at + 2;
  if (first === 0x80) return { tag, from, to: null };
  if (first < 0x80) return { tag, from, to: Math.min(from + first, bytes.length) };
  const size = first & 0x7f;
  if (size > 6 || from + size > bytes.length) return undefined;
  return {
    tag,
    from: from + size,
    to: Math.min(from + size + bytes.readUIntBE(from, size), bytes.length),
  };
}

/** Returns the offset after an element. Uses a loop, because hostile input can be nested very deeply. */
function elementEnd(bytes: Buffer, { from, to }: Element): number {
  if (to !== null) return to;
  let at = from;
  for (let level = 1; level > 0; ) {
    const element = elementAt(bytes, at);
    if (element === undefined) return bytes.length;
    if (element.tag === END_OF_CONTENTS) level -= 1;
    if (element.to === null) level += 1;
    at = element.to ?? element.from;
  }
  return at;
}

function* elementsIn(bytes: Buffer, outer: Element): Generator<Element> {
  const end = outer.to ?? bytes.length;
  for (let at = outer.from; at < end; ) {
    const element = elementAt(bytes, at);
    if (element === undefined || element.tag === END_OF_CONTENTS) return;
    yield element;
    at = elementEnd(bytes, element);
  }
}

/** Reads a ContentInfo or EncapsulatedContentInfo: a type followed by explicitly tagged content. */
function readTyped(bytes: Buffer, outer: Element | undefined) {
  if (outer?.tag !== SEQUENCE) return null;
  const [name, wrapper] = [...takeFirst(elementsIn(bytes, outer), 2)];
  if (name?.tag !== OBJECT_IDENTIFIER || name.to === null) return null;
  const type = bytes.toString('hex', name.from, name.to);
  const [content] = wrapper?.tag === EXPLICIT ? takeFirst(elementsIn(bytes, wrapper), 1) : [];
  return { type, content };
}

function* takeFirst<T>(values: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const value of values) {
    if (left-- <= 0) return;
    yield value;
  }
}

function contentInfo(bytes: Buffer) {
  return readTyped(bytes, elementAt(bytes, 0));
}

/** Returns the content of signed or compressed data, or null for other data and detached signatures. */
function cmsContent(bytes: Buffer): Buffer | null {
  const cms = contentInfo(bytes);
  if (cms === null || cms.content === undefined) return null;
  if (cms.type !== SIGNED && cms.type !== COMPRESSED) return null;
  // A version and algorithms precede the content; certificates and signatures follow it.
  for (const element of takeFirst(elementsIn(bytes, cms.content), 3)) {
    const content = element.tag === SEQUENCE ? readTyped(bytes, element)?.content : undefined;
    if (content === undefined) continue;
    const octets = readOctets(bytes, content);
    return cms.type === SIGNED ? octets : inflate(octets);
  }
  return null;
}

function readOctets(bytes: Buffer, outer: Element): Buffer {
  if (outer.tag === OCTETS) return bytes.subarray(outer.from, outer.to ?? bytes.length);
  const pieces: Buffer[] = [];
  const end = elementEnd(bytes, outer);
  // Pieces may be nested, so skip their headers.
  for (let at = outer.from; outer.tag === OCTETS_IN_PIECES && at < end; ) {
    const element = elementAt(bytes, at);
    if (element === undefined) break;
    const isPiece = element.tag === OCTETS && element.to !== null;
    if (isPiece) pieces.push(bytes.subarray(element.from, element.to ?? end));
    at = element.tag === OCTETS_IN_PIECES ? element.from : (element.to ?? element.from);
  }
  return Buffer.concat(pieces);
}

function inflate(bytes: Buffer): Buffer | null {
  try {
    return inflateSync(bytes, { maxOutputLength: MAX_CONTAINER_BYTES });
  } catch {
    return null;
  }
}
