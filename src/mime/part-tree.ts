import { once } from 'node:events';
import type { SplitChunk, SplitPart, TreePart } from 'mailparser';
import { MailParser } from 'mailparser';
import { type LeafInfo, leafInfo, PLAIN_TEXT } from './leaf-info.ts';
import { QuotedPrintableDecoder } from './quoted-printable.ts';

/** Why a message was not parsed to its end. */
export type Breach = 'depth' | 'parts' | 'header' | 'malformed';

/**
 * Takes a leaf's bytes in order, transfer encoding undone. A promise holds the next bytes back until it is
 * settled.
 */
export type LeafSink = (chunk: Buffer) => Promise<void> | undefined;

export interface Leaf<T> {
  readonly kind: 'leaf';
  readonly info: LeafInfo;
  readonly content: T;
}
export interface Multipart<T> {
  readonly kind: 'multipart';
  /** Lower-case subtype, such as `mixed` or `alternative`. */
  readonly subtype: string;
  readonly children: readonly Part<T>[];
}
export type Part<T> = Leaf<T> | Multipart<T>;

/** What becomes of a leaf: the caller keeps, counts or drops its bytes. */
export type TakeLeaf<T> = (info: LeafInfo) => {
  readonly content: T;
  readonly sink: LeafSink;
  /** Called once, when the sink has taken the leaf's last bytes: of those there are, where a breach cut it off. */
  readonly ended?: () => void;
};

export interface TreeLimits {
  readonly headerBytes: number;
  readonly depth: number;
  readonly parts: number;
  /** Bytes kept of a multipart without parts, and one piece more so that the sink sees there is more. */
  readonly textPartBytes: number;
}

export interface ParsedTree<T> {
  /** Null when not even the header block ended. */
  readonly root: Part<T> | null;
  /** Null when the source was parsed to its end; else the tree is what came before. */
  readonly breach: Breach | null;
  readonly parts: number;
}

/** Bytes given to the parser in one piece: the base64 decoder copies each piece several times. */
const PIECE = 64 * 1024;

/**
 * Splits a raw message into its parts. mailparser finds the parts and undoes their transfer encodings; what
 * it would do beyond that (hashing attachments, decoding every header of every part, joining texts) is not
 * wanted here and is the greater part of its time. Attached messages are leaves: the caller decides whether to
 * look inside.
 *
 * @returns the tree, or what there was of it when a limit was met; rejects only when reading `source` rejects
 */
export async function parseTree<T>(
  source: Buffer | AsyncIterable<Uint8Array>,
  take: TakeLeaf<T>,
  limits: TreeLimits,
): Promise<ParsedTree<T>> {
  const parser = new PartTree(take, limits);
  const closed = new Promise<void>((resolve) => parser.once('close', resolve));
  const ended = new Promise<void>((resolve) => parser.once('end', resolve));
  parser.resume();
  if (Buffer.isBuffer(source) && source.length <= PIECE) {
    parser.end(source);
  } else {
    await feed(parser, closed, Buffer.isBuffer(source) ? [source] : source);
    parser.end();
  }
  await Promise.race([ended, closed]);
  await parser.settle();
  return { root: parser.part(parser.tree), breach: parser.breach, parts: parser.count };
}

async function feed<T>(
  parser: PartTree<T>,
  closed: Promise<void>,
  source: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += PIECE) {
      if (parser.breach !== null || parser.destroyed) return;
      const written = new Promise<void>((resolve) => {
        parser.write(chunk.subarray(at, at + PIECE), () => resolve());
      });
      // A parser that gives up in the middle of a piece never says that it was written.
      await Promise.race([written, closed]);
    }
  }
}

class PartTree<T> extends MailParser {
  breach: Breach | null = null;
  count = 0;
  readonly #leaves = new Map<TreePart, Leaf<T>>();
  readonly #depths = new WeakMap<SplitPart, number>();
  /** What stands before the first part of a multipart: its only text when no part ever comes. */
  readonly #preambles = new Map<SplitPart, Preamble>();
  readonly #decoding = new Set<NonNullable<TreePart['decoder']>>();

  constructor(
    private readonly takeLeaf: TakeLeaf<T>,
    private readonly treeLimits: TreeLimits,
  ) {
    super({
      skipHtmlToText: true,
      skipTextToHtml: true,
      skipImageLinks: true,
      skipTextLinks: true,
      keepCidLinks: true,
      ignoreEmbedded: true,
      // The splitter runs ahead by as much as a piece; its own limit would undo the parts before.
      maxChildNodes: treeLimits.parts + PIECE,
      maxHeadSize: treeLimits.headerBytes,
    });
    const { splitter } = this;
    const compare = splitter.compareBoundary.bind(splitter);
    splitter.compareBoundary = (line, start, boundary) =>
      compare(withoutPadding(line), start, boundary);
    const newNode = splitter.newNode.bind(splitter);
    splitter.newNode = (parent) => {
      newNode(parent);
      guardHeader(splitter.node);
    };
    guardHeader(splitter.node);
    // Not `once`: after its first error mailparser may emit more, and one without a listener ends the process.
    this.on('error', (error: unknown) => {
      this.breach ??= this.#breachOf(error);
      this.destroy();
    });
  }

