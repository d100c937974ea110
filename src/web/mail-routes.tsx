import type { MessageId } from '../core/types.ts';
import { Completion } from './completion.ts';
import { dashboardPage } from './dashboard.ts';
import { attachmentDownload, type Download, sourceDownload } from './downloads.ts';
import { FilesPages, zipAttachments } from './files.ts';
import { HEALTH_TABS } from './health.ts';
import { deadline, listTimeline } from './mail-list.ts';
import { framedOrNull, type MailPages, type QueryAnswer } from './mail-pages.ts';
import { namedMessage, readConversation } from './message-view.ts';
import { attachedFiles, MAX_OF_THREAD } from './pages/message-props.ts';
import { ArchiveDocument } from './pages/plain-pages.tsx';
import {
  type ArchiveParts,
  type Asked,
  answered,
  byLimit,
  dataRoute,
  type Parameter,
  page,
  parametersOf,
  type RequestContext,
  rememberView,
  seeOther,
  takeTurn,
  type WebApp,
  wholeNumber,
} from './request-context.ts';
import { DOWNLOAD_POLICY, MAIL_POLICY } from './security-headers.ts';
import { admitAtMost, sendDownload } from './send-download.ts';
import { canonicalZone, type ReadingFor, type ServedReader } from './served-archive.ts';

const MAX_SAVING = 2;
const NOT_ONE_FILE =
  'There is nothing to save, or more than one file takes: at most 500 attachments, and 500 MB.';
const BUSY = 'Other attachments are being saved. Try again when that has ended.';

/** Serves the archive's pages, as documents and as data, from its state at the time of the request. */
export function mailRoutes(
  app: WebApp,
  parts: ArchiveParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { archive, forms } = parts;
  searchRoutes(app, parts, pages);
  const files = byLimit((reader) => new FilesPages(parts, pages(reader)));
  app.get('/', (context) => seeOther(context, '/mail'));
  pageRoute(app, parts, '/mail', ({ reader, parameter, signal }) =>
    pages(reader).mail(reader, parameter, signal),
  );
  for (const { tab } of HEALTH_TABS)
    pageRoute(
      app,
      parts,
      tab === 'overview' ? '/health' : `/health/${tab}`,
      async ({ reader, parameter, context }) => {
        // The daemon covers all mailboxes, so limited readers do not see it.
        const hasDaemon = reader.mailboxes === null ? await parts.hasDaemon() : null;
        const token = forms.of(context.get('session').key);
        return pages(reader).health(reader, tab, parameter, { token, hasDaemon });
      },
    );
  pageRoute(app, parts, '/files', ({ reader, parameter, signal }) =>
    files(reader).files(reader, parameter, signal),
  );
  pageRoute(app, parts, '/dashboard', ({ reader, parameter }) =>
    dashboardPage(reader, pages(reader), parts, parameter),
  );
  pageRoute(app, parts, '/export', ({ reader, parameter }) =>
    pages(reader).export(reader, parameter),
  );
  pageRoute(app, parts, '/m/:id', ({ reader, parameter, context, signal }) =>
    pages(reader).alone(reader, context.req.param('id') ?? '', parameter, signal),
  );
  app.get('/api/message', (context) =>
    answered(parts, context, async ({ reader, parameter, signal }) => {
      const page = parameter('page') === 'message' ? 'message' : 'mail';
      const data = await pages(reader).message(reader, asPart(parameter), page, signal);
      if (data.kind === 'message') rememberView(context, data);
      return context.json({ data });
    }),
  );
  app.get('/files/:hash{[0-9a-f]{64}}/preview', (context) =>
    answered(parts, context, async ({ reader, parameter, signal }) => {
      const hash = context.req.param('hash');
      const picture = await files(reader).picture(reader, hash, parameter, signal);
      if (picture === undefined) return context.notFound();
      const { type, bytes } = picture;
      return new Response(new Uint8Array(bytes), {
        headers: { 'content-type': type, 'content-security-policy': DOWNLOAD_POLICY },
      });
    }),
  );
  app.get('/m/:id/html', (context) =>
    answered(parts, context, async ({ reader, signal }) => {
      const id = idIn(context, reader);
      const options = { spare: archive.spare, signal };
      const frame = id === null ? null : await framedOrNull(reader, id, options);
      if (frame === null) return context.notFound();
      // Confined by its own headers even when it is opened directly.
      return context.html(frame.page, 200, { 'content-security-policy': MAIL_POLICY });
    }),
  );
  const admit = admitAtMost(MAX_SAVING);
  const downloads = (
    path: string,
    find: (reader: ServedReader, how: ReadingFor, context: RequestContext) => Found,
    { isLimited = false, missing }: { isLimited?: boolean; missing?: string } = {},
  ) =>
    app.get(path, (context) =>
      takeTurn(context, (signal) => {
        // Not earlier, because a request aborted while waiting never gets here.
        const ended = isLimited ? admit() : undefined;
        if (ended === null) return context.text(BUSY, 503);
        const how = { spare: archive.spare, signal };
        const findIn = (reader: ServedReader) => find(reader, how, context);
        return sendDownload(context, parts, findIn, { ended, missing });
      }),
    );
  downloads('/m/:id/source', (reader, _, context) => {
    const id = idIn(context, reader);
    return id === null ? undefined : sourceDownload(reader, id);
  });
  downloads('/m/:id/attachments/:number{[1-9][0-9]{0,4}}', (reader, how, context) => {
    const id = idIn(context, reader);
    const number = Number(context.req.param('number'));
    return id === null ? undefined : attachmentDownload(reader, id, number, how);
  });
  const findTogether = (reader: ServedReader, how: ReadingFor, context: RequestContext) => {
    const id = idIn(context, reader);
    if (id === null) return undefined;
    const { asOf } = pages(reader).asked(reader, parametersOf(context));
    const found = readConversation(reader, id, asOf, parts.now(), null, MAX_OF_THREAD);
    if (found === null) return undefined;
    const subject = found.all[0]?.line.subject ?? '';
    return zipAttachments(reader, attachedFiles(found.all), subject, how);
  };
  downloads('/m/:id/attachments/all.zip', findTogether, { isLimited: true });
  downloads(
    '/files/all.zip',
    (reader, how, context) => files(reader).together(reader, parametersOf(context), how),
    { isLimited: true, missing: NOT_ONE_FILE },
  );
}

