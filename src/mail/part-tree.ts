import { isUtf8 } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import path from 'node:path';
import libmime from 'libmime';
import { decodeMarkup, decodeText, truncateText } from './charsets.ts';
import { isContainer, MAX_CONTAINER_BYTES, unpackContainer } from './containers.ts';
import {
  contentTypeCharset,
  decodeWords,
  headerParameter,
  messageStart,
  parseHeaderValue,
  rawText,
  walkHeader,
} from './headers.ts';
import { Base64, QuotedPrintable, type TransferDecoder, Uuencoded } from './transfer-decoding.ts';

export interface LeafInfo {
  readonly contentType: string;
  readonly charset: string | null;
  /** Usually `inline` or `attachment`. */
  readonly disposition: string | null;
  readonly filename: string | null;
  /** Without angle brackets. */
  readonly contentId: string | null;
  readonly flowed: boolean;
  readonly deleteSpace: boolean;
  readonly related: boolean;
}

/** Assumed for a leaf without a header. */
export const PLAIN_TEXT: LeafInfo = {
  contentType: 'text/plain',
  charset: null,
  disposition: null,
  filename: null,
  contentId: null,
  flowed: false,
  deleteSpace: false,
  related: false,
};

interface PartInfo {
  readonly leaf: LeafInfo;
  /** Lower-case subtype, or null for a leaf. */
  readonly multipart: string | null;
  /** Possible readings of the boundary parameter, with one character per byte. */
  readonly boundaries: readonly string[];
  readonly encoding: string;
}

/**
 * Reads a part's `Content-` fields. If there are several types, the first one wins. But if any has a boundary, the part
 * is a multipart with all their boundaries, so that no part is lost.
 *
 * @param parents subtypes of the enclosing multiparts, innermost last
 */
function readPartInfo(fields: readonly Buffer[], parents: readonly string[]): PartInfo {
  const info = parsePartInfo(fields, parents);
  const multiparts = fields.filter((lines) => PARTED.test(lines.toString('latin1')));
  if (multiparts.length <= (info.boundaries.length > 0 ? 1 : 0)) return info;
  const others = multiparts.slice(0, MAX_TYPES).map((lines) => parsePartInfo([lines], parents));
  const boundaries = [info, ...others].flatMap((one) => one.boundaries);
  const multipart = info.multipart ?? others[0]?.multipart ?? null;
  return { ...info, multipart, boundaries: [...new Set(boundaries)] };
}

const PARTED = /^content-type[ \t]*:\s*multipart\/[\s\S]*boundary/i;
const MAX_TYPES = 8;

function parsePartInfo(fields: readonly Buffer[], parents: readonly string[]): PartInfo {
  const values = contentFields(fields);
  const disposition = decodeUtf8OrLatin1(values.get('content-disposition') ?? '');
  const { value: disposed, params: named } = parseHeaderValue(disposition);
  const typeField = values.get('content-type');
  const type = typeField === undefined ? undefined : decodeUtf8OrLatin1(typeField);
  const { value, params } = parseHeaderValue(type ?? defaultType(disposed, named.filename));
  const isUntoldInDigest = parents.at(-1) === 'digest' && type === undefined;
  const contentType = isUntoldInDigest ? 'message/rfc822' : normaliseType(value);
  // Raw 8-bit text is UTF-8 or, failing that, in the part's charset.
  const readField = (name: string) => rawText(values.get(name) ?? '', params.charset || null);
  const hasName = Boolean(named.filename || params.name);
  const isFlowed = params.format?.toLowerCase().trim() === 'flowed';
  const leaf: LeafInfo = {
    contentType,
    charset: params.charset || contentTypeCharset(type ?? ''),
    disposition: decodeWords((disposed || '').toLowerCase().trim()) || null,
    filename: hasName
      ? (headerParameter(readField('content-disposition'), 'filename') ??
        headerParameter(readField('content-type'), 'name'))
      : null,
    contentId: readField('content-id').replace(/^<|>$/g, '') || null,
    flowed: isFlowed,
    deleteSpace: isFlowed && params.delsp?.toLowerCase().trim() === 'yes',
    related: parents.includes('related'),
  };
  const isMultipart = contentType.startsWith('multipart/');
  const encoding = removeComments(values.get('content-transfer-encoding') ?? '');
  return {
    leaf,
    multipart: isMultipart ? contentType.slice('multipart/'.length) : null,
    boundaries: isMultipart ? possibleBoundaries(params.boundary ?? '', type ?? '') : [],
    encoding: /[\w-]+/.exec(encoding.toLowerCase())?.[0] ?? '',
  };
}

