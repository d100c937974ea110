import { decodeText } from './charsets.ts';
import type { LeafInfo } from './leaf-info.ts';
import { rtfText } from './rtf-text.ts';

/** A part within a file that is a container; null `info` where `bytes` are a part with its own header. */
export interface ContainedPart {
  readonly info: Pick<LeafInfo, 'contentType' | 'filename' | 'contentId'> | null;
  readonly bytes: Buffer;
}

/** TNEF (MS-OXTNEF): attributes of a message and of its attachments, which hold MAPI properties. */
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
/** Bytes of values of a fixed size, filled up to four. */
const FIXED: Readonly<Record<number, number>> = {
  ...{ 2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16 },
};

/** Attachments of one container, and containers within containers. */
const MOST_ATTACHMENTS = 1000;
const MOST_LEVELS = 8;

interface Property {
  readonly type: number;
  readonly value: Buffer;
}

interface Attachment {
  title: Buffer | null;
  data: Buffer | null;
  properties: ReadonlyMap<number, Property>;
}

/**
 * Returns the text and the attachments of a message in TNEF (`winmail.dat`); null for other bytes. Reads each byte once,
 * copies texts only, and stops at the first attribute that does not fit.
 */
export function tnefParts(bytes: Buffer, level = 0): ContainedPart[] | null {
  if (bytes.length < 6 || bytes.readUInt32LE(0) !== SIGNATURE) return null;
  let body: Buffer | null = null;
  let properties: ReadonlyMap<number, Property> = new Map();
  let charset = 'windows-1252';
  const attachments: Attachment[] = [];
  for (const { id, value } of attributesOf(bytes)) {
    const attachment = attachments.at(-1);
    if (id === BODY) body = value;
    else if (id === MESSAGE_PROPERTIES) properties = propertiesOf(value);
    else if (id === CODEPAGE && value.length >= 4) charset = `cp${value.readUInt32LE(0)}`;
    else if (id === NEW_ATTACHMENT && attachments.length < MOST_ATTACHMENTS)
      attachments.push({ title: null, data: null, properties: new Map() });
    else if (attachment === undefined) continue;
    else if (id === ATTACHMENT_TITLE) attachment.title = value;
    else if (id === ATTACHMENT_DATA) attachment.data = value;
    else if (id === ATTACHMENT_PROPERTIES) attachment.properties = propertiesOf(value);
  }
  const text = textOf(body, properties, charset);
  return [
    ...(text === null ? [] : [text]),
    ...attachments.flatMap((attachment) => partsOf(attachment, charset, level)),
  ];
}

function* attributesOf(bytes: Buffer): Generator<{ readonly id: number; readonly value: Buffer }> {
  // Signature and key; each attribute has a level, an id with a type, a length, and a checksum behind it.
  for (let at = 6; at + 9 <= bytes.length; ) {
    const id = bytes.readUInt16LE(at + 1);
    const from = at + 9;
    const to = from + bytes.readUInt32LE(at + 5);
    if (to > bytes.length) return;
    yield { id, value: bytes.subarray(from, to) };
    at = to + 2;
  }
}

function propertiesOf(bytes: Buffer): ReadonlyMap<number, Property> {
  const found = new Map<number, Property>();
  try {
    let at = 4;
    for (let left = bytes.readUInt32LE(0); left > 0 && at + 4 <= bytes.length; left--) {
      const type = bytes.readUInt16LE(at) & ~MULTIPLE;
      const isMultiple = (bytes.readUInt16LE(at) & MULTIPLE) !== 0;
      const id = bytes.readUInt16LE(at + 2);
      at += 4;
      // A name: a set, and a number or a text.
      if (id >= 0x8000) {
        const isText = bytes.readUInt32LE(at + 16) === 1;
        at += 24 + (isText ? filled(bytes.readUInt32LE(at + 20)) : 0);
      }
      const fixed = FIXED[type];
      if (fixed === undefined && ![STRING8, UNICODE, OBJECT, BINARY].includes(type)) break;
      let values = 1;
      if (isMultiple || fixed === undefined) {
        values = bytes.readUInt32LE(at);
        at += 4;
      }
      for (; values > 0 && at <= bytes.length; values--) {
        const size = fixed ?? bytes.readUInt32LE(at);
        if (fixed === undefined) at += 4;
        if (at + size > bytes.length) return found;
        found.set(id, { type, value: bytes.subarray(at, at + size) });
        at += filled(size);
      }
    }
  } catch (error) {
    // It ends before it says so.
    if (!(error instanceof RangeError)) throw error;
  }
  return found;
}