type Found = Download | undefined | Promise<Download | undefined>;

function pageRoute(
  app: WebApp,
  parts: ArchiveParts,
  path: string,
  make: (request: Asked) => QueryAnswer | Promise<QueryAnswer>,
): void {
  app.get(path, (context) =>
    answered(parts, context, async (request) => {
      const view = await make(request);
      rememberOpened(context, view.page);
      return page(context, <ArchiveDocument assets={parts.assets} page={view.page} />, view.status);
    }),
  );
  // Missing data is a 200 with null.
  app.get(`/api/page${path}`, (context) =>
    answered(parts, context, async (request) => {
      const view = await make({ ...request, parameter: asPart(request.parameter) });
      rememberOpened(context, view.page);
      return context.json({ data: view.page });
    }),
  );
}

function rememberOpened(context: RequestContext, page: QueryAnswer['page']): void {
  const message = page.kind === 'mail' || page.kind === 'message' ? page.message : null;
  if (message !== null) rememberView(context, message);
}

/** Adds the parameter with which a script loads a conversation's other messages. */
function asPart(parameter: Parameter): Parameter {
  return (name) => (name === 'part' ? '1' : parameter(name));
}

function idIn(context: RequestContext, reader: ServedReader): MessageId | null {
  const match = namedMessage(reader, context.req.param('id') ?? '');
  return match.kind === 'one' ? match.id : null;
}

const MAX_COLUMNS = 1_000;
const COLUMNS = 600;
const CHANGES_MS = 150;

function momentOf(typed: ReturnType<Parameter>): number | undefined {
  if (typed === undefined) return undefined;
  const time = /^\d{1,14}$/.test(typed) ? Number(typed) : Date.parse(typed);
  return Number.isNaN(time) || time < 0 ? undefined : time;
}

const MAX_ROWS = 200;
const DEFAULT_ROWS = 100;
const SPINE_MS = 250;

function searchRoutes(
  app: WebApp,
  parts: ArchiveParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { accounts, now } = parts;
  const data = dataRoute(app, parts);
  data('/api/rows', (reader, parameter) =>
    pages(reader).rows(
      reader,
      parameter,
      Math.min(wholeNumber(parameter('limit')) || DEFAULT_ROWS, MAX_ROWS),
    ),
  );
  data('/api/position', (reader, parameter) => pages(reader).position(reader, parameter));
  data('/api/counts', (reader, parameter) => pages(reader).counts(reader, parameter));
  data('/api/frame', (reader, parameter) =>
    pages(reader).frame(reader, pages(reader).asked(reader, parameter)),
  );
  const completions = byLimit(() => new Completion());
  data('/api/complete', (reader, parameter) => {
    const query = parameter('q') ?? '';
    const caret = wholeNumber(parameter('at')) ?? query.length;
    const knownCount = (text: string) => pages(reader).knownCount(reader, text);
    const context = { now: now(), timeZone: parameter('zone') };
    return completions(reader).rows(reader, { query, caret, context, accounts, knownCount });
  });
  data('/api/timeline', (reader, parameter) => {
    const { request, problem } = pages(reader).asked(reader, parameter);
    if (request === null) return { problem };
    const timeZone = canonicalZone(parameter('tz'));
    return { ...listTimeline(reader, request, timeZone, deadline(SPINE_MS)), problem };
  });
  data('/api/changes', ({ catalog }, parameter) => {
    const span = catalog.changes.span();
    if (span === undefined) return null;
    const from = momentOf(parameter('from')) ?? span.first;
    const to = Math.max(from, momentOf(parameter('to')) ?? Math.max(now(), span.last));
    const wanted = wholeNumber(parameter('columns')) ?? COLUMNS;
    const columns = Math.min(MAX_COLUMNS, Math.max(1, wanted));
    const found = catalog.changes.columns({ from, to, columns }, deadline(CHANGES_MS));
    return { ...span, from, to, ...found };
  });
  data('/api/changes/next', ({ catalog }, parameter) => {
    const than = momentOf(parameter('than'));
    return than === undefined ? null : (catalog.changes.next(than) ?? null);
  });
  data('/api/changes/previous', ({ catalog }, parameter) => {
    const than = momentOf(parameter('than')) ?? now();
    return catalog.changes.previous(than) ?? null;
  });
  data('/api/moment', (reader, parameter) => {
    const at = momentOf(parameter('at'));
    if (at === undefined) return null;
    const { catalog } = reader;
    return {
      at,
      /** The latest commit at that time; null before the first. */
      inForce: catalog.commitAt(at),
      past: pages(reader).past(reader, at, parameter),
      since: catalog.changes.since(at),
      next: catalog.changes.next(at) ?? null,
      previous: catalog.changes.previous(at) ?? null,
    };
  });
}