/** Returns unfolded values by lower-case name, one character per byte. The first occurrence wins. */
function contentFields(fields: readonly Buffer[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const lines of fields) {
    const text = lines.toString('latin1').trimEnd();
    const colon = text.indexOf(':');
    const name = text.slice(0, colon).trim().toLowerCase();
    const value = text.slice(colon + 1).replace(/[\r\n]+[ \t]*/g, ' ');
    if (!values.has(name)) values.set(name, value.trim());
  }
  return values;
}

function decodeUtf8OrLatin1(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : value;
}

function defaultType(disposition: string | false, filename: string | undefined): string {
  const ending = path.extname(filename ?? '').slice(1);
  if (ending !== '') return libmime.detectMimeType(ending);
  return /^attachment$/i.test(disposition || '') ? 'application/octet-stream' : 'text/plain';
}

function removeComments(value: string): string {
  const [from, to] = [value.indexOf('('), value.lastIndexOf(')')];
  return from >= 0 && to > from ? value.slice(0, from) + value.slice(to + 1) : value;
}

/** Treats an invalid type as plain text (RFC 2045, 5.2) and an odd multipart as mixed (RFC 2046, 5.1.7). */
function normaliseType(value: string | false): string {
  const text = (value || '').toLowerCase().trim();
  const type = /^([\w!#$&.+^-]{1,127})\s{0,9}\/\s{0,9}([\w!#$&.+^-]{1,127})(?=$|[\s;,(])/.exec(
    text,
  );
  if (type !== null) return `${type[1]}/${type[2]}`;
  return /^multipart\s{0,9}\//.test(text) ? 'multipart/mixed' : 'text/plain';
}

/** Returns the boundary with and without comments and quotes, and one that lacks only its semicolon. */
function possibleBoundaries(text: string, type: string): string[] {
  const match = /\bboundary\s{0,9}=\s{0,9}(?:"([^"]{1,200})"|([^\s";]{1,200}))/i.exec(type);
  const ways = [text, text.replace(/\s{0,9}\([^()]{0,200}\)$/, ''), text.replace(/^'(.*)'$/, '$1')];
  const all = [...ways, match?.[1] ?? match?.[2] ?? ''].map((way) => way.trimEnd());
  const bytes = all.flatMap((way) => [
    Buffer.from(way).toString('latin1'),
    Buffer.from(way, 'latin1').toString('latin1'),
  ]);
  return [...new Set(bytes)].filter((way) => way !== '');
}

export type LimitViolation = 'depth' | 'parts' | 'header';

/** Receives a leaf's decoded bytes in order. A returned promise pauses the source until it settles. */
type LeafSink = (chunk: Buffer) => Promise<void> | undefined;

export interface Leaf<T> {
  readonly kind: 'leaf';
  readonly info: LeafInfo;
  readonly content: T;
}
interface Multipart<T> {
  readonly kind: 'multipart';
  readonly subtype: string;
  readonly children: readonly Part<T>[];
}
export type Part<T> = Leaf<T> | Multipart<T>;

export type LeafHandler<T> = (info: LeafInfo) => Taken<T>;

interface Taken<T> {
  readonly content: T;
  readonly sink: LeafSink;
  /** Called once after the last bytes, even if a limit truncated the leaf. */
  readonly ended?: () => void;
}

export interface TreeLimits {
  readonly headerBytes: number;
  readonly depth: number;
  readonly parts: number;
  /** Bytes to keep from a multipart without parts, plus one piece so that the sink can detect truncation. */
  readonly textPartBytes: number;
}

export interface ParsedTree<T> {
  /** Null if even the header block is incomplete. */
  readonly root: Part<T> | null;
  /** Limit that was exceeded, leaving the tree incomplete. */
  readonly breach: LimitViolation | null;
  readonly parts: number;
}

/** Bytes to parse before a sink can pause the source. */
const PIECE = 64 * 1024;

