import type { AttachmentTextState } from '../../catalog/attachment-texts.ts';
import { type Reader, staleCatalog } from '../../engine/archive/reader.ts';
import { type ArchiveStatus, archiveStatus } from '../../engine/status/archive-status.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import { readFramedPage, type SpareReader } from '../../mime/reading.ts';
import { readState } from '../../state/state-file.ts';
import { HealthPage } from '../pages/health-page.tsx';
import { MailPage } from '../pages/mail-page.tsx';
import { MessagePage, type NoMessage, NoMessagePage } from '../pages/message-page.tsx';
import {
  type MessagePaneProps,
  VIEWS,
  type View,
  type ViewContent,
} from '../pages/message-props.ts';
import { FailurePage } from '../pages/plain-pages.tsx';
import { ClosingSums } from '../reading/closing-sum.ts';
import {
  attachmentDownload,
  type Download,
  savedAnswer,
  sourceDownload,
} from '../reading/downloads.ts';
import { mailList } from '../reading/mail-list.ts';
import { mattersOf } from '../reading/matters.ts';
import {
  conversationOf,
  namedMessage,
  readBack,
  sourceWindow,
  textPieces,
} from '../reading/message-view.ts';
import { asOfWord, pageAddress } from '../reading/query-text.ts';
import { SideTrees } from '../reading/side-tree.ts';
import { Turns } from '../reading/turns.ts';
import { type Understood, understandQuery } from '../reading/understood-query.ts';
import {
  page,
  type RequestContext,
  seeOther,
  type WebApp,
  type WebParts,
} from './request-context.ts';
import { MAIL_POLICY } from './security-headers.ts';

