import type { MessageId } from '../core/types.ts';
import { dashboardPage } from './dashboard.ts';
import { attachmentDownload, type Download, savedAnswer, sourceDownload } from './downloads.ts';
import { attachmentsTogether, FilesPages } from './files.ts';
import { HEALTH_TABS } from './health.ts';
import { type Answered, framedOrNull, type MailPages } from './mail-pages.ts';
import { conversationOf, namedMessage } from './message-view.ts';
import { attachedFiles, MAX_OF_THREAD } from './pages/message-props.ts';
import { ArchiveDocument } from './pages/plain-pages.tsx';
import {
  type ArchiveParts,
  byLimit,
  downloadHooks,
  inTurn,
  type Parameter,
  page,
  type RequestContext,
  seeOther,
  type WebApp,
  withReader,
} from './request-context.ts';
import { DOWNLOAD_POLICY, MAIL_POLICY } from './security-headers.ts';
import type { ReadingFor, ServedReader } from './served-archive.ts';

const MAX_SAVING = 2;
const NOT_ONE_FILE =
  'There is nothing to save, or more than one file takes: at most 500 attachments, and 500 MB.';
const BUSY = 'Other attachments are being saved. Try again when that has ended.';

/** Serves the pages of the archive, as documents and as data, from its state at the time of the request. */
export function mailRoutes(
  app: WebApp,
  parts: ArchiveParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { archive, forms } = parts;
  const files = byLimit((reader) => new FilesPages(parts, pages(reader)));
  app.get('/', (context) => seeOther(context, '/mail'));
  pageRoute(app, parts, '/mail', ({ reader, parameter, signal }) =>
    pages(reader).mail(reader, parameter, signal),
  );
  for (const tab of HEALTH_TABS)
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
      const data = await pages(reader).message(reader, inParts(parameter), page, signal);
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
    answered(parts, context, ({ reader, signal }) =>
      framedHtml(context, reader, context.req.param('id'), { spare: archive.spare, signal }),
    ),
  );
  app.get('/m/:id/source', (context) =>
    download(parts, context, async (reader, id) => sourceDownload(reader, id)),
  );
  let saving = 0;
  const savedTogether = (context: RequestContext, find: Find, missing?: string) =>
    inTurn(context, (signal) => {
      // Not earlier, since a request that is aborted while it waits never gets here.
      if (saving >= MAX_SAVING) return context.text(BUSY, 503);
      const { reader, release } = archive.hold(context.get('session').mailboxes);
      saving += 1;
      let isSaving = true;
      const ended = (): void => {
        if (isSaving) saving -= 1;
        isSaving = false;
        release();
      };
      const held = { reader, release: ended };
      return saved(parts, context, (from) => find(from, signal), { held, missing });
    });
  app.get('/m/:id/attachments/all.zip', (context) =>
    savedTogether(
      context,
      ofMessage(context, (reader, id, signal) => {
        const { asOf } = pages(reader).understand(reader, context.req.query('q') ?? '');
        const found = conversationOf(reader, id, asOf, parts.now(), null, MAX_OF_THREAD);
        if (found === null) return undefined;
        const subject = found.all[0]?.line.subject ?? '';
        const how = { spare: archive.spare, signal };
        return attachmentsTogether(reader, attachedFiles(found.all), subject, how);
      }),
    ),
  );
  app.get('/files/all.zip', (context) => {
    const parameter: Parameter = (name) => context.req.query(name);
    return savedTogether(
      context,
      (reader, signal) => files(reader).together(reader, parameter, signal),
      NOT_ONE_FILE,
    );
  });
  app.get('/m/:id/attachments/:number{[1-9][0-9]{0,4}}', (context) => {
    const number = Number(context.req.param('number'));
    return download(parts, context, (reader, id, signal) =>
      attachmentDownload(reader, id, number, { spare: archive.spare, signal }),
    );
  });
}

