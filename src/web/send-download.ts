import { safeFileName } from '../mail/file-names.ts';
import type { Download } from './downloads.ts';
import type { ArchiveParts, RequestContext } from './request-context.ts';
import { DOWNLOAD_POLICY } from './security-headers.ts';
import type { ServedReader } from './served-archive.ts';

type SendingParts = Pick<ArchiveParts, 'sessions' | 'now' | 'onError'>;

/** Limits concurrency to `most`. Each call returns a function that frees its slot, or null if all slots are taken. */
export function admitAtMost(most: number): () => (() => void) | null {
  const holders = new Set<() => void>();
  return () => {
    if (holders.size >= most) return null;
    const leave = (): void => void holders.delete(leave);
    holders.add(leave);
    return leave;
  };
}

/**
 * Finds and sends a download, and keeps the archive open until its last byte has been sent.
 *
 * @param ended called when the download ends or none is found
 * @param missing text of the 404 if `find` finds nothing; defaults to the page for unknown addresses
 */
export async function sendDownload(
  context: RequestContext,
  parts: SendingParts & Pick<ArchiveParts, 'archive'>,
  find: (reader: ServedReader) => Download | undefined | Promise<Download | undefined>,
  {
    ended = () => {},
    missing,
  }: { readonly ended?: (() => void) | undefined; readonly missing?: string | undefined } = {},
): Promise<Response> {
  let release = ended;
  try {
    const held = parts.archive.hold(context.get('session').mailboxes);
    release = () => {
      held.release();
      ended();
    };
    const download = await find(held.reader);
    if (download !== undefined) {
      const answer = downloadResponse(context, parts, await withFirstBytes(download), release);
      if (context.req.method !== 'HEAD') return answer;
      await answer.body?.cancel();
      return new Response(null, { headers: answer.headers });
    }
  } catch (error) {
    release();
    throw error;
  }
  release();
  return missing === undefined ? context.notFound() : context.text(missing, 404);
}

/** Reads the first bytes, so that unreadable data causes an error page rather than a truncated response. */
async function withFirstBytes(download: Download): Promise<Download> {
  const { bytes } = download;
  let first: IteratorResult<Uint8Array> | null = await bytes.next();
  return {
    ...download,
    bytes: {
      async next() {
        const next = first ?? (await bytes.next());
        first = null;
        return next;
      },
    },
  };
}

/** Returns a response that browsers can only save. It is cut short if the session ends or the bytes cannot be read. */
export function downloadResponse(
  context: RequestContext,
  { sessions, now, onError }: SendingParts,
  { name, fallback, size, bytes, stop }: Download,
  ended: () => void,
): Response {
  const { key } = context.get('session');
  const { signal } = context.req.raw;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const isOpen = sessions.isOpen(key, now());
          if (!isOpen) await stop();
          const next = isOpen ? await bytes.next() : null;
          // The client has disconnected, and the stream is closed.
          if (cancelled) return;
          if (next !== null && next.done !== true) {
            controller.enqueue(next.value);
            return;
          }
          ended();
          if (next === null) context.env.breakOff();
        } catch (error) {
          if (cancelled) return;
          ended();
          // A disconnected browser is not a failure.
          if (!signal.aborted) onError(error);
          // The broken connection tells the client that the file is incomplete.
          context.env.breakOff();
        }
        controller.close();
      },
      async cancel() {
        cancelled = true;
        try {
          await stop();
        } finally {
          ended();
        }
      },
    },
    { highWaterMark: 0 },
  );
  const file = safeFileName(name, { fallback, taken: new Set() });
  return new Response(body, {
    headers: {
      'content-type': 'application/octet-stream',
      'content-disposition': disposition(file),
      'content-security-policy': DOWNLOAD_POLICY,
      ...(size === null ? {} : { 'content-length': String(size) }),
    },
  });
}

/** Returns a header with the name in ASCII, and in full for browsers released since 2012 (RFC 6266). */
function disposition(file: string): string {
  const ascii = file.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(file.toWellFormed()).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}
