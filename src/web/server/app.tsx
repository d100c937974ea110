import { Hono } from 'hono';
import { cookieNames, cookieValue } from '../access/cookies.ts';
import { FormTokens } from '../access/form-tokens.ts';
import { mayBeAskedWithLimit } from '../access/limited-paths.ts';
import { askerOf, isOwnApiRequest, mayBeOwnForm, reachedBy } from '../access/request-rules.ts';
import { FailurePage, NotFoundPage } from '../pages/plain-pages.tsx';
import { apiRoutes } from './api-routes.ts';
import { byLimit } from './by-limit.ts';
import { exportRoutes } from './export-routes.ts';
import { lookRoutes } from './look-routes.tsx';
import { MailPages } from './mail-pages.ts';
import { mailRoutes } from './mail-routes.tsx';
import {
  page,
  type RequestFacts,
  seeOther,
  type WebApp,
  type WebParts,
} from './request-context.ts';
import { savedRoutes } from './saved-routes.ts';
import { searchRoutes } from './search-api.ts';
import { secured } from './security-headers.ts';
import { publicRoutes, signedInRoutes } from './sign-in-routes.tsx';

const METHODS = new Set(['GET', 'HEAD', 'POST']);

/** Returns the function that answers every request of the web interface; it never throws. */
export function webApp(
  options: Omit<WebParts, 'forms'>,
): (request: Request, breakOff: () => void) => Promise<Response> {
  const parts: WebParts = { ...options, forms: new FormTokens() };
  const app = appOf(parts);
  return async (request, breakOff) => {
    const reached = reachedBy(request.headers.get('host'), parts.own);
    // A page of a name that somebody made point here learns nothing, not even what this is.
    if (reached === null) return secured(plain(421));
    const { pathname } = new URL(request.url);
    if (pathname === '/mcp') return secured(await parts.mcp.fetch(request, reached.origin));
    if (isOfMirror(pathname)) return secured(await parts.mirror.fetch(request, reached.origin));
    if (!METHODS.has(request.method)) return secured(plain(405, { allow: 'GET, HEAD, POST' }));
    return secured(await app.fetch(request, { reached, breakOff }));
  };
}

/** The API of the service has its own rules: tokens, no cookies, and whoever sends no `Origin` may ask. */
function isOfMirror(pathname: string): boolean {
  return pathname.startsWith('/api/v1/');
}

function plain(status: number, headers: Record<string, string> = {}): Response {
  return new Response('', { status, headers: { 'content-type': 'text/plain', ...headers } });
}

function appOf(parts: WebParts): WebApp {
  const { sessions, now, port, assets, onError } = parts;
  const app = new Hono<RequestFacts>();
  app.use(async (context, next) => {
    const { reached } = context.env;
    context.set('reached', reached);
    context.set('cookies', cookieNames(port, reached.secure));
    const { raw, path } = context.req;
    const isApi = path === '/api' || path.startsWith('/api/');
    if (isApi && !isOwnApiRequest(raw, reached)) return refused('foreign-request', 403);
    // Nothing of ours is loaded by others: not even that it is there is told by whether it loads.
    if (!isApi && raw.method !== 'POST' && askerOf(raw) === 'foreign') return plain(403);
    if (!isApi && raw.method === 'POST' && !mayBeOwnForm(raw, reached))
      return page(context, <FailurePage assets={assets} kind="foreign-form" />, 403);
    await next();
    return undefined;
  });
  publicRoutes(app, parts);
  // Whatever follows is behind the sign-in: without one, every address gives the same answer.
  app.use(async (context, next) => {
    const { session: name } = context.get('cookies');
    const cookie = cookieValue(context.req.header('cookie') ?? null, name);
    // A link on another site brings no cookie; one on another port does, and is treated alike.
    const token = askerOf(context.req.raw) === 'own' ? cookie : undefined;
    const session = token === undefined ? undefined : sessions.find(token, now());
    if (session === undefined) {
      const isApi = context.req.path.startsWith('/api/') || context.req.path === '/api';
      return isApi ? refused('signed-out', 401) : seeOther(context, '/enter');
    }
    context.set('session', session);
    if (session.mailboxes !== null && !mayBeAskedWithLimit(context.req.path))
      return context.req.path.startsWith('/api/')
        ? refused('limited', 403)
        : page(context, <FailurePage assets={assets} kind="limited" />, 403);
    await next();
    return undefined;
  });
  signedInRoutes(app, parts);
  apiRoutes(app, parts);
  lookRoutes(app, parts);
  const pages = byLimit(() => new MailPages(parts));
  searchRoutes(app, parts, pages);
  exportRoutes(app, parts);
  mailRoutes(app, parts, pages);
  savedRoutes(app, parts);
  app.notFound((context) =>
    context.req.path.startsWith('/api/')
      ? refused('not-found', 404)
      : page(context, <NotFoundPage assets={assets} />, 404),
  );
  app.onError((error, context) => {
    onError(error);
    return context.req.path.startsWith('/api/')
      ? refused('failed', 500)
      : page(context, <FailurePage assets={assets} kind="failed" />, 500);
  });
  return app;
}

/** An error of `/api`: the code alone, since the pages have the words. */
function refused(code: string, status: number): Response {
  return Response.json({ error: { code } }, { status });
}