/**
 * Splits a streamed message into its parts. Closing delimiters may be missing, so a delimiter of any multipart closes
 * everything open within it (RFC 2046 section 5.1.2). A multipart continues after its closing delimiter if another
 * delimiter follows. Attached messages are leaves, which the caller can parse. Text after base64 and uuencoded files in
 * text become leaves. The parts of signed mail and TNEF become leaves after their container.
 *
 * @returns the tree, which is partial if a limit was exceeded. Rejects only with errors from `source` or a sink
 */
export async function parseTree<T>(
  source: Buffer | AsyncIterable<Uint8Array>,
  take: LeafHandler<T>,
  limits: TreeLimits,
): Promise<ParsedTree<T>> {
  const splitter = new Splitter(take, limits);
  if (Buffer.isBuffer(source)) splitter.read(source, true);
  else {
    for await (const chunk of source) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length; at += PIECE) {
        splitter.read(bytes.subarray(at, at + PIECE), false);
        await splitter.settle();
      }
      if (splitter.breach !== null) break;
    }
    splitter.read(NOTHING, true);
  }
  await splitter.settle();
  return { root: splitter.root, breach: splitter.breach, parts: splitter.count };
}

const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
const CR = 0x0d;
const DASH = 0x2d;
const SPACE = 0x20;
const TAB = 0x09;
const PADDING = 1024;
/** Maximum number of carriage returns before a line feed that count as part of the line ending. */
const MAX_RETURNS = 8;

interface Body {
  add(bytes: Buffer): void;
  end(): void;
}

interface Open<T> extends Body {
  readonly depth: number;
  readonly part: Leaf<T> | OpenMultipart<T>;
  readonly boundaries: string[];
}

interface OpenMultipart<T> extends Multipart<T> {
  readonly children: Part<T>[];
}

interface Delimiter<T> {
  readonly of: Open<T> | undefined;
  readonly closes: boolean;
  readonly next: number;
}

class Splitter<T> {
  breach: LimitViolation | null = null;
  count = 0;
  root: Part<T> | null = null;
  /** Leaves found inside a root that is itself a leaf. */
  readonly #siblings: Part<T>[] = [];
  #lastSibling: Body | null = null;
  readonly #open: Open<T>[] = [];
  /** Open multiparts by boundary. If two share a boundary, the inner one wins. */
  readonly #boundaries = new Map<string, Open<T>>();
  #longest = 0;
  #isHeader = true;
  /** True if the next bytes of the body start a line. */
  #isLineStart = true;
  #isBodyStart = false;
  #bytes: Buffer = NOTHING;
  #at = 0;
  #final = false;
  /** Offsets of the next line endings that are followed by two dashes. */
  readonly #dashes = { lf: -1, cr: -1 };
  #busy: Promise<void>[] = [];

  constructor(
    private readonly take: LeafHandler<T>,
    private readonly limits: TreeLimits,
  ) {}