function filled(size: number): number {
  return Math.ceil(size / 4) * 4;
}

function stringOf(property: Property | undefined, charset: string): string | null {
  if (property === undefined) return null;
  const { type, value } = property;
  const text = type === UNICODE ? value.toString('utf16le') : decodeText(value, charset);
  return untilNul(text) || null;
}

/** Texts end with a NUL. */
function untilNul(text: string): string {
  return text.split('\0', 1)[0] ?? '';
}

/** The text of the message: as it is, or that of its HTML or RTF. */
function textOf(
  body: Buffer | null,
  properties: ReadonlyMap<number, Property>,
  charset: string,
): ContainedPart | null {
  const html = properties.get(PR_HTML);
  if (html !== undefined) return part('text/html', null, htmlBytes(html));
  const rtf = properties.get(PR_RTF_COMPRESSED);
  const text =
    stringOf(properties.get(PR_BODY), charset) ??
    (body === null ? null : untilNul(decodeText(body, charset))) ??
    (rtf === undefined ? null : rtfText(uncompressedRtf(rtf.value).toString('latin1')));
  return text === null || text.trim() === '' ? null : part('text/plain', null, Buffer.from(text));
}

/** Its own charset is in a `meta` element, which only bytes may have. */
function htmlBytes({ type, value }: Property): Buffer {
  return type === UNICODE ? Buffer.from(value.toString('utf16le')) : value;
}

function partsOf(
  { title, data, properties }: Attachment,
  charset: string,
  level: number,
): ContainedPart[] {
  const name =
    stringOf(properties.get(PR_ATTACH_LONG_FILENAME), charset) ??
    stringOf(properties.get(PR_ATTACH_FILENAME), charset) ??
    (title === null ? null : untilNul(decodeText(title, charset)));
  const object = properties.get(PR_ATTACH_DATA);
  // The identifier of an interface comes before an embedded message.
  const embedded = object?.type === OBJECT ? object.value.subarray(16) : object?.value;
  const bytes = data ?? embedded ?? Buffer.alloc(0);
  const inner = object?.type === OBJECT && level < MOST_LEVELS ? tnefParts(bytes, level + 1) : null;
  if (inner !== null) return inner;
  const type = stringOf(properties.get(PR_ATTACH_MIME_TAG), charset) ?? '';
  const contentType = /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/.test(type)
    ? type.toLowerCase()
    : 'application/octet-stream';
  const contentId = stringOf(properties.get(PR_ATTACH_CONTENT_ID), charset);
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

/** What a compressed text may refer to before it begins (MS-OXRTFCP 2.1.3.1.4). */
const DICTIONARY = Buffer.from(
  '{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx',
  'latin1',
);
const COMPRESSED_RTF = 0x75465a4c;
const MOST_RTF_BYTES = 8 * 1024 * 1024;

/** Undoes the compression of RTF in TNEF (MS-OXRTFCP); what follows a defect is left out. */
function uncompressedRtf(bytes: Buffer): Buffer {
  if (bytes.length < 16) return Buffer.alloc(0);
  if (bytes.readUInt32LE(8) !== COMPRESSED_RTF) return bytes.subarray(16);
  const window = Buffer.alloc(4096, ' ');
  DICTIONARY.copy(window);
  let write = DICTIONARY.length;
  const size = Math.min(bytes.readUInt32LE(4), MOST_RTF_BYTES);
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
