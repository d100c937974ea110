import { createHash } from 'node:crypto';
import type { Alteration } from './fit-message.ts';

const LF = 0x0a;
const CR = 0x0d;

/** A message as it is sent: every line ends in CRLF, which IMAP asks for (RFC 9051, 2.2) and Cyrus insists on. */
export interface SentForm {
  readonly bytes: Buffer;
  /** The source has a line that ends in LF alone. */
  readonly endings: boolean;
  /** Dovecot stores another byte for NUL. */
  readonly nul: boolean;
  /** Cyrus replaces bytes above 127 in a header. */
  readonly wideHeader: boolean;
}

/** Returns the form of a source that is sent; its bytes are those of the source where nothing has to change. */
export function sentForm(source: Buffer): SentForm {
  let bare = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1))
    if (source[at - 1] !== CR) bare += 1;
  const bytes = bare === 0 ? source : withCrlf(source, bare);
  return {
    bytes,
    endings: bare > 0,
    nul: source.includes(0),
    wideHeader: headerOf(bytes).some((byte) => byte > 127),
  };
}

function withCrlf(source: Buffer, bare: number): Buffer {
  const bytes = Buffer.allocUnsafe(source.length + bare);
  let from = 0;
  let to = 0;
  for (let at = source.indexOf(LF); at >= 0; at = source.indexOf(LF, at + 1)) {
    if (source[at - 1] === CR) continue;
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
  const end = bytes.indexOf('\r\n\r\n');
  return end < 0 ? bytes : bytes.subarray(0, end + 2);
}

/** Lower-case hexadecimal SHA-256. */
export function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
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

/**
 * Returns what servers are known to change in messages that they store, as far as that explains how a message differs
 * from what was sent; undefined where something else differs.
 */
export function changesIn(sent: Buffer, there: Buffer): readonly Alteration[] | undefined {
  if (there.equals(sent)) return [];
  const header = headerOf(sent).length;
  const found = new Set<Alteration>();
  let at = 0;
  for (let i = 0; i < sent.length || at < there.length; ) {
    const [ours, theirs] = [sent[i], there[at]];
    if (ours === theirs) {
      i += 1;
      at += 1;
    } else if (ours === CR || theirs === CR) {
      // Dovecot keeps lines with LF alone and makes CR LF of a CR CR LF.
      found.add('carriage-returns');
      if (ours === CR) i += 1;
      else at += 1;
    } else if (ours === undefined || theirs === undefined) return undefined;
    else {
      if (ours === 0) found.add('nul');
      else if (ours > 127 && i < header) found.add('header-bytes');
      else return undefined;
      i += 1;
      at += 1;
    }
  }
  return [...found];
}

/** Whether a message of one size may be one of another that a server has changed: it may lack or have more CR bytes. */
export function isNear(sent: number, there: number): boolean {
  return Math.abs(sent - there) * 10 <= sent;
}