  /** @param final true for the last piece */
  read(chunk: Buffer, final: boolean): void {
    const rest = this.#bytes.subarray(this.#at);
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    this.#at = 0;
    this.#final = final;
    this.#dashes.lf = -1;
    this.#dashes.cr = -1;
    while (this.breach === null) if (!(this.#isHeader ? this.#header() : this.#body())) break;
    if (!final) return;
    this.#close(0);
    if (this.root !== null && this.#siblings.length > 0)
      this.root = {
        kind: 'multipart',
        subtype: 'mixed',
        children: [this.root, ...this.#siblings],
      };
  }

  /** Resolves once all sinks can accept more. */
  async settle(): Promise<void> {
    const pending = this.#busy.splice(0);
    if (pending.length > 0) await Promise.all(pending);
  }

  within(info: PartInfo): OpenMultipart<T> {
    const part: OpenMultipart<T> = { kind: 'multipart', subtype: '', children: [] };
    const body = this.#multipartBody(part, { ...info, encoding: '' }, 1);
    this.#push({ depth: 1, part, boundaries: [...info.boundaries], ...body });
    this.#isHeader = false;
    return part;
  }

  /** Returns false if it needs more bytes. */
  #header(): boolean {
    const bytes = this.#bytes;
    const isRoot = this.#open.length === 0;
    if (isRoot && !this.#final && bytes.length < PADDING) return false;
    // A delimiter can directly follow another one.
    const delimiter = isRoot ? null : this.#delimiter(this.#at);
    if (delimiter === undefined) return false;
    if (delimiter?.of !== undefined) {
      // If either one is closing, a part may still follow.
      const closes = delimiter.closes && delimiter.of !== this.#open.at(-1);
      return this.#closeAt(delimiter.of, { ...delimiter, closes });
    }
    const from = isRoot ? messageStart(bytes) : this.#at;
    const limit = from + this.limits.headerBytes + 1;
    const isCut = bytes.length >= limit;
    const fields: Buffer[] = [];
    const isWhole = this.#final && !isCut;
    const end = walkHeader(bytes.subarray(0, limit), from, isRoot, isWhole, (lines, isDamaged) => {
      if (!isDamaged && isContentField(lines[0])) fields.push(lines);
    });
    if (end === null) {
      if (isCut) this.breach = 'header';
      return false;
    }
    this.#begin(fields);
    this.#at = end;
    this.#isHeader = false;
    this.#isLineStart = true;
    this.#isBodyStart = true;
    return true;
  }

  #begin(fields: readonly Buffer[]): void {
    const parent = this.#open.at(-1);
    const parents = this.#open.map(({ part }) => (part.kind === 'leaf' ? '' : part.subtype));
    const depth = (parent?.depth ?? 0) + 1;
    if (!this.#countPart(depth)) return;
    const info = readPartInfo(fields, parents);
    let open: Open<T>;
    if (info.multipart === null) {
      const taken = this.take(info.leaf);
      const part: Leaf<T> = { kind: 'leaf', info: info.leaf, content: taken.content };
      const bytes = this.#bytesOf(taken);
      const body = isContainer(info.leaf) ? this.#containerBody(info.leaf, depth, bytes) : bytes;
      open = { depth, part, boundaries: [], ...this.#leafBody(info, body) };
    } else {
      const part: OpenMultipart<T> = { kind: 'multipart', subtype: info.multipart, children: [] };
      const body = this.#multipartBody(part, info, depth);
      open = { depth, part, boundaries: [...info.boundaries], ...body };
    }
    if (parent === undefined) this.root = open.part;
    else if (parent.part.kind === 'multipart') parent.part.children.push(open.part);
    this.#push(open);
  }

  /** Counts a part. Returns false if a limit is exceeded. */
  #countPart(depth: number): boolean {
    this.count += 1;
    if (depth > this.limits.depth) this.breach = 'depth';
    else if (this.count > this.limits.parts) this.breach = 'parts';
    return this.breach === null;
  }

  /** Reads a body up to the next delimiter. Returns false if it needs more bytes. */
  #body(): boolean {
    const bytes = this.#bytes;
    const from = this.#at;
    // The first delimiter of a multipart may be missing.
    if (this.#isBodyStart && this.#open.at(-1)?.part.kind === 'multipart') {
      if (bytes.length < from + CONTENT.length && !this.#final) return false;
      this.#isHeader = isContent(bytes.toString('latin1', from, from + CONTENT.length));
    }
    this.#isBodyStart = false;
    if (this.#isHeader) return true;
    const mayEnd = this.#boundaries.size > 0 || this.#open.at(-1)?.part.kind === 'multipart';
    let line = mayEnd ? this.#dashedLine(from, this.#isLineStart) : -1;
    for (; line >= 0; line = this.#dashedLine(line, false)) {
      const delimiter = this.#delimiter(line);
      const end = line === from ? from : this.#lineEnd(line);
      if (delimiter === undefined) return this.#pass(end);
      if (delimiter.of === undefined) continue;
      this.#pass(end);
      return this.#closeAt(delimiter.of, delimiter);
    }
    return this.#pass(this.#final || !mayEnd ? bytes.length : this.#lastLine(from));
  }

  #pass(end: number): false {
    if (end > this.#at) {
      this.#open.at(-1)?.add(this.#bytes.subarray(this.#at, end));
      this.#isLineStart = false;
      this.#at = end;
    }
    return false;
  }

  #dashedLine(from: number, isLineStart: boolean): number {
    const bytes = this.#bytes;
    const dashes = this.#dashes;
    if (isLineStart && bytes[from] === DASH && bytes[from + 1] === DASH) return from;
    if (dashes.lf < from) dashes.lf = orEnd(bytes.indexOf('\n--', from), bytes);
    if (dashes.cr < from) dashes.cr = orEnd(bytes.indexOf('\r--', from), bytes);
    const line = Math.min(dashes.lf, dashes.cr) + 1;
    return line > bytes.length ? -1 : line;
  }

  /** Returns the start of the line ending before a delimiter, since it belongs to the delimiter. */
  #lineEnd(line: number): number {
    const bytes = this.#bytes;
    let end = line - 1;
    if (bytes[end] === LF) {
      const least = Math.max(this.#at, end - MAX_RETURNS);
      while (end > least && bytes[end - 1] === CR) end--;
    }
    return end;
  }

  /** Returns the start of a last line that may be a delimiter, including the preceding line ending. */
  #lastLine(from: number): number {
    const bytes = this.#bytes;
    const body = bytes.subarray(from);
    const end = Math.max(body.lastIndexOf(LF), body.lastIndexOf(CR));
    if (end < 0 && !this.#isLineStart) return bytes.length;
    const line = from + end + 1;
    const isOpen = line === bytes.length || (line + 1 === bytes.length && bytes[line] === DASH);
    if (!isOpen) return bytes.length;
    return end < 0 ? from : this.#lineEnd(line);
  }

  /** Reads a line that may be a delimiter. Returns undefined if it needs more bytes. */
  #delimiter(line: number): Delimiter<T> | undefined {
    const bytes = this.#bytes;
    const none = { of: undefined, closes: false, next: line };
    if (bytes.length < line + 2 && !this.#final) return undefined;
    if (bytes[line] !== DASH || bytes[line + 1] !== DASH) return none;
    const most = line + 2 + this.#longest + PADDING;
    let end = line + 2;
    while (end < most && end < bytes.length && bytes[end] !== LF && bytes[end] !== CR) end++;
    if (end === most) return none;
    let next = end;
    while (bytes[next] === CR && next < end + MAX_RETURNS) next++;
    if (next === bytes.length && !this.#final) return undefined;
    next = bytes[next] === LF ? next + 1 : Math.min(end + 1, bytes.length);
    // Trailing blanks are padding (RFC 2046 section 5.1.1).
    while (bytes[end - 1] === SPACE || bytes[end - 1] === TAB) end--;
    const name = bytes.toString('latin1', line + 2, end);
    const of = this.#boundaries.get(name);
    if (of !== undefined) return { of, closes: false, next };
    const closed = name.endsWith('--') ? this.#boundaries.get(name.slice(0, -2)) : undefined;
    if (closed !== undefined) return { of: closed, closes: true, next };
    const last = this.#open.at(-1);
    if (last?.part.kind !== 'multipart' || last.part.children.length > 0 || name === '')
      return none;
    if (bytes.length < next + CONTENT.length && !this.#final) return undefined;
    if (!isBoundaryOf(last, name, bytes.toString('latin1', next, next + CONTENT.length)))
      return none;
    last.boundaries.push(name);
    this.#index();
    return { of: last, closes: false, next };
  }

  /** Closes everything open within a multipart at its delimiter. */
  #closeAt(of: Open<T>, { closes, next }: Delimiter<T>): true {
    this.#close(this.#open.indexOf(of) + 1);
    this.#isHeader = !closes;
    this.#isLineStart = true;
    this.#at = next;
    return true;
  }

  #push(open: Open<T>): void {
    this.#open.push(open);
    this.#index();
  }

  #close(depth: number): void {
    if (this.#open.length <= depth) return;
    while (this.#open.length > depth) {
      this.#open.at(-1)?.end();
      this.#endSibling();
      this.#open.pop();
    }
    this.#index();
  }

  #index(): void {
    this.#boundaries.clear();
    this.#longest = 0;
    for (const open of this.#open) {
      for (const boundary of open.boundaries) {
        this.#boundaries.set(boundary, open);
        this.#longest = Math.max(this.#longest, boundary.length);
      }
    }
  }

  #leafBody({ leaf, encoding }: PartInfo, to: Body): Body {
    const isText =
      leaf.contentType === 'text/plain' &&
      leaf.filename === null &&
      leaf.disposition !== 'attachment';
    if (UUENCODED.test(encoding)) return this.#uuencodedBody(to);
    const decoder = this.#decoderOf(encoding);
    const body = isText ? this.#filesInText(to) : to;
    if (decoder === null) return body;
    return {
      add: (bytes) => body.add(decoder.some(bytes)),
      end: () => {
        body.add(decoder.rest());
        body.end();
      },
    };
  }

  #decoderOf(encoding: string): TransferDecoder | null {
    if (encoding === 'quoted-printable') return new QuotedPrintable();
    return encoding === 'base64' ? new Base64(this.#siblingText()) : null;
  }

  #bytesOf({ sink, ended }: Taken<T>): Body {
    let last: Promise<void> | undefined;
    return {
      add: (bytes) => {
        if (bytes.length === 0) return;
        const pause = sink(bytes);
        if (pause !== undefined) this.#busy.push(pause);
        last = pause ?? last;
      },
      end: () => {
        if (last === undefined) ended?.();
        else this.#busy.push(last.then(ended));
      },
    };
  }