/** The pages of the archive. Each is made for one request, from what the archive holds then. */
export function mailRoutes(app: WebApp, parts: WebParts): void {
  const { archive, assets } = parts;
  const pages = new MailPages(parts);
  app.get('/', (context) => seeOther(context, '/mail'));
  // No query obeys a limit to mailboxes yet: a session that has one is shown no mail at all.
  app.use(async (context, next) => {
    if (context.get('session').mailboxes !== null)
      return page(context, <FailurePage assets={assets} kind="limited" />, 403);
    await next();
    return undefined;
  });
  app.get('/mail', (context) => archive.use((reader) => pages.mail(context, reader)));
  app.get('/health', (context) => archive.use((reader) => pages.health(context, reader)));
  app.get('/m/:id', (context) =>
    archive.use((reader) => pages.message(context, reader, context.req.param('id'))),
  );
  app.get('/m/:id/html', (context) =>
    archive.use((reader) => framedHtml(context, reader, context.req.param('id'), archive.spare)),
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

/** What is saved has the archive open until its last byte has gone. */
async function download(
  { archive, onError }: WebParts,
  context: RequestContext,
  typed: string,
  find: (reader: Reader, id: MessageId) => Promise<Download | undefined>,
): Promise<Response> {
  const { reader, release } = archive.hold();
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
  reader: Reader,
  typed: string,
  spare: SpareReader,
): Promise<Response> {
  const named = namedMessage(reader, typed);
  if (named.kind !== 'one') return context.notFound();
  const framed = await framedOrNull(reader, named.id, spare);
  if (framed === null) return context.notFound();
  return context.html(framed.page, 200, { 'content-security-policy': MAIL_POLICY });
}

const AWAY = '/away?to=';
/** Messages that are parsed at a time, each in a thread of its own. */
const READINGS = 4;
const readings = new Turns(READINGS);
/** How old the number of matters on a page may be, in milliseconds. */
const MATTERS_MS = 5_000;

/** The HTML of a message; null where it has none, or none that can be read within the limits. */
async function framedOrNull(reader: Reader, id: MessageId, spare: SpareReader) {
  try {
    return await readings.take(() =>
      readFramedPage(reader.sources().streamMessage(id), AWAY, { spare }),
    );
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return null;
    throw error;
  }
}

class MailPages {
  readonly #trees = new SideTrees();
  readonly #sums = new ClosingSums();
  #counted: { commit: number; at: number; matters: number } | undefined;

  constructor(private readonly parts: WebParts) {}

  async mail(context: RequestContext, reader: Reader): Promise<Response> {
    const { now, accounts } = this.parts;
    // Whoever lists messages is about to open one.
    this.parts.archive.spare.prepare();
    const query = context.req.query('q') ?? '';
    const sort = context.req.query('sort') === 'oldest' ? 'oldest' : 'newest';
    const understood = understandQuery(query, reader, now(), accounts);
    const typedAfter = context.req.query('after');
    const from = typedAfter === undefined ? undefined : namedMessage(reader, typedAfter);
    const after = from?.kind === 'one' ? from.id : undefined;
    const list =
      understood.request === null ? null : mailList(reader, understood.request, sort, after);
    const chosen = context.req.query('m');
    const parameters = {
      q: query,
      sort: sort === 'newest' ? undefined : sort,
      after: after?.slice(0, 16),
    };
    const found =
      chosen === undefined
        ? null
        : await this.#pane(context, reader, chosen, understood.asOf, {
            back: pageAddress('/mail', parameters),
            address: (id, view) =>
              pageAddress('/mail', {
                ...parameters,
                m: id.slice(0, 16),
                view: viewParameter(view),
              }),
          });
    const content = (
      <MailPage
        {...this.#frame(reader, query, understood)}
        list={list}
        sort={sort}
        after={after?.slice(0, 16)}
        message={found !== null && 'conversation' in found ? found : null}
        pending={reader.catalog.index.pendingCount()}
      />
    );
    return page(context, content, understood.problem === null ? 200 : 400);
  }

  async message(context: RequestContext, reader: Reader, typed: string): Promise<Response> {
    const { now, accounts } = this.parts;
    const query = context.req.query('q') ?? '';
    const understood = understandQuery(query, reader, now(), accounts);
    const found = await this.#pane(context, reader, typed, understood.asOf, {
      back: pageAddress('/mail', { q: query }),
      address: (id, view) => pageAddress(`/m/${id}`, { q: query, view: viewParameter(view) }),
    });
    const frame = this.#frame(reader, query, understood);
    return 'conversation' in found
      ? page(context, <MessagePage {...frame} message={found} />)
      : page(context, <NoMessagePage {...frame} found={found} />, STATUS[found.kind]);
  }

  health(context: RequestContext, reader: Reader): Response {
    const { now } = this.parts;
    const { status, matters } = this.#state(reader);
    const content = (
      <HealthPage
        {...this.#frame(reader, '', { request: null, asOf: null, problem: null })}
        status={status}
        found={matters}
        now={now()}
      />
    );
    return page(context, content);
  }

  #frame(
    reader: Reader,
    query: string,
    { asOf, problem }: Pick<Understood, 'asOf' | 'problem'> & { readonly request: unknown },
  ) {
    const { assets, now } = this.parts;
    return {
      assets,
      query,
      problem,
      tree: this.#trees.of(reader, asOf === null ? '' : asOfWord(query), now()),
      closing: this.#sums.of(reader),
      past: asOf === null ? null : this.#sums.past(reader, asOf, now()),
      matters: this.#matters(reader),
    };
  }

  /** How many there are, for every page: they cost some queries a folder. */
  #matters(reader: Reader): number {
    const commit = reader.catalog.reached().number;
    const at = this.parts.now();
    const known = this.#counted;
    if (known !== undefined && known.commit === commit && at - known.at < MATTERS_MS)
      return known.matters;
    const matters = this.#state(reader).matters.length;
    this.#counted = { commit, at, matters };
    return matters;
  }

  #state(reader: Reader): {
    readonly status: ArchiveStatus;
    readonly matters: ReturnType<typeof mattersOf>;
  } {
    const { dataDir, catalog } = reader;
    const state = readState(dataDir);
    try {
      const status = archiveStatus(reader, state);
      const behind = staleCatalog(dataDir, () => catalog.reached().number);
      return { status, matters: mattersOf(status, behind) };
    } finally {
      state?.close();
    }
  }

  async #pane(
    context: RequestContext,
    reader: Reader,
    typed: string,
    asOf: number | null,
    links: Pick<MessagePaneProps, 'address' | 'back'>,
  ): Promise<MessagePaneProps | NoMessage> {
    const named = namedMessage(reader, typed);
    if (named.kind === 'several') {
      const subjectOf = (id: MessageId) =>
        reader.catalog.messages.summary(id)?.subject ?? '(no subject)';
      return { kind: 'several', links: named.ids.map((id) => ({ id, subject: subjectOf(id) })) };
    }
    if (named.kind !== 'one') return named;
    const { id } = named;
    const { spare } = this.parts.archive;
    const conversation = conversationOf(reader, id, asOf, this.parts.now());
    if (conversation === null) return { kind: 'not-then' };
    const read = await readings.take(() => readBack(reader, id, spare));
    const content = await contentOf(context, reader, id, read, spare);
    const texts = new Map(textStates(reader, id).map((state) => [state.number, state]));
    return { id, conversation, read, content, texts, ...links, dataDir: reader.dataDir };
  }
}

const STATUS = { none: 404, 'not-then': 404, several: 200, purged: 410 } as const;

/** The first view has no name in addresses. */
function viewParameter(view: View): string | undefined {
  return view === 'thread' ? undefined : view;
}

function textStates({ catalog }: Reader, id: MessageId): readonly AttachmentTextState[] {
  const docid = catalog.messages.docidOf(id);
  return docid === undefined ? [] : catalog.attachments.ofMessage(docid);
}

async function contentOf(
  context: RequestContext,
  reader: Reader,
  id: MessageId,
  read: MessagePaneProps['read'],
  spare: SpareReader,
): Promise<ViewContent> {
  const asked = context.req.query('view');
  const view = VIEWS.find((known) => known === asked) ?? 'thread';
  switch (view) {
    case 'history':
      return { view, lines: reader.catalog.history(id) };
    case 'headers':
      return { view };
    case 'source': {
      const from = Number(context.req.query('from') ?? '0');
      const isPart = Number.isSafeInteger(from) && from >= 0 && read.damage === null;
      return { view, window: isPart ? await sourceWindow(reader, id, from) : null };
    }
    case 'html': {
      if (read.reading?.html == null) return { view, remote: null, isReadable: false };
      const framed = await framedOrNull(reader, id, spare);
      return { view, remote: framed?.remote ?? null, isReadable: framed !== null };
    }
    default:
      return { view, text: textPieces(read.reading?.text.trim() ?? '') };
  }
}
