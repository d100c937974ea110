import { createHash } from 'node:crypto';

const LF = 0x0a;
const CR = 0x0d;
/** The end of the last line of a header, and the empty line. */
export const HEADER_END = '\r\n\r\n';

/** Bytes of a message: in memory, or given in pieces each time they are needed. */
export type Content = Buffer | (() => AsyncIterable<Buffer>);

/** A message as it is sent: every line ends in CRLF, which IMAP asks for (RFC 9051, 2.2) and Cyrus insists on. */
export interface SentForm {
  readonly content: Content;
  /** Bytes of the content. */
  readonly size: number;
  /** Bytes of the header. */
  readonly header: number;
  /** The header, or the beginning of one that is too long to be kept. */
  readonly head: Buffer;
  /** The source has a line that ends in LF alone. */
  readonly endings: boolean;
  /** Dovecot stores another byte for NUL. */
  readonly nul: boolean;
  /** Cyrus replaces bytes above 127 in a header. */
  readonly wideHeader: boolean;
}

/** Returns the form of a source that is sent; its bytes are those of the source where nothing has to change. */
export function sentForm(source: Buffer): SentForm & { readonly content: Buffer } {
  const content = withCrlf(source, false);
  const head = headerOf(content);
  return {
    content,
    size: content.length,
    header: head.length,
    head,
    endings: content !== source,
    nul: source.includes(0),
    wideHeader: head.some((byte) => byte > 127),
  };
}

/**
 * Returns a piece of a message with CRLF where a line ends in LF alone: the piece itself where nothing has to change.
 *
 * @param isAfterCr whether the piece before it ends in CR
 */
export function withCrlf(source: Buffer, isAfterCr: boolean): Buffer {
  const isBare = (at: number): boolean => (at === 0 ? !isAfterCr : source[at - 1] !== CR);
  let bare = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1))
    if (isBare(at)) bare += 1;
  if (bare === 0) return source;
  const bytes = Buffer.allocUnsafe(source.length + bare);
  let from = 0;
  let to = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1)) {
    if (!isBare(at)) continue;
    to += source.copy(bytes, to, from, at);
    bytes[to] = CR;
    to += 1;
    from = at;
  }
  source.copy(bytes, to, from);
  return bytes;
}

/** The bytes before the first empty line; all of them where there is none. */
function headerOf(bytes: Buffer): Buffer {
  const end = bytes.indexOf(HEADER_END);
  return end < 0 ? bytes : bytes.subarray(0, end + 2);
}

/** Returns the pieces of a content, from the front. */
export function piecesOf(content: Content): Iterable<Buffer> | AsyncIterable<Buffer> {
  return Buffer.isBuffer(content) ? [content] : content();
}

/**
 * Returns the SHA-256 of a message in lower-case hexadecimal.
 *
 * @param most undefined is returned instead where the pieces have more bytes than this
 */
export async function sha256Of(
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
  most: number,
): Promise<string | undefined> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const piece of pieces) {
    size += piece.length;
    if (size > most) return undefined;
    hash.update(piece);
  }
  return hash.digest('hex');
}

/** Returns the Message-ID of a message as `plainMessageId` has it; null where its header has none. */
export function messageIdOf(bytes: Buffer): string | null {
  const lines = headerOf(bytes)
    .toString('latin1')
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n');
  const line = lines.find((one) => /^message-id[ \t]*:/i.test(one));
  return line === undefined ? null : plainMessageId(line.slice(line.indexOf(':') + 1));
}

/**
 * A Message-ID without its angle brackets, what stands around them and white space, which programs unfold in several
 * ways; null for an empty one.
 */
export function plainMessageId(text: string | null): string | null {
  if (text === null) return null;
  const open = text.indexOf('<');
  const close = text.indexOf('>', open);
  const plain = (open >= 0 && close > open ? text.slice(open + 1, close) : text).replace(/\s/g, '');
  return plain === '' ? null : plain;
}

/** Whether a message of one size may be one of another that a server has changed: it may lack or have more CR bytes. */
export function isNear(sent: number, there: number): boolean {
  return Math.abs(sent - there) * 10 <= sent;
}
