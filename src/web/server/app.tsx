import { Hono } from 'hono';
import type { Reached } from '../../listener/admission.ts';
import { cookieNames } from '../access/cookies.ts';
import { mayBeAskedWithLimit } from '../access/limited-paths.ts';
import { askerOf, isOwnApiRequest, mayBeOwnForm } from '../access/request-rules.ts';
import { FailurePage, NotFoundPage } from '../pages/plain-pages.tsx';
import {
  type DoorParts,
  page,
  type RequestFacts,
  seeOther,
  type WebApp,
} from './request-context.ts';
import { secured } from './security-headers.ts';
import { publicRoutes, sessionIn, signedInRoutes } from './sign-in-routes.tsx';

const METHODS = new Set(['GET', 'HEAD', 'POST']);

/** Returns the function that answers every request of the web interface; it never throws. */
export function webApp(
  parts: DoorParts,
): (request: Request, reached: Reached, breakOff: () => void) => Promise<Response> {
  const { mirror, mcp } = parts.behind;
  const app = appOf(parts);
  return async (request, reached, breakOff) => {
    const { pathname } = new URL(request.url);
    if (pathname === '/mcp') return secured(await mcp.fetch(request, reached.origin));
    if (isOfMirror(pathname)) return secured(await mirror.fetch(request, reached.origin));
    if (!METHODS.has(request.method)) return secured(plain(405, { allow: 'GET, HEAD, POST' }));
    return secured(await app.fetch(request, { reached, breakOff }));
  };
}

/** Refuses a page of a name that somebody made point here: it learns nothing, not even what this is. */
export function refusedToAll(status: number): Response {
  return secured(plain(status));
}

/** The API of the service has its own rules: tokens, no cookies, and whoever sends no `Origin` may ask. */
export function isOfMirror(pathname: string): boolean {
  return pathname.startsWith('/api/v1/');
}

function plain(status: number, headers: Record<string, string> = {}): Response {
  return new Response('', { status, headers: { 'content-type': 'text/plain', ...headers } });
}

function appOf(parts: DoorParts): WebApp {
  const { port, assets } = parts;
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
    const session = sessionIn(context, parts);
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
  parts.behind.routes(app);
  lastRoutes(app, parts);
  return app;
}

/** What answers a request that no route does, and one whose route failed. */
export function lastRoutes(
  app: WebApp,
  { assets, onError }: Pick<DoorParts, 'assets' | 'onError'>,
): void {
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
}

/** An error of `/api`: the code alone, since the pages have the words. */
export function refused(code: string, status: number): Response {
  return Response.json({ error: { code } }, { status });
}
