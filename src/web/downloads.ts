import type { Reader } from '../catalog/open-reader.ts';
import { wallTime } from '../catalog/query-dates.ts';
import { two } from '../core/text.ts';
import type { MessageId } from '../core/types.ts';
import { cutName, safeFileName } from '../mail/file-names.ts';
import { openAttachments } from '../mail/reading.ts';
import { DOWNLOAD_POLICY } from './security-headers.ts';
import type { ReadingFor } from './served-archive.ts';

/** Bytes of a query or a subject in a name. What follows them is never cut off. */
const MOST_BYTES = 120;

/**
 * Returns what a file of exported messages is called, such as `mailkeep from ada 2026-11-25 commit 12.zip`: what was asked
 * for, the day of the export in the zone of this machine, and the commit that it shows. It is to be made safe.
 *
 * @param now milliseconds since the epoch
 */
export function exportName(
  query: string,
  { now, commit, format }: { now: number; commit: number; format: string },
): string {
  const isAll = ['', '*'].includes(query.trim());
  const what = isAll ? 'all mail' : readable(query) || 'search';
  return `mailkeep ${what} ${dayOf(now)} commit ${commit}.${format}`;
}

/** Returns what a zip of the attachments that a query finds is called, without its ending. It is to be made safe. */
export function attachmentsName(query: string, now: number): string {
  return ['mailkeep attachments', readable(query), dayOf(now)].filter(Boolean).join(' ');
}

/**
 * Returns what the file of one message is called: its subject, and the day of its date in UTC, as in exported folders: it is
 * the same on every machine. It is to be made safe.
 *
 * @param date in ISO 8601; null for a message without a date
 */
export function messageName(subject: string | null, date: string | null): string {
  const day = date === null ? '' : ` ${date.slice(0, date.indexOf('T'))}`;
  return `${readable(subject ?? '') || 'no subject'}${day}.eml`;
}

/** A text as words of a name. Without this, what stands before a slash would be taken for folders. */
function readable(text: string): string {
  // Composed first: what is made safe later must not grow past the cut.
  const words = text
    .normalize('NFC')
    .replace(/(\d):(?=\d)/g, '$1.')
    .replace(/["“”„]/gu, '')
    .split(/[\s:/\\]+/)
    .filter((word) => word !== '')
    .join(' ');
  return cutName(words, MOST_BYTES);
}

function dayOf(ms: number): string {
  const { year, month, day } = wallTime(ms);
  return `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`;
}

export interface Download {
  /** As the mail gives it; null where it gives none. */
  readonly name: string | null;
  /** What it is called where nothing of the name can be used. */
  readonly fallback: string;
  /** Bytes, where they are known before. */
  readonly size: number | null;
  readonly bytes: AsyncIterator<Uint8Array>;
  /** Ends what gives the bytes, also before the first one was asked for. */
  stop(): Promise<unknown>;
}

/** Returns the exact source of a message. Where its hash turns out wrong, the answer breaks off. */
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

/** Returns an attachment by its number; undefined where the message has no such one. */
export async function attachmentDownload(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  number: number,
  how: ReadingFor,
): Promise<Download | undefined> {
  const pieces = openAttachments(reader.sources().streamMessage(id), how);
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) return undefined;
    if (!('attachment' in next.value) || next.value.attachment.number !== number) continue;
    const { filename } = next.value.attachment;
    return {
      name: filename,
      fallback: `attachment-${number}`,
      size: null,
      bytes: only(pieces, number),
      stop: () => pieces.return(),
    };
  }
}

/** The bytes of one attachment, to the end of the message: its hash is compared there. */
async function* only(
  pieces: ReturnType<typeof openAttachments>,
  number: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of pieces)
    if ('bytes' in piece && piece.number === number) yield piece.bytes;
}

export interface DownloadHooks {
  readonly release: () => void;
  /** Asked before each piece: where it says no, the answer breaks off. */
  readonly mayContinue: () => boolean;
  /** Breaks the connection, since the answer has begun. */
  readonly breakOff: () => void;
  /** Hears why the rest of the bytes cannot be had. */
  readonly failed: (error: unknown) => void;
}

/** Returns an answer that a browser can only save; the archive stays open until its last byte has gone. */
export function savedAnswer(download: Download, hooks: DownloadHooks): Response {
  const { name, fallback, size } = download;
  const file = safeFileName(name, { fallback, taken: new Set() });
  return new Response(streamOf(download, hooks), {
    headers: {
      'content-type': 'application/octet-stream',
      'content-disposition': disposition(file),
      'content-security-policy': DOWNLOAD_POLICY,
      ...(size === null ? {} : { 'content-length': String(size) }),
    },
  });
}

/** RFC 6266: the name in ASCII, and as it is for every browser since 2012. */
function disposition(file: string): string {
  const ascii = file.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(file.toWellFormed()).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

function streamOf(
  { bytes, stop }: Download,
  { release, mayContinue, breakOff, failed }: DownloadHooks,
): ReadableStream<Uint8Array> {
  let cancelled = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          if (!mayContinue()) {
            await stop();
            release();
            breakOff();
            controller.close();
            return;
          }
          const next = await bytes.next();
          // The client left meanwhile, and the stream is closed.
          if (cancelled) return;
          if (next.done !== true) {
            controller.enqueue(next.value);
            return;
          }
          release();
          controller.close();
        } catch (error) {
          if (cancelled) return;
          release();
          failed(error);
          breakOff();
          // The connection is broken, so nobody takes what came for all there is.
          controller.close();
        }
      },
      async cancel() {
        cancelled = true;
        try {
          await stop();
        } finally {
          release();
        }
      },
    },
    { highWaterMark: 0 },
  );
}
