import libmime from 'libmime';
import { decodeHeader, readHeaderBlock } from './headers.ts';

/** A leaf of the MIME tree, as offsets into the raw source. */
export interface Part {
  /** IMAP-style section number: `1`, `2.1`. */
  readonly section: string;
  /** Lower-case `type/subtype`. */
  readonly contentType: string;
  readonly charset: string | null;
  /** Lower-case transfer encoding; empty where none is declared. */
  readonly encoding: string;
  /** Lower-case disposition or empty. */
  readonly disposition: string;
  readonly filename: string | null;
  /** Without angle brackets. */
  readonly contentId: string | null;
  /** True below a multipart/related. */
  readonly related: boolean;
  readonly start: number;
  readonly end: number;
}

/** Ceilings on what a message may make us walk. */
const MAX_DEPTH = 40;
const MAX_PARTS = 1000;

export const PART_FIELDS: ReadonlySet<string> = new Set([
  'content-type',
  'content-transfer-encoding',
  'content-disposition',
  'content-id',
]);

export type PartHeaders = Readonly<ReturnType<typeof partHeaders>>;

/** Returns the four values that say what a part is, raw. */
export function partHeaders(fields: ReadonlyMap<string, readonly string[]>) {
  return {
    type: fields.get('content-type')?.[0],
    encoding: fields.get('content-transfer-encoding')?.[0],
    disposition: fields.get('content-disposition')?.[0],
    id: fields.get('content-id')?.[0],
  };
}

/** A body that cannot hold an attachment: plain text or HTML without a name or a disposition. */
export function isPlainBody(headers: PartHeaders): boolean {
  return (
    headers.disposition === undefined &&
    (headers.type === undefined ||
      (/^text\/(?:plain|html)\s*(?:;|$)/i.test(headers.type) && !/name/i.test(headers.type)))
  );
}

/** Leaves of the tree below the entity at `[start, end)`, in order. Torn structure yields what can be determined. */
export function readParts(
  source: Buffer,
  headers: PartHeaders,
  bodyStart: number,
  end: number,
): Part[] {
  const parts: Part[] = [];
  walk(source, headers, bodyStart, end, '', 0, false, false, parts);
  return parts;
}

/** Leaves of a whole message. */
export function partsOf(source: Buffer): Part[] {
  const { fields, bodyStart } = readHeaderBlock(source, 0, source.length, PART_FIELDS);
  return readParts(source, partHeaders(fields), bodyStart, source.length);
}

function walk(
  source: Buffer,
  headers: PartHeaders,
  start: number,
  end: number,
  section: string,
  depth: number,
  inDigest: boolean,
  related: boolean,
  parts: Part[],
): void {
  if (parts.length >= MAX_PARTS) return;
  const type = structured(headers.type);
  const fallback = inDigest ? 'message/rfc822' : 'text/plain';
  const declared = type.value.toLowerCase();
  const contentType = /^[^\s/]+\/[^\s/]+$/.test(declared) ? declared : fallback;
  const boundary = type.params.boundary;
  if (contentType.startsWith('multipart/') && boundary !== undefined && boundary !== '') {
    if (depth >= MAX_DEPTH) return;
    const digest = contentType === 'multipart/digest';
    const inRelated = related || contentType === 'multipart/related';
    let number = 0;
    for (const [childStart, childEnd] of bodyParts(source, boundary, start, end)) {
      number += 1;
      if (number > MAX_PARTS) return;
      const block = readHeaderBlock(source, childStart, childEnd, PART_FIELDS);
      const name = section === '' ? String(number) : `${section}.${number}`;
      const child = partHeaders(block.fields);
      walk(source, child, block.bodyStart, childEnd, name, depth + 1, digest, inRelated, parts);
    }
    return;
  }
  const disposition = structured(headers.disposition);
  const filename = disposition.params.filename ?? type.params.name;
  parts.push({
    section: section === '' ? '1' : section,
    contentType,
    charset: type.params.charset ?? null,
    encoding: (headers.encoding ?? '').trim().toLowerCase(),
    disposition: disposition.value.toLowerCase(),
    filename: filename === undefined || filename === '' ? null : decodeHeader(filename),
    contentId: contentId(headers.id),
    related,
    start,
    end,
  });
}

function structured(raw: string | undefined): {
  readonly value: string;
  readonly params: Readonly<Record<string, string>>;
} {
  if (raw === undefined) return { value: '', params: {} };
  const plain = /^([\w.+-]+\/[\w.+-]+)\s*;?$/.exec(raw);
  if (plain?.[1] !== undefined) return { value: plain[1], params: {} };
  try {
    const { value, params } = libmime.parseHeaderValue(raw);
    return { value: value === false ? '' : value, params };
  } catch {
    return { value: raw.split(';', 1)[0]?.trim() ?? '', params: {} };
  }
}

function contentId(raw: string | undefined): string | null {
  const id = raw?.trim().replace(/^<|>$/g, '');
  return id === undefined || id === '' ? null : id;
}

/** Ranges of the body parts between the lines of a boundary (RFC 2046, 5.1.1); an unclosed last part ends with its parent. */
function* bodyParts(
  source: Buffer,
  boundary: string,
  start: number,
  end: number,
): Generator<readonly [number, number]> {
  const needle = Buffer.from(`--${boundary}`, 'latin1');
  let partStart = -1;
  let at = start;
  while (at < end) {
    const found = source.indexOf(needle, at);
    if (found < 0 || found >= end) break;
    at = found + needle.length;
    if (found !== start && source[found - 1] !== 10) continue;
    const closing = source[at] === 45 && source[at + 1] === 45;
    let lineEnd = source.indexOf(10, at);
    if (lineEnd < 0 || lineEnd >= end) lineEnd = end - 1;
    if (!closing && source.toString('latin1', at, lineEnd).trim() !== '') continue;
    if (partStart >= 0) {
      // The line break before a boundary belongs to the boundary.
      let partEnd = found - 1;
      if (partEnd > partStart && source[partEnd - 1] === 13) partEnd -= 1;
      yield [partStart, Math.max(partStart, partEnd)];
    }
    if (closing) return;
    partStart = Math.min(lineEnd + 1, end);
    at = partStart;
  }
  if (partStart >= 0 && partStart < end) yield [partStart, end];
}