  /** Turns uuencoded files within text into separate leaves. */
  #filesInText(to: Body): Body {
    let into = to;
    const file = (filename: string): void => {
      const ending = /\.(\w{1,10})$/.exec(filename)?.[1];
      const contentType =
        ending === undefined ? 'application/octet-stream' : libmime.detectMimeType(ending);
      into = this.#openSibling({
        ...PLAIN_TEXT,
        contentType,
        disposition: 'attachment',
        filename,
      });
    };
    const text = (bytes: Buffer): void => to.add(bytes);
    const files = new Uuencoded({ text, file, bytes: (bytes) => into.add(bytes) });
    return {
      add: (bytes) => files.some(bytes),
      end: () => {
        files.rest();
        to.end();
      },
    };
  }

  /** Decodes a uuencoded leaf. Leaves it unchanged if it is merely labelled as such. */
  #uuencodedBody(to: Body): Body {
    let state: 'before' | 'file' | 'raw' = 'before';
    let chunks: Buffer[] = [];
    let heldBytes = 0;
    const out = (bytes: Buffer): void => to.add(bytes);
    const sibling = this.#siblingText();
    const release = (into: (bytes: Buffer) => void) => {
      for (const bytes of chunks) into(bytes);
      chunks = [];
    };
    const text = (bytes: Buffer): void => {
      if (state === 'raw') out(bytes);
      else if (state === 'file') sibling(bytes);
      else {
        chunks.push(bytes);
        heldBytes += bytes.length;
        if (heldBytes <= PIECE) return;
        state = 'raw';
        release(out);
      }
    };
    const file = (): void => {
      if (state === 'before') state = 'file';
      release(sibling);
    };
    const files = new Uuencoded({ text, file, bytes: out });
    return {
      add: (bytes) => files.some(bytes),
      end: () => {
        files.rest();
        release(out);
        to.end();
      },
    };
  }

  #siblingText(): (bytes: Buffer) => void {
    let into: Body | null = null;
    return (bytes) => {
      if (into === null && bytes.every((byte) => byte <= SPACE)) return;
      into ??= this.#openSibling(PLAIN_TEXT);
      into.add(bytes);
    };
  }

  /** Appends the parts found in a container once it ends. */
  #containerBody(info: LeafInfo, depth: number, to: Body): Body {
    let chunks: Buffer[] = [];
    let size = 0;
    return {
      add: (bytes) => {
        to.add(bytes);
        size += bytes.length;
        if (size > MAX_CONTAINER_BYTES) chunks = [];
        else chunks.push(Buffer.from(bytes));
      },
      end: () => {
        to.end();
        for (const part of unpackContainer(info, Buffer.concat(chunks))) {
          if (this.breach !== null) return;
          if (part.info === null) this.#readSibling(part.bytes, depth);
          else this.#openSibling({ ...PLAIN_TEXT, ...part.info }).add(part.bytes);
        }
      },
    };
  }

  /** Reads a part whose header is inside a container. */
  #readSibling(source: Buffer, depth: number): void {
    const { limits } = this;
    const budget = { ...limits, depth: limits.depth - depth, parts: limits.parts - this.count };
    const inner = new Splitter(this.take, budget);
    inner.read(source, true);
    this.count += inner.count;
    this.breach ??= inner.breach;
    this.#busy.push(...inner.#busy.splice(0));
    if (inner.root !== null) this.#addSibling(inner.root);
  }

  #addSibling(part: Part<T>): void {
    const parent = this.#open.findLast((open) => open.part.kind === 'multipart')?.part;
    if (parent?.kind === 'multipart') parent.children.push(part);
    else this.#siblings.push(part);
  }

  #openSibling(info: LeafInfo): Body {
    this.#endSibling();
    if (!this.#countPart(0)) return { add: () => {}, end: () => {} };
    const taken = this.take(info);
    this.#addSibling({ kind: 'leaf', info, content: taken.content });
    this.#lastSibling = this.#bytesOf(taken);
    return this.#lastSibling;
  }

  #endSibling(): void {
    this.#lastSibling?.end();
    this.#lastSibling = null;
  }

  /**
   * Turns a multipart without parts into text, or a file if it has a name, so that nothing is lost. If it has a
   * transfer encoding (forbidden by RFC 2045 section 6.4), it is also decoded and searched for parts.
   */
  #multipartBody(part: OpenMultipart<T>, info: PartInfo, depth: number): Body {
    let chunks: Buffer[] = [];
    let bytes = 0;
    const decoder = this.#decoderOf(info.encoding);
    const { limits } = this;
    const budget = { ...limits, depth: limits.depth - depth + 1, parts: limits.parts - this.count };
    const inner = decoder === null ? null : new Splitter(this.take, budget);
    const hidden = inner?.within(info);
    const scan = (chunk: Buffer, final: boolean): void => {
      if (inner === null) return;
      const before = inner.count;
      inner.read(chunk, final);
      this.count += inner.count - before;
      this.breach ??= inner.breach;
      this.#busy.push(...inner.#busy.splice(0));
    };
    return {
      add: (chunk) => {
        if (part.children.length > 0) chunks = [];
        else if (decoder !== null) scan(decoder.some(chunk), false);
        else if (bytes <= limits.textPartBytes) {
          chunks.push(chunk);
          bytes += chunk.length;
        }
      },
      end: () => {
        const isEmpty = part.children.length === 0;
        if (decoder !== null && hidden !== undefined && (isEmpty || hidden.children.length > 0)) {
          scan(decoder.rest(), true);
          part.children.unshift(...hidden.children);
        } else if (isEmpty && this.breach === null) {
          const { filename, disposition } = info.leaf;
          const isFile = filename !== null || disposition === 'attachment';
          const leaf = isFile ? info.leaf : PLAIN_TEXT;
          const taken = this.take(leaf);
          part.children.push({ kind: 'leaf', info: leaf, content: taken.content });
          const text = this.#bytesOf(taken);
          for (const chunk of chunks) text.add(chunk);
          text.end();
        }
      },
    };
  }
}

