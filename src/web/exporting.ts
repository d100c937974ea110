import type { Reader } from '../catalog/open-reader.ts';
import type { CountRequest } from '../catalog/search.ts';
import { deserializeError, type TransferredError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import { builtWorker, WorkerThread } from '../core/worker-thread.ts';
import type { StreamOptions } from '../transfer/run-export.ts';
import { exportName, sourceDownload } from './downloads.ts';
import { deadline } from './mail-list.ts';
import { pageAddress } from './query-text.ts';
import {
  type ArchiveParts,
  type RequestContext,
  seeOther,
  takeTurn,
  type WebApp,
  withReader,
  zoneOf,
} from './request-context.ts';
import { admitAtMost, downloadResponse, sendDownload } from './send-download.ts';
import type { ServedReader } from './served-archive.ts';
import { parseQueryText } from './understood-query.ts';

/** In MiB. Selecting and compressing messages takes little memory, and sources are held outside V8's heap. */
const HEAP = { oldGenerationMb: 192, youngGenerationMb: 24 };

/**
 * Exports on a separate thread, because selecting from a million messages takes seconds.
 *
 * @throws errors that `streamExport` throws before the first byte; thread-ended
 */
async function beginExport(job: ExportJob, signal: AbortSignal) {
  const begun = Promise.withResolvers<number>();
  let pieces: ReadableStreamDefaultController<Uint8Array> | undefined;
  const fail = (error: unknown): void => {
    begun.reject(error);
    pieces?.error(error);
    void thread.end();
  };
  const thread = new WorkerThread<ToExport, FromExport>(
    { name: 'mailkeep-export', file: builtWorker('export-worker'), data: job, heap: HEAP },
    {
      message(message) {
        if (message.kind === 'begun') begun.resolve(message.commit);
        else if (message.kind === 'piece') pieces?.enqueue(message.bytes);
        else if (message.kind === 'end') {
          pieces?.close();
          void thread.end();
        } else fail(deserializeError(message.thrown));
      },
      ended: fail,
    },
  );
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        pieces = controller;
      },
      pull: () => thread.post('more'),
    },
    { highWaterMark: 0 },
  );
  const stop = (): Promise<void> => thread.end();
  if (signal.aborted) void stop();
  else signal.addEventListener('abort', () => void stop(), { once: true });
  return { commit: await begun.promise, bytes: stream.values(), stop };
}

const DOWNLOAD_FORMATS = ['zip', 'mbox', 'eml'] as const;
export type DownloadFormat = (typeof DOWNLOAD_FORMATS)[number];

const LIMITS = { messages: 50_000, bytes: 10_000_000_000 };
const COUNTING_MS = 500;

export function exportOffer(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  limits = LIMITS,
) {
  return catalog.snapshot(() => {
    const { count, complete } = catalog.prepare(request).countWhile(deadline(COUNTING_MS));
    if (!complete || count > limits.messages)
      return { messages: count, isCounted: complete, bytes: null, isTooLarge: true };
    const { messages, bytes } = catalog.stats.totals(request);
    return { messages, isCounted: true, bytes, isTooLarge: bytes > limits.bytes };
  });
}

/** Size of an export. If counting timed out, `messages` is a lower bound. */
export type ExportOffer = ReturnType<typeof exportOffer>;

export function downloadFormat(text: string | undefined): DownloadFormat | undefined {
  return DOWNLOAD_FORMATS.find((format) => format === text);
}

const MAX_RUNNING = 2;

const REFUSED = {
  'unknown-format': 400,
  'bad-query': 400,
  'not-one': 400,
  'nothing-found': 404,
  'too-large': 413,
  busy: 503,
} as const;

type Refusal = keyof typeof REFUSED;

type Chosen =
  | { readonly refused: Refusal }
  | { readonly format: 'eml'; readonly id: MessageId }
  | {
      readonly format: 'zip' | 'mbox';
      readonly request: CountRequest;
      readonly text: string;
    };

export function exportRoutes(app: WebApp, parts: ArchiveParts): void {
  const admit = admitAtMost(MAX_RUNNING);
  const run = async (
    context: RequestContext,
    query: Extract<Chosen, { format: 'zip' | 'mbox' }>,
    signal: AbortSignal,
  ): Promise<Response> => {
    const leave = admit();
    if (leave === null) return refuse(context, 'busy');
    try {
      const { dataDir } = parts.archive;
      const { mailboxes } = context.get('session');
      const { commit, ...stream } = await beginExport({ dataDir, mailboxes, ...query }, signal);
      const { text, format } = query;
      const name = exportName(text, { now: parts.now(), commit, format });
      const fallback = `mailkeep-commit-${commit}.${format}`;
      return downloadResponse(context, parts, { name, fallback, size: null, ...stream }, leave);
    } catch (error) {
      leave();
      throw error;
    }
  };
  app.get('/api/export', (context) =>
    takeTurn(context, async (signal) => {
      const query = await withReader(parts, context, (reader) => readQuery(context, reader, parts));
      if ('refused' in query) return refuse(context, query.refused);
      // A HEAD request must not build the export.
      if (context.req.method === 'HEAD') return context.body(null, 200);
      return query.format === 'eml'
        ? sendDownload(context, parts, (reader) => sourceDownload(reader, query.id))
        : await run(context, query, signal);
    }),
  );
}

function readQuery(
  context: RequestContext,
  reader: ServedReader,
  { now, accounts }: Pick<ArchiveParts, 'now' | 'accounts'>,
): Chosen {
  const format = downloadFormat(context.req.query('format') ?? 'zip');
  if (format === undefined) return { refused: 'unknown-format' };
  const text = context.req.query('q') ?? '';
  const { request } = parseQueryText(
    text,
    reader,
    { now: now(), timeZone: zoneOf(context) },
    accounts,
  );
  if (request === null) return { refused: 'bad-query' };
  const { messages, isTooLarge } = exportOffer(reader, request);
  if (isTooLarge) return { refused: 'too-large' };
  if (messages === 0) return { refused: 'nothing-found' };
  if (format !== 'eml') return { format, request, text };
  const [id, ...others] = reader.catalog.prepare(request).ids({ limit: 2, sort: 'newest' });
  return id === undefined || others.length > 0 ? { refused: 'not-one' } : { format, id };
}

/** Answers scripts with the code, and users who followed a link or sent a form with a page that explains it. */
function refuse(context: RequestContext, code: Refusal): Response {
  if (context.req.header('sec-fetch-mode') === 'navigate') {
    const { q, format } = context.req.query();
    return seeOther(context, pageAddress('/export', { q, format, refused: code }));
  }
  return context.json({ error: { code } }, REFUSED[code]);
}

export interface ExportJob {
  readonly dataDir: string;
  /** Keys of the mailboxes that may be read; null for all. */
  readonly mailboxes: readonly string[] | null;
  readonly format: StreamOptions['format'];
  readonly text: string;
  readonly request: CountRequest;
}

export type ToExport = 'more';

/** Messages from the thread: `begun`, one piece per request, then `end`. `failed` can end the sequence at any time. */
export type FromExport =
  | { readonly kind: 'begun'; readonly commit: number }
  | { readonly kind: 'piece'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }
  | { readonly kind: 'failed'; readonly thrown: TransferredError };
