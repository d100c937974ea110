import { StringDecoder } from 'node:string_decoder';
import { Parser } from 'htmlparser2';
import type { AttachmentFailure, AttachmentLimits, AttachmentOutcome } from './attachment-text.ts';
import { decodeMarkup, truncateText, withoutNul } from './charsets.ts';
import { DEFAULT_LIMITS } from './extraction.ts';
import { formattedText, htmlText } from './html-text.ts';

export class Unreadable extends Error {
  override readonly name = 'Unreadable';

  constructor(readonly reason: AttachmentFailure) {
    super(reason);
  }
}

export class TextSink {
  readonly #pieces: string[] = [];
  #length = 0;
  #overflowed = false;

  constructor(private readonly max: number) {}

  get full(): boolean {
    return this.#length >= this.max;
  }

  get room(): number {
    return this.max - this.#length;
  }

  add(text: string): void {
    if (text === '') return;
    if (text.length > this.room) this.#overflowed = true;
    if (this.full) return;
    const part = truncateText(text, this.room);
    this.#pieces.push(part);
    // If a surrogate pair did not fit, the sink is full with one unit to spare.
    this.#length = part.length < text.length ? this.max : this.#length + part.length;
  }

  cut(): void {
    this.#overflowed = true;
  }

  result(): { readonly text: string; readonly truncated: boolean } {
    const text = withoutNul(this.#pieces.join(''))
      .split('\n')
      .map(trimTrailingBlanks)
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
    return { text, truncated: this.#overflowed };
  }
}

/** Avoids a regular expression, which would take quadratic time. */
function trimTrailingBlanks(line: string): string {
  let end = line.length;
  while (end > 0 && ' \t\u00a0'.includes(line.charAt(end - 1))) end--;
  return line.slice(0, end);
}

/** Signature of Compound File Binary: old Office formats, and password-protected new ones. */
const COMPOUND_FILE = Buffer.from('d0cf11e0a1b11ae1', 'hex');
const RICH_TEXT = Buffer.from('{\\rtf');
const ENCRYPTED_PACKAGE = Buffer.from('EncryptedPackage', 'utf16le');
/** Tab, line feed, form feed and carriage return. */
const WHITE: ReadonlySet<number> = new Set([9, 10, 12, 13]);
/** Bytes to read per character kept. No charset needs more, though markup might. */
const BYTES_PER_CHAR = 8;

/**
 * Returns an attachment's text. Its bytes take precedence over its label.
 *
 * @param form see `AttachmentForm` in extract-message.ts
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
    if (!mayBeText(bytes)) return await readBinary(sink, bytes, limits);
    // Reports are often HTML or tab-separated tables with a workbook's extension.
    const isHtml = /^\s*<(?:!doctype|html|table|head|body|meta|\?xml)/i.test(
      bytes.toString('latin1', 0, 200),
    );
    return await readInto(sink, bytes, isHtml ? 'html:' : 'text:', limits);
  }
  if (kind === 'mail') {
    const { mailText } = await import('./attached-mail-text.ts');
    return await mailText(bytes, sink, limits, (inner, innerForm) =>
      readInto(sink, inner, innerForm, limits),
    );
  }
  if (isPdf(bytes) || isZip(bytes)) return await readBinary(sink, bytes, limits);
  const most = limits.chars * BYTES_PER_CHAR;
  const text = decodeMarkup(bytes.subarray(0, most), charset === '' ? null : charset);
  if (bytes.length > most) sink.cut();
  if (looksBinary(bytes)) throw new Unreadable('unsupported');
  if (kind === 'html') {
    const most = { chars: limits.chars * 2, tags: DEFAULT_LIMITS.htmlTags };
    const result = htmlText(text, 'short', most);
    sink.add(result.text);
    if (result.cut) sink.cut();
  } else sink.add(formattedText(text) ?? text.replace(/\r\n?/g, '\n'));
}

/** Loads the PDF reader, which takes longer than reading a PDF. */
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

function mayBeText(bytes: Buffer): boolean {
  const head = bytes.subarray(0, 4096);
  const isTagged = isPdf(bytes) || head.subarray(0, RICH_TEXT.length).equals(RICH_TEXT);
  return !isTagged && head.every((byte) => byte > 0x1f || WHITE.has(byte));
}

/** Reports whether bytes are a PDF. PDF readers accept a header anywhere in the first kilobyte. */
function isPdf(bytes: Buffer): boolean {
  return bytes.subarray(0, 1024).includes('%PDF-');
}

function isZip(bytes: Buffer): boolean {
  return bytes.subarray(0, 4).equals(Buffer.from('PK\u0003\u0004'));
}

/** Reports whether bytes contain more NULs than text does, unless they are UTF-16. */
function looksBinary(bytes: Buffer): boolean {
  const head = bytes.subarray(0, 4096);
  if (head[0] === 0xff || head[0] === 0xfe) return false;
  let nuls = 0;
  for (const byte of head) if (byte === 0) nuls++;
  return nuls > head.length / 10;
}

/**
 * Maximum nesting depth. Office documents need a few dozen levels. The parser shifts an array of open elements per tag.
 */
const MAX_DEPTH = 1000;

/** Rules for finding the text in an XML format. Element names have no namespace prefix. */
export interface MarkupRules {
  readonly within?: string;
  readonly text: ReadonlySet<string>;
  readonly skip: ReadonlySet<string>;
  readonly skipWhen?: (name: string, attributes: Readonly<Record<string, string>>) => boolean;
  readonly lineEnds: ReadonlySet<string>;
  readonly signs?: Readonly<Record<string, string>>;
  readonly blanks: ReadonlySet<string>;
  readonly attribute?: { readonly element: string; readonly name: string };
}

/**
 * Extracts text from streamed XML without building a tree. Ignores document types, so it resolves only XML's own
 * entities and opens nothing external. `write` throws `Unreadable` (`malformed`) for XML deeper than 1,000 levels.
 */
export class MarkupText {
  readonly #parser: Parser;
  readonly #decoder = new StringDecoder('utf8');
  #within = 0;
  #text = 0;
  #skipFrom = 0;
  #depth = 0;

  constructor(rules: MarkupRules, into: TextSink) {
    this.#within = rules.within === undefined ? 1 : 0;
    this.#parser = new Parser(
      {
        onopentag: (tag, attributes) => {
          const name = localName(tag);
          this.#depth++;
          if (this.#depth > MAX_DEPTH) throw new Unreadable('malformed');
          if (this.#skipFrom > 0) return;
          if (rules.skip.has(name) || rules.skipWhen?.(name, attributes) === true) {
            this.#skipFrom = this.#depth;
            return;
          }
          if (this.#within > 0) into.add(rules.signs?.[name] ?? '');
          if (name === rules.within) this.#within++;
          if (rules.text.has(name)) this.#text++;
          if (rules.attribute?.element === name) {
            into.add(attributes[rules.attribute.name] ?? '');
          }
        },
        ontext: (text) => {
          if (this.#skipFrom === 0 && this.#within > 0 && this.#text > 0) into.add(text);
        },
        onclosetag: (tag) => {
          const name = localName(tag);
          const skipped = this.#skipFrom > 0;
          if (this.#skipFrom === this.#depth) this.#skipFrom = 0;
          this.#depth--;
          if (skipped) return;
          if (name === rules.within) this.#within--;
          if (rules.text.has(name)) this.#text--;
          if (this.#within <= 0) return;
          if (rules.lineEnds.has(name)) into.add('\n');
          else if (rules.blanks.has(name)) into.add(' ');
        },
      },
      { xmlMode: true, decodeEntities: true },
    );
  }

  write(piece: Buffer): void {
    this.#parser.write(this.#decoder.write(piece));
  }

  end(): void {
    this.#parser.write(this.#decoder.end());
    this.#parser.end();
  }
}

function localName(tag: string): string {
  return tag.slice(tag.indexOf(':') + 1);
}