const UUENCODED = /^(?:x-)?uue(?:ncode)?$/;
const CONTENT = 'content-';

/** Ignores case in boundaries. If a part's header follows, accepts any boundary. */
function isBoundaryOf({ boundaries }: Open<unknown>, name: string, next: string): boolean {
  const isNamed = boundaries.some((boundary) => boundary.toLowerCase() === name.toLowerCase());
  return isNamed || isContent(next);
}

function isContent(start: string): boolean {
  return start.toLowerCase() === CONTENT;
}

function isContentField(byte = 0): boolean {
  return (byte | 0x20) === 0x63;
}

function orEnd(at: number, bytes: Buffer): number {
  return at < 0 ? bytes.length : at;
}

export interface LeafContent {
  size: number;
  /** The first bytes of a leaf that may be text. */
  readonly kept: Buffer[];
  /** True if `kept` lacks bytes. */
  cut: boolean;
  /** About `HEAD_BYTES` of a leaf of which nothing is kept. */
  head: Buffer;
  readonly hash: Hash | null;
}

/** Bytes needed to recognise a file's format. */
export const HEAD_BYTES = 1024;

export const EMBEDDED = /^message\/(?:rfc822|global|news)$/;
const REPORT = /^message\/(?:delivery-status|disposition-notification|feedback-report)$/;