  override createNode(split: SplitPart): TreePart {
    // libqp's decoder takes quadratic time for blanks, and holds all of its input.
    if (split.encoding === 'quoted-printable')
      split.getDecoder = () => new QuotedPrintableDecoder();
    const made = super.createNode(split);
    this.count++;
    const depth = split.parentNode === false ? 1 : (this.#depths.get(split.parentNode) ?? 0) + 1;
    this.#depths.set(split, depth);
    if (split.multipart !== false) this.#preambles.set(split, { chunks: [], bytes: 0 });
    if (split.parentNode !== false) this.#preambles.delete(split.parentNode);
    if (depth > this.treeLimits.depth) this.#stop('depth');
    if (this.count > this.treeLimits.parts) this.#stop('parts');
    const { decoder } = made;
    if (decoder !== undefined && this.breach === null) {
      const info = leafInfo(made);
      const { content, sink, ended } = this.takeLeaf(info);
      this.#leaves.set(made, { kind: 'leaf', info, content });
      this.#decoding.add(decoder);
      decoder.on('data', (chunk: Buffer) => {
        const taken = sink(chunk);
        if (taken === undefined) return;
        decoder.pause();
        void taken.catch(() => this.#stop('malformed')).finally(() => decoder.resume());
      });
      const finish = (): void => {
        if (this.#decoding.delete(decoder)) ended?.();
      };
      decoder.once('end', finish);
      // A decoder that gives up has handed over what it could.
      decoder.on('error', finish);
    }
    // Neither text nor attachment to mailparser: so it passes the bytes to the decoder and keeps none.
    made.isAttachment = false;
    made.disposition = 'taken';
    return made;
  }

  override processChunk(chunk: SplitChunk, done: (error?: Error) => void): void {
    if (chunk.type === 'data' && chunk.value !== undefined) {
      const preamble = this.#preambles.get(chunk.node);
      if (preamble !== undefined && preamble.bytes <= this.treeLimits.textPartBytes) {
        preamble.chunks.push(chunk.value);
        preamble.bytes += chunk.value.length;
      }
    }
    super.processChunk(chunk, done);
  }

  /** Only the field that a leaf is asked for; the message's own headers are read from the source. */
  override processHeaders(
    lines: readonly { key: string; line: string }[] | false,
  ): Map<string, unknown> {
    return super.processHeaders(lines === false ? [] : lines.filter((l) => l.key === 'content-id'));
  }

  override getTextContent(): { type: 'text' } {
    return { type: 'text' };
  }

  /** Ends what is still decoding: after a breach nobody else does. */
  async settle(): Promise<void> {
    await Promise.all(
      [...this.#decoding].map(async (decoder) => {
        const ended = once(decoder, 'end').catch(() => undefined);
        if (!decoder.writableEnded) decoder.end();
        if (!decoder.readableEnded && !decoder.destroyed) await ended;
      }),
    );
    this.destroy();
  }

  part(made: TreePart | false): Part<T> | null {
    if (made === false) return null;
    const leaf = this.#leaves.get(made);
    if (leaf !== undefined) return leaf;
    // A leaf behind a breach, which nobody took.
    if (made.node.multipart === false) return null;
    const type = made.contentType === false ? '' : made.contentType;
    const children: Part<T>[] = [];
    for (const child of made.children) {
      const part = this.part(child);
      if (part !== null) children.push(part);
    }
    const preamble = children.length === 0 ? this.#preambles.get(made.node) : undefined;
    if (preamble !== undefined) children.push(this.#preambleLeaf(preamble));
    return { kind: 'multipart', subtype: type.replace(/^[^/]*\//, '').toLowerCase(), children };
  }

  /** A multipart whose boundary never comes, or that has none, is text: better too much than nothing. */
  #preambleLeaf({ chunks }: Preamble): Leaf<T> {
    const info: LeafInfo = { ...PLAIN_TEXT };
    const { content, sink, ended } = this.takeLeaf(info);
    for (const chunk of chunks) void sink(chunk);
    ended?.();
    return { kind: 'leaf', info, content };
  }

  #stop(breach: Breach): void {
    if (this.breach !== null) return;
    this.breach = breach;
    this.splitter.emit('error', new Error(breach));
  }

  #breachOf(error: unknown): Breach {
    if (error instanceof Error && 'code' in error && error.code === 'EMAXLEN') {
      return 'header';
    }
    return 'malformed';
  }
}

interface Preamble {
  readonly chunks: Buffer[];
  bytes: number;
}

const SPACE = 0x20;
const TAB = 0x09;
const CR = 0x0d;
const LF = 0x0a;

/**
 * Runs of carriage returns become one in the header lines that mailsplit is given, and lines of nothing else go: its
 * expression for the end of a block (`[\r\n]+$`) takes quadratic time for such runs.
 */
function guardHeader(node: SplitPart): void {
  const add = node.addHeaderChunk.bind(node);
  node.addHeaderChunk = (line) => {
    if (line === false || line === undefined || !line.includes('\r\r')) return add(line);
    const kept = line.filter((byte, i) => byte !== CR || line[i + 1] !== CR);
    if (kept.some((byte) => byte !== CR && byte !== LF)) add(Buffer.from(kept));
  };
}

/** A delimiter line may end in blanks (RFC 2046 section 5.1.1, transport padding), which mailsplit takes amiss. */
function withoutPadding(line: Buffer): Buffer {
  let end = line.length;
  while (end > 0 && (line[end - 1] === LF || line[end - 1] === CR)) end--;
  let text = end;
  while (text > 0 && (line[text - 1] === SPACE || line[text - 1] === TAB)) text--;
  return text === end ? line : Buffer.concat([line.subarray(0, text), line.subarray(end)]);
}
