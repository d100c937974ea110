import type { CountRequest } from '../../catalog/search/search.ts';
import type { MessageId } from '../../mail/words.ts';
import { beginExport } from '../exporting/export-thread.ts';
import { savedAnswer, sourceDownload } from '../reading/downloads.ts';
import { exportName } from '../reading/export-name.ts';
import { downloadFormat, exportOffer } from '../reading/export-offer.ts';
import { pageAddress } from '../reading/query-text.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { understandQuery } from '../reading/understood-query.ts';
import { downloadHooks } from './download-hooks.ts';
import { inTurn } from './in-turn.ts';
import {
  type ArchiveParts,
  type RequestContext,
  seeOther,
  type WebApp,
  withReader,
} from './request-context.ts';

/** Exports under way at a time: each has a thread of its own. */
const MOST_RUNNING = 2;

/** Why nothing is exported, with the status that a program sees. */
const REFUSED = {
  'unknown-format': 400,
  'bad-query': 400,
  'not-one': 400,
  'nothing-found': 404,
  'too-large': 413,
  busy: 503,
} as const;

type Refusal = keyof typeof REFUSED;

/** What is to be exported, or why it cannot be. */
type Chosen =
  | { readonly refused: Refusal }
  | { readonly format: 'eml'; readonly id: MessageId }
  | {
      readonly format: 'zip' | 'mbox';
      readonly request: CountRequest;
      readonly text: string;
    };

/** Downloads of what a query finds, as they are made. Each obeys the mailboxes that its session is limited to. */
export function exportRoutes(app: WebApp, parts: ArchiveParts): void {
  let running = 0;
  const run = async (
    context: RequestContext,
    chosen: Extract<Chosen, { format: 'zip' | 'mbox' }>,
    signal: AbortSignal,
  ): Promise<Response> => {
    if (running >= MOST_RUNNING) return refused(context, 'busy');
    running += 1;
    const release = (): void => {
      running -= 1;
    };
    try {
      const { dataDir } = parts.archive;
      await parts.archive.bringAll();
      const { mailboxes } = context.get('session');
      const { commit, ...begun } = await beginExport({ dataDir, mailboxes, ...chosen }, signal);
      const { text, format } = chosen;
      const name = exportName(text, { now: parts.now(), commit, format });
      const fallback = `mailkeep-commit-${commit}.${format}`;
      return savedAnswer(
        { name, fallback, size: null, ...begun },
        downloadHooks(context, parts, release),
      );
    } catch (error) {
      release();
      throw error;
    }
  };
  app.get('/api/export', (context) =>
    inTurn(context, async (signal) => {
      const chosen = await withReader(parts, context, (reader) => chosenIn(context, reader, parts));
      if ('refused' in chosen) return refused(context, chosen.refused);
      // Nothing is made to be thrown away.
      if (context.req.method === 'HEAD') return context.body(null, 200);
      return chosen.format === 'eml'
        ? source(context, parts, chosen.id)
        : await run(context, chosen, signal);
    }),
  );
}

function chosenIn(
  context: RequestContext,
  reader: ServedReader,
  { now, accounts }: Pick<ArchiveParts, 'now' | 'accounts'>,
): Chosen {
  const format = downloadFormat(context.req.query('format') ?? 'zip');
  if (format === undefined) return { refused: 'unknown-format' };
  const text = context.req.query('q') ?? '';
  const { request } = understandQuery(text, reader, now(), accounts);
  if (request === null) return { refused: 'bad-query' };
  const { messages, isTooLarge } = exportOffer(reader, request);
  if (isTooLarge) return { refused: 'too-large' };
  if (messages === 0) return { refused: 'nothing-found' };
  if (format !== 'eml') return { format, request, text };
  const [id, ...others] = reader.catalog.foundIds({ ...request, limit: 2, sort: 'newest' });
  return id === undefined || others.length > 0 ? { refused: 'not-one' } : { format, id };
}

function source(context: RequestContext, parts: ArchiveParts, id: MessageId): Response {
  const { reader, release } = parts.archive.hold(context.get('session').mailboxes);
  try {
    return savedAnswer(sourceDownload(reader, id), downloadHooks(context, parts, release));
  } catch (error) {
    // Of a damaged message, not even the size is known.
    release();
    throw error;
  }
}

/** A program gets the code; whoever came by a link or a form sees it in words. */
function refused(context: RequestContext, code: Refusal): Response {
  if (context.req.header('sec-fetch-mode') === 'navigate') {
    const { q, format } = context.req.query();
    return seeOther(context, pageAddress('/export', { q, format, refused: code }));
  }
  return context.json({ error: { code } }, REFUSED[code]);
}
