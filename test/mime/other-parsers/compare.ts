import { extractMessage } from '../../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../../src/mail/extraction.ts';
import { indexText } from '../../../src/mail/normalise.ts';

/** A leaf of a message as another parser reads it. */
export interface ReadLeaf {
  readonly type: string;
  readonly name: string | null;
  /** True with the disposition `attachment`. */
  readonly attached: boolean;
  /** Null for an attached message, which the other parser takes apart. */
  readonly size: number | null;
  readonly sha256: string | null;
  /** Empty where the leaf is not text. */
  readonly text: string;
  /** True within an attached message, whose text is searched and whose attachments are not listed. */
  readonly inside: boolean;
}

/** Attachments and words that one reading of a message has and the other does not. */
export interface Difference {
  /** `name | type | size | hash` of attachments that the other parser lists, and we do not. */
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  /** Words of text parts that the index does not hold. */
  readonly words: readonly string[];
  readonly leaves: readonly ReadLeaf[];
}

/** Attachments and words of a message as the index holds them. */
export interface OwnReading {
  readonly attachments: readonly { readonly line: string; readonly message: string }[];
  readonly words: ReadonlySet<string>;
  /** All words, without what separates them, and without the addresses of links. */
  readonly joined: string;
}

export async function readOwn(source: Buffer): Promise<OwnReading> {
  const { body, subject, from, to, attachments } = await extractMessage(
    source,
    false,
    DEFAULT_LIMITS,
  );
  const text = [body, subject, from, to, ...attachments.map((a) => a.filename)].join('\n');
  return {
    attachments: attachments.map(({ filename, contentType, size, hash }) => ({
      line: lineOf(filename, contentType, size, hash),
      message: lineOf(filename, contentType, null, null),
    })),
    words: new Set(wordsOf(text)),
    joined: wordsOf(text.replace(/ \[[^\]\s]*\]/g, '')).join(''),
  };
}

/** Compares our reading of a message with another; null where both find the same. */
export function difference(own: OwnReading, leaves: readonly ReadLeaf[]): Difference | null {
  const rest = [...own.attachments];
  const missing: string[] = [];
  for (const { name, type, size, sha256 } of leaves.filter(isListed)) {
    const line = lineOf(name, type, size, sha256);
    const at = rest.findIndex((one) => (size === null ? one.message : one.line) === line);
    if (at < 0) missing.push(line);
    else rest.splice(at, 1);
  }
  // Attached texts are compared by their hash.
  const texts = leaves.filter(({ attached }) => !attached).map(({ text }) => text);
  const words = [...new Set(wordsOf(texts.join('\n')))].filter((word) => !own.words.has(word));
  const extra = rest.map(({ line }) => line);
  return missing.length + extra.length + words.length === 0
    ? null
    : { missing, extra, words, leaves };
}

const REPORT = /^message\/(?:delivery-status|disposition-notification|feedback-report)$/;

function isListed({ type, name, attached, inside }: ReadLeaf): boolean {
  if (inside) return false;
  if (attached || (name !== null && name !== '')) return true;
  return !(type.startsWith('text/') || type.startsWith('multipart/') || REPORT.test(type));
}

function lineOf(name: string | null, type: string, size: number | null, hash: string | null) {
  return [name ?? '', type, size ?? '', hash?.slice(0, 8) ?? ''].join(' | ');
}

/** The words that the index holds of a text, without those that hold a byte of an unknown charset. */
function wordsOf(text: string): readonly string[] {
  const known = text.replace(/[\p{L}\p{N}]*\ufffd[\p{L}\p{N}\ufffd]*/gu, ' ');
  return (
    indexText(known)
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}
