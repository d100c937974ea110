import { inflateSync } from 'node:zlib';
import type { LeafInfo } from './leaf-info.ts';
import { type ContainedPart, tnefParts } from './tnef.ts';

const CMS = /^application\/(?:x-)?pkcs7-mime$/i;
const CMS_NAME = /\.p7[mz]$/i;
const TNEF = /^application\/(?:x-|vnd\.)?ms-tnef$/i;
const TNEF_NAME = /^(?:winmail[^/]*|win)\.dat$/i;

/** Bytes of a container that is opened, and those that a compressed one may unpack to. */
export const MOST_CONTAINER_BYTES = 24 * 1024 * 1024;

/** Returns whether a leaf may hold parts of the message that programs show in its stead: signed mail, or mail of Exchange. */
export function isContainer({ contentType, filename }: LeafInfo): boolean {
  const name = filename ?? '';
  return (
    CMS.test(contentType) || TNEF.test(contentType) || CMS_NAME.test(name) || TNEF_NAME.test(name)
  );
}

/**
 * Returns what a container holds, in its order; nothing where it is encrypted, or none. No signature is checked: what
 * follows a defect is left out.
 */
export function containedParts({ filename }: LeafInfo, bytes: Buffer): ContainedPart[] {
  const tnef = tnefParts(bytes);
  if (tnef !== null) return tnef;
  const content = cmsContent(unarmoured(bytes));
  if (content === null || content.length === 0) return [];
  // A signed file, not a signed message: `bill.xml.p7m`.
  const inner = /^(.+\.\w{1,5})\.p7m$/i.exec(filename ?? '')?.[1];
  if (inner === undefined) return [{ info: null, bytes: content }];
  return [
    {
      info: { contentType: 'application/octet-stream', filename: inner, contentId: null },
      bytes: content,
    },
  ];
}

/** Object identifiers of content types (RFC 5652, RFC 3274, RFC 5083), encoded. */
const PKCS7 = '2a864886f70d0107';
const SIGNED = `${PKCS7}02`;
const COMPRESSED = '2a864886f70d0109100109';
const ENCRYPTED = [`${PKCS7}03`, `${PKCS7}04`, `${PKCS7}06`, '2a864886f70d0109100117'];

/** Returns whether the beginning of a file says that it is encrypted: S/MIME, or OpenPGP in its armour. */
export function isEncrypted(head: Buffer): boolean {
  if (/^\s*-----BEGIN PGP MESSAGE-----/.test(head.toString('latin1', 0, 200))) return true;
  const cms = contentInfo(unarmoured(head));
  return cms !== null && ENCRYPTED.includes(cms.type);
}

/** Some programs encode twice, or write PEM. */
function unarmoured(bytes: Buffer): Buffer {
  const head = bytes.toString('latin1', 0, 64);
  if (!/^(?:-----BEGIN (?:PKCS7|CMS)-----\s|MI[A-Za-z0-9+/])/.test(head)) return bytes;
  return Buffer.from(bytes.toString('latin1').replace(/-----[A-Z0-9 ]{1,30}-----/g, ''), 'base64');
}

/** An element of BER (ITU-T X.690): where its content is; `to` is the end of what is there if that is cut off. */
interface Element {
  readonly tag: number;
  readonly from: number;
  /** Null for an indefinite length: its content ends with an element of zeros. */
  readonly to: number | null;
}

const SEQUENCE = 0x30;
const OBJECT_IDENTIFIER = 0x06;
const OCTETS = 0x04;
const OCTETS_IN_PIECES = 0x24;
const EXPLICIT = 0xa0;
const END_OF_CONTENTS = 0x00;

/** Reads the head of an element; undefined for none, and for tags that are not needed here. */
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

/** Where the element behind this one begins. Counts levels: hostile ones may be as deep as they are long. */
function behind(bytes: Buffer, { from, to }: Element): number {
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

/** The elements within one. */
function* elementsIn(bytes: Buffer, outer: Element): Generator<Element> {
  const end = outer.to ?? bytes.length;
  for (let at = outer.from; at < end; ) {
    const element = elementAt(bytes, at);
    if (element === undefined || element.tag === END_OF_CONTENTS) return;
    yield element;
    at = behind(bytes, element);
  }
}

/** A type and what is explicitly tagged behind it: ContentInfo and EncapsulatedContentInfo. */
function typed(bytes: Buffer, outer: Element | undefined) {
  if (outer?.tag !== SEQUENCE) return null;
  const [name, tagged] = [...firstOf(elementsIn(bytes, outer), 2)];
  if (name?.tag !== OBJECT_IDENTIFIER || name.to === null) return null;
  const type = bytes.toString('hex', name.from, name.to);
  const [content] = tagged?.tag === EXPLICIT ? firstOf(elementsIn(bytes, tagged), 1) : [];
  return { type, content };
}

function* firstOf<T>(values: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const value of values) {
    if (left-- <= 0) return;
    yield value;
  }
}

function contentInfo(bytes: Buffer) {
  return typed(bytes, elementAt(bytes, 0));
}

/** The content of signed or compressed data; null for everything else, and for a signature that has none. */
function cmsContent(bytes: Buffer): Buffer | null {
  const cms = contentInfo(bytes);
  if (cms === null || cms.content === undefined) return null;
  if (cms.type !== SIGNED && cms.type !== COMPRESSED) return null;
  // Version, algorithms, content; what follows are certificates and signatures.
  for (const element of firstOf(elementsIn(bytes, cms.content), 3)) {
    const content = element.tag === SEQUENCE ? typed(bytes, element)?.content : undefined;
    if (content === undefined) continue;
    const octets = octetsOf(bytes, content);
    return cms.type === SIGNED ? octets : inflated(octets);
  }
  return null;
}

function octetsOf(bytes: Buffer, outer: Element): Buffer {
  if (outer.tag === OCTETS) return bytes.subarray(outer.from, outer.to ?? bytes.length);
  const pieces: Buffer[] = [];
  const end = behind(bytes, outer);
  // Pieces may be in pieces themselves: their heads are passed over.
  for (let at = outer.from; outer.tag === OCTETS_IN_PIECES && at < end; ) {
    const element = elementAt(bytes, at);
    if (element === undefined) break;
    const isPiece = element.tag === OCTETS && element.to !== null;
    if (isPiece) pieces.push(bytes.subarray(element.from, element.to ?? end));
    at = element.tag === OCTETS_IN_PIECES ? element.from : (element.to ?? element.from);
  }
  return Buffer.concat(pieces);
}

function inflated(bytes: Buffer): Buffer | null {
  try {
    return inflateSync(bytes, { maxOutputLength: MOST_CONTAINER_BYTES });
  } catch {
    return null;
  }
}
