import { contains, plainWords } from './plain-scan.ts';
import { headOf, type SearchedMessage } from './searched-mail.ts';

/** A question that both languages can ask. */
export interface Asked {
  readonly kind: 'subject' | 'from' | 'to' | 'body' | 'filename' | 'folder' | 'flag' | 'date';
  readonly word: string;
}

/** Why a message may be found by one and not by the other; docs/testing.md explains each. */
export const REASONS: Readonly<
  Record<string, (asked: Asked, message: SearchedMessage, ours: boolean) => boolean>
> = {
  /** Bodies in several forms, or in parts that one of us takes for text and the other does not. */
  'parts of a message': ({ kind }, { source }) =>
    kind === 'body' &&
    /^content-type:\s*(?:multipart|message|text\/html|application)/im.test(
      source.toString('latin1'),
    ),
  /** We look for `from:` in Sender and Reply-To as well. */
  'sender and reply-to': ({ kind, word }, { source }, ours) =>
    kind === 'from' && ours && contains(fields(source, /^(?:sender|reply-to)$/i), word, false),
  /** Xapian joins letters at apostrophes, underscores and their like to one word. */
  'words joined by signs': ({ kind, word }, { fields: text }) =>
    kind in text && joined(text[kind as keyof typeof text] ?? '', word),
  /** Headers in an encoding that is not what it says, or in none that is declared. */
  'undeclared encoding': ({ kind }, { source }) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the end of ASCII is meant
    /[^\x00-\x7f]/.test(kind === 'body' ? source.toString('latin1') : headOf(source)),
  /** A header that comes twice, or with syntax that the other program does not take for an address. */
  'odd header': ({ kind }, { source }) => {
    const head = headOf(source);
    if (kind === 'subject')
      return (
        (head.match(/^subject:/gim) ?? []).length !== 1 || /=\?/.test(fields(source, /^subject$/i))
      );
    if (kind === 'from')
      return (
        (head.match(/^from:/gim) ?? []).length !== 1 ||
        /["()\\]|=\?/.test(fields(source, /^from$/i))
      );
    return kind === 'to' && /["()\\:;]|=\?|undisclosed/i.test(fields(source, /^(?:to|cc|bcc)$/i));
  },
  /** Accents do not count here; for notmuch they do. */
  accents: ({ kind, word }, { fields: text }, ours) =>
    ours && kind in text && !asWritten(text[kind as keyof typeof text] ?? '').includes(word),
  /** notmuch knows names of parts with `Content-Disposition: attachment` alone. */
  'names of inline parts': ({ kind }, _message, ours) => kind === 'filename' && ours,
  /** A text encoded in the body itself (uuencode), which notmuch leaves out. */
  uuencoded: ({ kind }, { source }) =>
    kind === 'body' && /^begin \d{3} /m.test(source.toString('latin1')),
};

/** The reason for a difference, or undefined where there is none that we know. */
export function reasonFor(
  asked: Asked,
  message: SearchedMessage,
  ours: boolean,
): string | undefined {
  return Object.entries(REASONS).find(([, holds]) => holds(asked, message, ours))?.[0];
}

function joined(text: string, word: string): boolean {
  const folded = text.normalize('NFKC').toLowerCase();
  return new RegExp(
    `[\\p{L}\\p{N}]['’_&·.,:+#-]+${word}|${word}['’_&·.,:+#-]+[\\p{L}\\p{N}]?`,
    'u',
  ).test(folded);
}

function fields(source: Buffer, name: RegExp): string {
  return headOf(source)
    .replaceAll(/\r?\n[ \t]+/g, ' ')
    .split(/\r?\n/)
    .flatMap((line) => {
      const colon = line.indexOf(':');
      return colon > 0 && name.test(line.slice(0, colon)) ? [line.slice(colon + 1)] : [];
    })
    .join('\n');
}

/** Words that both programs see alike: letters of ASCII, also before accents are taken off, short enough for a term. */
export function plainAsciiWords(text: string): string[] {
  const written = new Set(asWritten(text));
  return plainWords(text).filter((word) => /^[a-z]{3,20}$/.test(word) && written.has(word));
}

/** The words of a text in lower case, accents and all. */
function asWritten(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  );
}
