import libmime from 'libmime';
import { cutText, decodeMarkup, decodeText } from './charsets.ts';
import type { LeafInfo } from './leaf-info.ts';
import type { TakeLeaf } from './part-tree.ts';

/** What is held of a leaf: its decoded size, and its bytes where they can be text. */
export interface LeafContent {
  size: number;
  /** Null when the bytes are counted only. */
  kept: Buffer[] | null;
  keptBytes: number;
  /** True when more bytes came than are kept. */
  cut: boolean;
  /** The first bytes of what is counted only. */
  head?: Buffer;
}

/** Enough to tell an encrypted file from others. */
const HEAD_BYTES = 200;

export const EMBEDDED = /^message\/(?:rfc822|global|news)$/;
const REPORT = /^message\/(?:delivery-status|disposition-notification|feedback-report)$/;

/**
 * What a body is: plain text, HTML, a calendar or an address card, text with a markup of its own, or text of another
 * kind, such as a patch.
 */
export type BodyKind = 'plain' | 'html' | 'event' | 'rich' | 'other';

const EVENT = /^text\/(?:calendar|x-vcalendar|vcard|x-vcard|directory)$/;
const RICH = /^text\/(?:enriched|richtext|rtf)$/;
const CODE = /^text\/(?:css|javascript|ecmascript|x-javascript)$/;

/** Returns what a leaf is as text of the message itself; null for a leaf that is none. */
export function bodyKind(info: LeafInfo): BodyKind | null {
  const { contentType, disposition, filename, related } = info;
  if (disposition === 'attachment') return null;
  if (contentType === 'text/html') return 'html';
  if (contentType === 'text/plain' || REPORT.test(contentType)) return 'plain';
  // Other text is a body when nobody gave it a file's name, and no page uses it.
  if (!contentType.startsWith('text/') || filename !== null) return null;
  if (related && CODE.test(contentType)) return null;
  if (EVENT.test(contentType)) return 'event';
  return RICH.test(contentType) ? 'rich' : 'other';
}

/** True for a leaf that is read as text of the message itself. */
export function isBodyText(info: LeafInfo): boolean {
  return bodyKind(info) !== null;
}

/** True for a leaf that is listed among the attachments; an inline text with a file name is both. */
export function isListed(info: LeafInfo): boolean {
  return info.filename !== null || !isBodyText(info);
}

/** Keeps the bytes of bodies and attached messages up to their ceilings, and counts those of everything else. */
export function collectText(limits: {
  readonly textPartBytes: number;
  readonly embeddedBytes: number;
}): TakeLeaf<LeafContent> {
  return (info) => {
    const embedded = EMBEDDED.test(info.contentType);
    const keep = embedded || isBodyText(info);
    const max = embedded ? limits.embeddedBytes : limits.textPartBytes;
    const content: LeafContent = { size: 0, kept: keep ? [] : null, keptBytes: 0, cut: false };
    const sink = (chunk: Buffer) => {
      content.size += chunk.length;
      if (content.kept === null) {
        const head = content.head ?? Buffer.alloc(0);
        if (head.length < HEAD_BYTES)
          content.head = Buffer.concat([head, chunk.subarray(0, HEAD_BYTES)]);
        return undefined;
      }
      const room = max - content.keptBytes;
      if (room > 0) {
        content.kept.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
        content.keptBytes += Math.min(room, chunk.length);
      }
      if (chunk.length > room) content.cut = true;
      return undefined;
    };
    return { content, sink };
  };
}

/** The kept bytes in one piece. */
export function bytesOf(content: LeafContent): Buffer {
  const kept = content.kept ?? [];
  return kept.length === 1 && kept[0] !== undefined ? kept[0] : Buffer.concat(kept);
}

/** The first `maxChars` of a leaf's text: charset decoded, soft line breaks undone, lines ended by LF. */
export function leafText(info: LeafInfo, content: LeafContent, maxChars: number): string {
  let bytes = bytesOf(content);
  if (info.flowed && info.contentType === 'text/plain') {
    // On bytes: a soft break is ASCII in every charset that mail may flow.
    const flowed = libmime.decodeFlowed(bytes.toString('latin1'), info.deleteSpace);
    bytes = Buffer.from(flowed, 'latin1');
  }
  const decode = info.contentType === 'text/html' ? decodeMarkup : decodeText;
  const text = cutText(decode(bytes, info.charset), maxChars);
  return text.includes('\r') ? text.replace(/\r+\n?/g, lineEnds) : text;
}

/** CR LF and CR CR LF end one line, and so does a CR alone. */
function lineEnds(run: string): string {
  return run.endsWith('\n') ? '\n' : '\n'.repeat(run.length);
}