/** `event` is a calendar or an address card, `rich` is marked-up text, and `other` is text such as a patch. */
export type BodyKind = 'plain' | 'html' | 'event' | 'rich' | 'other';

const EVENT = /^text\/(?:calendar|x-vcalendar|vcard|x-vcard|directory)$/;
const RICH = /^text\/(?:enriched|richtext|rtf)$/;
const CODE = /^text\/(?:css|javascript|ecmascript|x-javascript)$/;

/** Returns the kind of body, or null if the leaf is not the message's own text. */
export function bodyKind(info: LeafInfo): BodyKind | null {
  const { contentType, disposition, filename, related } = info;
  if (disposition === 'attachment') return null;
  if (contentType === 'text/html') return 'html';
  if (contentType === 'text/plain' || REPORT.test(contentType)) return 'plain';
  // Other text is a body if it has no file name and is not code for a page.
  if (!contentType.startsWith('text/') || filename !== null) return null;
  if (related && CODE.test(contentType)) return null;
  if (EVENT.test(contentType)) return 'event';
  return RICH.test(contentType) ? 'rich' : 'other';
}

export function isBodyText(info: LeafInfo): boolean {
  return bodyKind(info) !== null;
}

/** Reports whether a leaf is a listed attachment. Inline text with a file name is also a body. */
export function isListed(info: LeafInfo): boolean {
  return info.filename !== null || !isBodyText(info);
}

