import { MailkeepError } from '../../core/errors.ts';
import { envelope, statusRefusal, unauthorized } from '../../service/surface.ts';
import { cookieValue } from '../access.ts';
import { apiRefusal } from '../app.tsx';
import { builtAssets } from '../assets.ts';
import { toResponse } from '../mirror.ts';
import { FailurePage } from '../pages/plain-pages.tsx';
import { THEME_COOKIE, themeOf } from '../pages/theme.ts';
import { page, type RequestContext } from '../request-context.ts';
import { Sessions } from '../sessions.ts';
import {
  type ListenOptions,
  openSignedInServer,
  requireLoopback,
  tokensOf,
  type WebServer,
  withLinks,
} from '../web-server.ts';
import {
  ASKER_HEADER,
  askerText,
  MAILBOXES_PATH,
  type RequestIdentity,
  type ServedMailboxes,
  servedMailboxes,
} from './asker.ts';

/** Has a request answered where the archive is; its signal is aborted when nobody waits for it. */
export type AskArchive = (request: Request) => Promise<Response>;

export interface FrontOptions extends ListenOptions {
  /** @throws errors of this program where the archive cannot be reached */
  readonly ask: AskArchive;
}

/** Headers that belong to one connection, or are for this server alone. */
const OWN_HEADERS = [
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade'],
  ...['http2-settings', 'host', 'cookie', 'authorization', ASKER_HEADER],
];
/** How often it is looked whether whoever asked is still known, while nothing comes. Milliseconds. */
const LOOK_MS = 1_000;

/**
 * Serves the web interface, the API and MCP over an archive that is elsewhere: browsers sign in here, and tokens are known
 * here. What they may ask for is answered by `openBack`.
 *
 * @throws web-not-loopback, cannot-listen
 */
export async function startFront(options: FrontOptions): Promise<WebServer> {
  requireLoopback(options);
  const { ask, now, onError } = options;
  const sessions = new Sessions(options.sessions);
  const assets = builtAssets();
  const byToken = byTokenOf(options);
  const forBrowser = async (context: RequestContext): Promise<Response> => {
    const session = context.get('session');
    const asker = { reached: context.get('reached'), session, token: null };
    try {
      const answer = await ask(passedOn(context.req.raw, asker));
      return whileKnown(answer, () => sessions.isOpen(session.key, now()));
    } catch (error) {
      if (context.req.raw.signal.aborted) return context.body(null, 503);
      onError(error);
      if (!(error instanceof MailkeepError)) throw error;
      return context.req.path.startsWith('/api/')
        ? apiRefusal('elsewhere', 503)
        : page(context, FailurePage({ assets, kind: 'elsewhere' }), 503);
    }
  };
  const server = await openSignedInServer(options, sessions, () => ({
    routes: (app) => void app.all('*', forBrowser),
    ...{ mirror: byToken, mcp: byToken },
    names: async (mailboxes) => {
      const all = (await mailboxesOf(ask)).filter(({ key }) => mailboxes?.includes(key) ?? true);
      return new Map(all.map(({ key, address }) => [key, address]));
    },
    beforeClosing: () => {},
    close: async () => {},
  }));
  return withLinks(server, sessions, now);
}

/** Returns the mailboxes of an archive that is elsewhere. @throws what `ask` throws */
export async function mailboxesOf(ask: AskArchive): Promise<ServedMailboxes> {
  const answer = await ask(new Request(`http://archive${MAILBOXES_PATH}`));
  return servedMailboxes.parse(await answer.json());
}

/** Answers the API and MCP: their secrets stay here. */
function byTokenOf(options: FrontOptions) {
  const { ask, onError } = options;
  const authorize = tokensOf(options);
  return {
    async fetch(request: Request, origin: string): Promise<Response> {
      const header = request.headers.get('authorization') ?? '';
      const secret = /^Bearer +([^\s]+) *$/i.exec(header)?.[1] ?? '';
      const token = authorize(secret);
      if (token === undefined) {
        const why = 'The token is missing, malformed, expired or revoked';
        return toResponse(envelope(unauthorized(why)));
      }
      const reached = { host: new URL(origin).host, origin, secure: origin.startsWith('https:') };
      try {
        const answer = await ask(passedOn(request, { reached, session: null, token }));
        return whileKnown(answer, () => authorize(secret) !== undefined);
      } catch (error) {
        if (!request.signal.aborted) onError(error);
        return toResponse(envelope(statusRefusal(503, undefined, undefined)));
      }
    },
  };
}

/** Returns a request as it is passed on: with who asks, and without what let them in. Of cookies, only the theme is. */
function passedOn(request: Request, asker: RequestIdentity): Request {
  const headers = new Headers(request.headers);
  for (const name of OWN_HEADERS) headers.delete(name);
  const theme = themeOf(cookieValue(request.headers.get('cookie'), THEME_COOKIE));
  if (theme !== undefined) headers.set('cookie', `${THEME_COOKIE}=${theme}`);
  const who = askerText(asker);
  headers.set(ASKER_HEADER, who);
  if (asker.token !== null) headers.set('authorization', `Bearer ${who}`);
  const { method, body, signal, url } = request;
  return new Request(url, { method, headers, signal, body, ...(body && { duplex: 'half' }) });
}

/** Returns an answer that breaks off when whoever asked for it is not known any more. */
function whileKnown(answer: Response, isKnown: () => boolean): Response {
  const { status, headers, body } = answer;
  if (body === null) return new Response(null, { status, headers });
  const reader = body.getReader();
  const refuse = () => new Error('whoever asked is not known any more');
  let timer: NodeJS.Timeout | undefined;
  const checked = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        timer = setInterval(() => {
          try {
            if (isKnown()) return;
            controller.error(refuse());
          } catch (error) {
            // Where it cannot be read who is known, nobody is.
            controller.error(error);
          }
          clearInterval(timer);
          void reader.cancel().catch(() => undefined);
        }, LOOK_MS).unref();
      },
      async pull(controller) {
        try {
          const next = await reader.read();
          if (!isKnown()) throw refuse();
          if (!next.done) {
            controller.enqueue(new Uint8Array(next.value));
            return;
          }
          controller.close();
        } catch (error) {
          controller.error(error);
          void reader.cancel().catch(() => undefined);
        }
        clearInterval(timer);
      },
      async cancel(reason) {
        clearInterval(timer);
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(checked, { status, headers });
}