interface Asked {
  readonly reader: ServedReader;
  readonly parameter: Parameter;
  readonly context: RequestContext;
  readonly signal: AbortSignal;
}

function answered(
  parts: ArchiveParts,
  context: RequestContext,
  make: (asked: Asked) => Response | Promise<Response>,
): Promise<Response> {
  const parameter: Parameter = (name) => context.req.query(name);
  return inTurn(context, (signal) =>
    withReader(parts, context, (reader) => make({ reader, parameter, context, signal })),
  );
}

/** Serves a page twice: as a document at its address, and as data below `/api/page`. */
function pageRoute(
  app: WebApp,
  parts: ArchiveParts,
  path: string,
  make: (asked: Asked) => Answered | Promise<Answered>,
): void {
  app.get(path, (context) =>
    answered(parts, context, async (asked) => {
      const made = await make(asked);
      return page(context, <ArchiveDocument assets={parts.assets} page={made.page} />, made.status);
    }),
  );
  // Missing data is a 200.
  app.get(`/api/page${path}`, (context) =>
    answered(parts, context, async (asked) => {
      const made = await make({ ...asked, parameter: inParts(asked.parameter) });
      return context.json({ data: made.page });
    }),
  );
}

/** For a script, which loads the other messages of a conversation after the opened one. */
function inParts(parameter: Parameter): Parameter {
  return (name) => (name === 'part' ? '1' : parameter(name));
}

/** Serves a download, with the archive open until its last byte was sent. */
function download(
  parts: ArchiveParts,
  context: RequestContext,
  find: FindOfMessage,
): Promise<Response> {
  const found = ofMessage(context, find);
  return inTurn(context, (signal) => saved(parts, context, (reader) => found(reader, signal)));
}

type MaybeSaved = Download | undefined | Promise<Download | undefined>;
type Find = (reader: ServedReader, signal: AbortSignal) => MaybeSaved;
type FindOfMessage = (reader: ServedReader, id: MessageId, signal: AbortSignal) => MaybeSaved;

/** Returns the download for the message in the address; undefined if no message, or several, match its id. */
function ofMessage(context: RequestContext, find: FindOfMessage): Find {
  return (reader, signal) => {
    const named = namedMessage(reader, context.req.param('id') ?? '');
    return named.kind === 'one' ? find(reader, named.id, signal) : undefined;
  };
}

async function saved(
  parts: ArchiveParts,
  context: RequestContext,
  find: (reader: ServedReader) => MaybeSaved,
  {
    held: { reader, release } = parts.archive.hold(context.get('session').mailboxes),
    missing,
  }: {
    held?: { readonly reader: ServedReader; readonly release: () => void };
    /** Text to show if there is nothing to save, instead of the page for unknown addresses. */
    missing?: string | undefined;
  } = {},
): Promise<Response> {
  try {
    const found = await find(reader);
    if (found !== undefined) {
      const answer = savedAnswer(await begun(found), downloadHooks(context, parts, release));
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

/** Reads the first bytes, so that unreadable data gives an error page rather than a response that breaks off. */
async function begun(download: Download): Promise<Download> {
  const { bytes } = download;
  const first = await bytes.next();
  let isFirst = true;
  return {
    ...download,
    bytes: {
      next() {
        if (!isFirst) return bytes.next();
        isFirst = false;
        return Promise.resolve(first);
      },
    },
  };
}

/** Serves the HTML of a message as a document, confined by its own headers even when opened directly. */
async function framedHtml(
  context: RequestContext,
  reader: ServedReader,
  typed: string,
  how: ReadingFor,
): Promise<Response> {
  const named = namedMessage(reader, typed);
  if (named.kind !== 'one') return context.notFound();
  const framed = await framedOrNull(reader, named.id, how);
  if (framed === null) return context.notFound();
  return context.html(framed.page, 200, { 'content-security-policy': MAIL_POLICY });
}
