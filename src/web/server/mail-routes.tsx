import type { Reader } from '../../engine/archive/reader.ts';
import type { MessageId } from '../../mail/words.ts';
import type { SpareReader } from '../../mime/reading.ts';
import { ArchiveDocument } from '../pages/archive-document.tsx';
import {
  attachmentDownload,
  type Download,
  savedAnswer,
  sourceDownload,
} from '../reading/downloads.ts';
import type { HealthTab } from '../reading/health/health-content.ts';
import { namedMessage } from '../reading/message-view.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { byLimit } from './by-limit.ts';
import { dashboardPage } from './dashboard-pages.ts';
import { FilesPages } from './files-pages.ts';
import type { Answered, MailPages, Parameter } from './mail-pages.ts';
import { framedOrNull } from './opening.ts';
import {
  page,
  type RequestContext,
  seeOther,
  type WebApp,
  type WebParts,
  withReader,
} from './request-context.ts';
import { DOWNLOAD_POLICY, MAIL_POLICY } from './security-headers.ts';

const HEALTH_TABS = [
  'overview',
  'folders',
  'runs',
  'quarantine',
  'held',
  'verification',
  'retention',
] as const satisfies readonly HealthTab[];

/** The pages of the archive, as documents and as data. Each is made for one request, from what the archive holds then. */
export function mailRoutes(
  app: WebApp,
  parts: WebParts,
  pages: (reader: ServedReader) => MailPages,
): void {
  const { archive } = parts;
  const files = byLimit((reader) => new FilesPages(parts, pages(reader)));
  app.get('/', (context) => seeOther(context, '/mail'));
  pageRoute(app, parts, '/mail', (reader, parameter) => pages(reader).mail(reader, parameter));
  for (const tab of HEALTH_TABS)
    pageRoute(app, parts, tab === 'overview' ? '/health' : `/health/${tab}`, (reader, parameter) =>
      pages(reader).health(reader, tab, parameter),
    );
  pageRoute(app, parts, '/files', (reader, parameter) => files(reader).files(reader, parameter));
  pageRoute(app, parts, '/dashboard', (reader, parameter) =>
    dashboardPage(reader, pages(reader), parts, parameter),
  );
  pageRoute(app, parts, '/export', (reader, parameter) => pages(reader).export(reader, parameter));
  pageRoute(app, parts, '/m/:id', (reader, parameter, context) =>
    pages(reader).alone(reader, context.req.param('id') ?? '', parameter),
  );
  app.get('/api/message', (context) =>
    withReader(parts, context, async (reader) => {
      const parameter: Parameter = (name) => context.req.query(name);
      const page = parameter('page') === 'message' ? 'message' : 'mail';
      return context.json({ data: await pages(reader).message(reader, inParts(parameter), page) });
    }),
  );
  app.get('/files/:hash{[0-9a-f]{64}}/preview', (context) =>
    withReader(parts, context, async (reader) => {
      const hash = context.req.param('hash');
      const parameter: Parameter = (name) => context.req.query(name);
      const picture = await files(reader).picture(reader, hash, parameter);
      if (picture === undefined) return context.notFound();
      const { type, bytes } = picture;
      return new Response(new Uint8Array(bytes), {
        headers: { 'content-type': type, 'content-security-policy': DOWNLOAD_POLICY },
      });
    }),
  );
  app.get('/m/:id/html', (context) =>
    withReader(parts, context, (reader) =>
      framedHtml(context, reader, context.req.param('id'), archive.spare),
    ),
  );
  app.get('/m/:id/source', (context) =>
    download(parts, context, context.req.param('id'), async (reader, id) =>
      sourceDownload(reader, id),
    ),
  );
  app.get('/m/:id/attachments/:number{[1-9][0-9]{0,4}}', (context) => {
    const number = Number(context.req.param('number'));
    return download(parts, context, context.req.param('id'), (reader, id) =>
      attachmentDownload(reader, id, number, archive.spare),
    );
  });
}

/** Answers a page twice: as a document at its address, and below `/api/page` as the data that it is made of. */
function pageRoute(
  app: WebApp,
  parts: WebParts,
  path: string,
  make: (
    reader: ServedReader,
    parameter: Parameter,
    context: RequestContext,
  ) => Answered | Promise<Answered>,
): void {
  const answered = (context: RequestContext, asked = askedBy(context)): Promise<Answered> =>
    withReader(parts, context, (reader) => make(reader, asked, context));
  app.get(path, async (context) => {
    const made = await answered(context);
    return page(context, <ArchiveDocument assets={parts.assets} page={made.page} />, made.status);
  });
  // Data about what is not there is no error of the request.
  app.get(`/api/page${path}`, async (context) =>
    context.json({ data: (await answered(context, inParts(askedBy(context)))).page }),
  );
}

function askedBy(context: RequestContext): Parameter {
  return (name) => context.req.query(name);
}

/** For a script, which asks for the other messages of a conversation when the one that was opened is there. */
function inParts(parameter: Parameter): Parameter {
  return (name) => (name === 'part' ? '1' : parameter(name));
}

/** What is saved has the archive open until its last byte has gone. */
async function download(
  { archive, onError }: WebParts,
  context: RequestContext,
  typed: string,
  find: (reader: Reader, id: MessageId) => Promise<Download | undefined>,
): Promise<Response> {
  const { reader, release } = archive.hold(context.get('session').mailboxes);
  try {
    const named = namedMessage(reader, typed);
    const found = named.kind === 'one' ? await find(reader, named.id) : undefined;
    if (found !== undefined) {
      const failed = (error: unknown): void => {
        onError(error);
        context.env.breakOff();
      };
      const answer = savedAnswer(await begun(found), { release, failed });
      if (context.req.method !== 'HEAD') return answer;
      await answer.body?.cancel();
      return new Response(null, { headers: answer.headers });
    }
  } catch (error) {
    release();
    throw error;
  }
  release();
  return context.notFound();
}

/** Reads the first bytes: what cannot be read at all is an error page, and no answer that breaks off. */
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

/** The HTML of a message as a document of its own, which is confined by its own headers wherever it is opened. */
async function framedHtml(
  context: RequestContext,
  reader: ServedReader,
  typed: string,
  spare: SpareReader,
): Promise<Response> {
  const named = namedMessage(reader, typed);
  if (named.kind !== 'one') return context.notFound();
  const framed = await framedOrNull(reader, named.id, spare);
  if (framed === null) return context.notFound();
  return context.html(framed.page, 200, { 'content-security-policy': MAIL_POLICY });
}
