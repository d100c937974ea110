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
}

export const EMBEDDED = /^message\/(?:rfc822|global|news)$/;
const REPORT = /^message\/(?:delivery-status|disposition-notification|feedback-report)$/;

/** True for a leaf that is read as text of the message itself. */
export function isBodyText(info: LeafInfo): boolean {
  if (info.disposition === 'attachment') return false;
  // Other text (a patch, a calendar entry) is a body when nobody gave it a file's name.
  if (isTextual(info)) return true;
  return info.contentType.startsWith('text/') && info.filename === null;
}

function isTextual(info: LeafInfo): boolean {
  return (
    info.contentType === 'text/plain' ||
    info.contentType === 'text/html' ||
    REPORT.test(info.contentType)
  );
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
      if (content.kept === null) return undefined;
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
  return text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
}
