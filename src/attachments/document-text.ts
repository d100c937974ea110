import { decodeMarkup } from '../mime/charsets.ts';
import { htmlText } from '../mime/html-text.ts';
import { DEFAULT_LIMITS } from '../mime/limits.ts';
import { formattedText } from '../mime/text-formats.ts';
import type { AttachmentOutcome } from './attachment-text.ts';
import type { AttachmentLimits } from './limits.ts';
import { TextSink, Unreadable } from './text-sink.ts';

/** Compound File Binary: old office formats, and new ones under a password. */
const COMPOUND_FILE = Buffer.from('d0cf11e0a1b11ae1', 'hex');
const RICH_TEXT = Buffer.from('{\\rtf');
const ENCRYPTED_PACKAGE = Buffer.from('EncryptedPackage', 'utf16le');
/** Controls that text has: tab, line feed, form feed, carriage return. */
const WHITE: ReadonlySet<number> = new Set([9, 10, 12, 13]);
/** Bytes of text that are looked at for a char that is kept: no charset needs more, markup may. */
const BYTES_PER_CHAR = 8;

/**
 * The text of an attachment. What its bytes are counts for more than what the mail calls them.
 *
 * @param form see `AttachmentForm` in mime/attachments.ts
 */
export async function documentText(
  bytes: Buffer,
  form: string,
  limits: AttachmentLimits,
): Promise<AttachmentOutcome> {
  const sink = new TextSink(limits.chars);
  try {
    await readInto(sink, bytes, form, limits);
  } catch (error) {
    if (error instanceof Unreadable) return { status: 'failed', reason: error.reason };
    throw error;
  }
  return { status: 'done', ...sink.result() };
}

/** @throws Unreadable */
async function readInto(
  sink: TextSink,
  bytes: Buffer,
  form: string,
  limits: AttachmentLimits,
): Promise<void> {
  const [kind = '', charset = ''] = form.split(':');
  if (kind === 'encrypted') throw new Unreadable('encrypted');
  if (kind === 'pdf' || kind === 'office') return await readBinary(sink, bytes, limits);
  if (kind === 'old-office') {
    if (!hasTextOnly(bytes)) return await readBinary(sink, bytes, limits);
    // Reports are sent as tables in HTML, or with tabs, under the name of a workbook.
    const isHtml = /^\s*<(?:!doctype|html|table|head|body|meta|\?xml)/i.test(
      bytes.toString('latin1', 0, 200),
    );
    return await readInto(sink, bytes, isHtml ? 'html:' : 'text:', limits);
  }
  if (kind === 'mail') {
    const { mailText } = await import('./mail-text.ts');
    return await mailText(bytes, sink, limits, (inner, innerForm) =>
      readInto(sink, inner, innerForm, limits),
    );
  }
  if (isPdf(bytes) || isZip(bytes)) return await readBinary(sink, bytes, limits);
  const most = limits.chars * BYTES_PER_CHAR;
  const text = decodeMarkup(bytes.subarray(0, most), charset === '' ? null : charset);
  if (bytes.length > most) sink.cut();
  // Binary under the name of a text: its bytes are no words.
  if (looksBinary(bytes)) throw new Unreadable('unsupported');
  if (kind === 'html') {
    const most = { chars: limits.chars * 2, tags: DEFAULT_LIMITS.htmlTags };
    const converted = htmlText(text, 'short', most);
    sink.add(converted.text);
    if (converted.cut) sink.cut();
  } else sink.add(formattedText(text) ?? text.replace(/\r\n?/g, '\n'));
}

/** Loads what reads PDFs, which takes longer than to read one. */
export async function loadPdfReader() {
  const { pdfText, loadPdfJs } = await import('./pdf-text.ts');
  await loadPdfJs();
  return pdfText;
}

async function readBinary(sink: TextSink, bytes: Buffer, limits: AttachmentLimits): Promise<void> {
  if (isPdf(bytes)) {
    const pdfText = await loadPdfReader();
    return await pdfText(bytes, sink, limits);
  }
  if (isZip(bytes)) {
    const { officeText } = await import('./office-text.ts');
    return await officeText(bytes, sink, limits);
  }
  if (bytes.subarray(0, 8).equals(COMPOUND_FILE))
    throw new Unreadable(bytes.includes(ENCRYPTED_PACKAGE) ? 'encrypted' : 'unsupported');
  if (bytes.subarray(0, 5).equals(RICH_TEXT)) throw new Unreadable('unsupported');
  throw new Unreadable('malformed');
}

/** Returns whether bytes may be text that is no program's format. */
function hasTextOnly(bytes: Buffer): boolean {
  const head = bytes.subarray(0, 4096);
  const isTagged = isPdf(bytes) || head.subarray(0, RICH_TEXT.length).equals(RICH_TEXT);
  return !isTagged && head.every((byte) => byte > 0x1f || WHITE.has(byte));
}

/** Readers accept a header within the first kilobyte. */
function isPdf(bytes: Buffer): boolean {
  return bytes.subarray(0, 1024).includes('%PDF-');
}

function isZip(bytes: Buffer): boolean {
  return bytes.subarray(0, 4).equals(Buffer.from('PK\u0003\u0004'));
}

/** NULs that are not those of UTF-16. */
function looksBinary(bytes: Buffer): boolean {
  const head = bytes.subarray(0, 4096);
  if (head[0] === 0xff || head[0] === 0xfe) return false;
  let nuls = 0;
  for (const byte of head) if (byte === 0) nuls++;
  return nuls > head.length / 10;
}