/**
 * Keeps the bytes of bodies and attached messages up to their limits. Only counts other bytes.
 *
 * @param hashes hashes the bytes of listed attachments
 */
export function collectText(
  limits: { readonly textPartBytes: number; readonly embeddedBytes: number },
  hashes = false,
): LeafHandler<LeafContent> {
  return (info) => {
    const text = isBodyText(info) ? limits.textPartBytes : 0;
    const most = EMBEDDED.test(info.contentType) ? limits.embeddedBytes : text;
    return keepLeaf(most, hashes && isListed(info) ? createHash('sha256') : null);
  };
}

/** Keeps up to `max` bytes of a leaf, and hashes all of them if there is a `hash`. */
export function keepLeaf(max: number, hash: Hash | null = null): Taken<LeafContent> {
  const content: LeafContent = { size: 0, kept: [], cut: false, head: NOTHING, hash };
  const sink = (chunk: Buffer) => {
    const room = Math.max(0, max - content.size);
    content.size += chunk.length;
    hash?.update(chunk);
    if (room > 0) content.kept.push(ownBytes(chunk.subarray(0, room)));
    if (chunk.length > room) content.cut = true;
    if (max === 0 && content.head.length < HEAD_BYTES)
      content.head = Buffer.concat([content.head, chunk.subarray(0, HEAD_BYTES)]);
    return undefined;
  };
  return { content, sink };
}

/** Copies a small part of a large buffer, because a view would keep all of it in memory. */
function ownBytes(bytes: Buffer): Buffer {
  return bytes.buffer.byteLength > 2 * bytes.length ? Buffer.from(bytes) : bytes;
}

export function leafBytes({ kept }: LeafContent): Buffer {
  return kept.length === 1 && kept[0] !== undefined ? kept[0] : Buffer.concat(kept);
}

/** Returns up to `maxChars` of a leaf's text, decoded, with LF line endings and without soft line breaks. */
export function leafText(info: LeafInfo, content: LeafContent, maxChars: number): string {
  let bytes = leafBytes(content);
  if (info.flowed && info.contentType === 'text/plain') {
    // A soft break is ASCII in every charset that format=flowed allows.
    const flowed = libmime.decodeFlowed(bytes.toString('latin1'), info.deleteSpace);
    bytes = Buffer.from(flowed, 'latin1');
  }
  const decode = info.contentType === 'text/html' ? decodeMarkup : decodeText;
  const text = truncateText(decode(bytes, info.charset), maxChars);
  return text.includes('\r') ? text.replace(/\r+\n?/g, lineEnds) : text;
}

/** CR LF, CR CR LF and a lone CR each end one line. */
function lineEnds(run: string): string {
  return run.endsWith('\n') ? '\n' : '\n'.repeat(run.length);
}
