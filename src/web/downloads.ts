import type { Reader } from '../catalog/open-reader.ts';
import type { MessageId } from '../core/types.ts';
import { truncateName } from '../mail/file-names.ts';
import { openAttachments } from '../mail/reading.ts';
import { dayName } from './dashboard-data.ts';
import type { ReadingFor } from './served-archive.ts';

/** Maximum length of a query or subject in a file name, in bytes. The rest of the name is never truncated. */
const MAX_BYTES = 120;

/** Returns an unsanitised name, such as `mailkeep from ada 2026-11-25 commit 12.zip`. @param now ms since the epoch */
export function exportName(
  query: string,
  { now, commit, format }: { now: number; commit: number; format: string },
): string {
  const isAll = ['', '*'].includes(query.trim());
  const scope = isAll ? 'all mail' : readable(query) || 'search';
  return `mailkeep ${scope} ${dayName(now)} commit ${commit}.${format}`;
}

export function attachmentsName(query: string, now: number): string {
  return ['mailkeep attachments', readable(query), dayName(now)].filter(Boolean).join(' ');
}

/**
 * Returns an unsanitised file name, the same on every machine because its day is in UTC, as in exported folders.
 *
 * @param date in ISO 8601
 */
export function messageName(subject: string | null, date: string | null): string {
  const day = date === null ? '' : ` ${date.slice(0, date.indexOf('T'))}`;
  return `${readable(subject ?? '') || 'no subject'}${day}.eml`;
}

/** Replaces slashes and colons with spaces. Otherwise, text before a slash would be taken for a directory. */
function readable(text: string): string {
  // Normalised first, so that sanitising the name later cannot lengthen it past the limit.
  const words = text
    .normalize('NFC')
    .replace(/(\d):(?=\d)/g, '$1.')
    .replace(/["“”„]/gu, '')
    .split(/[\s:/\\]+/)
    .filter((word) => word !== '')
    .join(' ');
  return truncateName(words, MAX_BYTES);
}

export interface Download {
  readonly name: string | null;
  readonly fallback: string;
  readonly size: number | null;
  readonly bytes: AsyncIterator<Uint8Array>;
  /** Stops reading the source, even before the first byte has been requested. */
  stop(): Promise<unknown>;
}

/** Returns the exact source of a message. The response is cut short if the hash does not match. */
export function sourceDownload(
  reader: Pick<Reader, 'catalog' | 'sources'>,
  id: MessageId,
): Download {
  const sources = reader.sources();
  const { subject, date } = reader.catalog.messages.summary(id) ?? { subject: null, date: null };
  const bytes = sources.streamMessage(id);
  return {
    name: messageName(subject, date),
    fallback: 'message.eml',
    size: sources.sizeOf(id),
    bytes,
    stop: () => bytes.return(),
  };
}

export async function attachmentDownload(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  number: number,
  options: ReadingFor,
): Promise<Download | undefined> {
  const pieces = openAttachments(reader.sources().streamMessage(id), options);
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) return undefined;
    if (!('attachment' in next.value) || next.value.attachment.number !== number) continue;
    const { filename } = next.value.attachment;
    return {
      name: filename,
      fallback: `attachment-${number}`,
      size: null,
      bytes: attachmentBytes(pieces, number),
      stop: () => pieces.return(),
    };
  }
}

/** Yields the bytes of one attachment, and reads the message to the end to check its hash. */
async function* attachmentBytes(
  pieces: ReturnType<typeof openAttachments>,
  number: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of pieces)
    if ('bytes' in piece && piece.number === number) yield piece.bytes;
}

export async function* piecesOf({ bytes, stop }: Download): AsyncGenerator<Uint8Array> {
  try {
    for (let next = await bytes.next(); next.done !== true; next = await bytes.next())
      yield next.value;
  } finally {
    await stop();
  }
}
