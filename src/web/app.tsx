import { Hono } from 'hono';
import { compress } from 'hono/compress';
import { readSavedSearches } from '../catalog/saved-searches.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { RequestOrigin } from '../core/listener.ts';
import {
  allowsLimitedAccess,
  cookieNames,
  isOwnApiRequest,
  mayBeOwnFormPost,
  requestSource,
} from './access.ts';
import { exportRoutes } from './exporting.ts';
import type { ServiceCheckResult } from './health.ts';
import { MailPages } from './mail-pages.ts';
import { mailRoutes } from './mail-routes.tsx';
import { FailurePage } from './pages/plain-pages.tsx';
import {
  type ArchiveParts,
  byLimit,
  formBody,
  ownForm,
  page,
  type RequestContext,
  type RequestFacts,
  type SignInParts,
  seeOther,
  type WebApp,
} from './request-context.ts';
import { forgetSearchFor, type SaveResult, saveSearchFor } from './saving.ts';
import { withSecurityHeaders } from './security-headers.ts';
import { publicRoutes, sessionIn, signedInRoutes } from './sign-in-routes.tsx';

const METHODS = new Set(['GET', 'HEAD', 'POST']);

export function webApp(
  parts: SignInParts,
): (request: Request, reached: RequestOrigin, breakOff: () => void) => Promise<Response> {
  const { mirror, mcp } = parts.behind;
  const app = appOf(parts);
  return async (request, reached, breakOff) => {
    const { pathname } = new URL(request.url);
    if (pathname === '/mcp' || isMailboxApiPath(pathname)) {
      const surface = pathname === '/mcp' ? mcp : mirror;
      return withSecurityHeaders(await surface.fetch(request, reached.origin, breakOff));
    }
    if (!METHODS.has(request.method))
      return withSecurityHeaders(reply(405, { allow: 'GET, HEAD, POST' }));
    return withSecurityHeaders(await app.fetch(request, { reached, breakOff }));
  };
}

/** Refuses a request for an unknown host name (DNS rebinding), without revealing what this server is. */
export function refuseUnknownHost(status: number): Response {
  return withSecurityHeaders(reply(status));
}

/** The Mailbox API authenticates requests by token rather than cookie, and does not require `Origin`. */
export function isMailboxApiPath(pathname: string): boolean {
  return pathname.startsWith('/api/v1/');
}

function isApiPath(path: string): boolean {
  return path === '/api' || path.startsWith('/api/');
}

function reply(status: number, headers: Record<string, string> = {}): Response {
  return new Response('', { status, headers: { 'content-type': 'text/plain', ...headers } });
}

function appOf(parts: SignInParts): WebApp {
  const { port, assets } = parts;
  const app = new Hono<RequestFacts>();
  app.use(async (context, next) => {
    const { reached } = context.env;
    context.set('reached', reached);
    context.set('cookies', cookieNames(port, reached.secure));
    const { raw, path } = context.req;
    const isApi = isApiPath(path);
    if (isApi && !isOwnApiRequest(raw, reached)) return apiRefusal('foreign-request', 403);
    // Other sites must not load anything from here: even a successful load would reveal that the server exists.
    if (!isApi && raw.method !== 'POST' && requestSource(raw) === 'foreign') return reply(403);
    if (!isApi && raw.method === 'POST' && !mayBeOwnFormPost(raw, reached))
      return page(context, <FailurePage assets={assets} kind="foreign-form" />, 403);
    await next();
    return undefined;
  });
  app.use(compress());
  publicRoutes(app, parts);
  // All routes below require a session. Without one, every address returns the same response.
  app.use(async (context, next) => {
    const session = await sessionIn(context, parts);
    const { path } = context.req;
    if (session === undefined)
      return isApiPath(path) ? apiRefusal('signed-out', 401) : seeOther(context, '/enter');
    context.set('session', session);
    if (session.mailboxes !== null && !allowsLimitedAccess(path))
      return refuseLimited(context, assets);
    await next();
    return undefined;
  });
  signedInRoutes(app, parts);
  parts.behind.routes(app);
  fallbackRoutes(app, parts);
  return app;
}

export function refuseLimited(context: RequestContext, assets: SignInParts['assets']): Response {
  return isApiPath(context.req.path)
    ? apiRefusal('limited', 403)
    : page(context, <FailurePage assets={assets} kind="limited" />, 403);
}

export function fallbackRoutes(
  app: WebApp,
  { assets, onError }: Pick<SignInParts, 'assets' | 'onError'>,
): void {
  app.notFound((context) =>
    isApiPath(context.req.path)
      ? apiRefusal('not-found', 404)
      : page(context, <FailurePage assets={assets} kind="not-found" />, 404),
  );
  app.onError((error, context) => {
    onError(error);
    // Such as the registry of a fleet.
    const isAway = error instanceof MailkeepError && error.family === 'origin';
    const [kind, status] = isAway ? (['elsewhere', 503] as const) : (['failed', 500] as const);
    return isApiPath(context.req.path)
      ? apiRefusal(kind, status)
      : page(context, <FailurePage assets={assets} kind={kind} />, status);
  });
}

/** Returns just an error code, because the pages supply the wording. */
export function apiRefusal(code: string, status: number): Response {
  return Response.json({ error: { code } }, { status });
}

/** Adds routes that check for new mail. A check covers all mailboxes, so `access.ts` refuses limited sessions. */
function lookRoutes(app: WebApp, parts: ArchiveParts): void {
  const { assets } = parts;
  app.post('/api/look', async (context) => context.json({ data: { looking: await parts.look() } }));
  app.post('/look', async (context) => {
    if ((await ownForm(parts, context)) === null)
      return page(context, <FailurePage assets={assets} kind="stale-form" />, 403);
    return seeOther(context, `/health?look=${await lookAnswered(parts)}`);
  });
}

async function lookAnswered({ look }: Pick<ArchiveParts, 'look'>): Promise<ServiceCheckResult> {
  try {
    return (await look()) ? 'asked' : 'nobody';
  } catch (error) {
    if (hasCode(error, 'daemon-version')) return 'version';
    throw error;
  }
}

/** Maximum size of a form with a query, in bytes: 4,000 characters of up to nine bytes each. */
const MAX_BYTES = 40_000;

function savedRoutes(app: WebApp, { archive, now }: ArchiveParts): void {
  const { dataDir } = archive;
  app.get('/api/saved', (context) => context.json({ data: readSavedSearches(dataDir) }));
  const change = (path: string, act: (field: (name: string) => string) => SaveResult): void => {
    app.post(path, async (context: RequestContext) => {
      const fields = await formBody(context.req.raw, MAX_BYTES);
      if (fields === null) return apiRefusal('bad-form', 400);
      return context.json({ data: act((name) => fields.get(name) ?? '') });
    });
  };
  change('/api/saved', (field) =>
    saveSearchFor(
      dataDir,
      { name: field('name'), query: field('query'), replace: field('replace') === '1' },
      now(),
    ),
  );
  change('/api/saved/forget', (field) => forgetSearchFor(dataDir, field('name')));
}

export function archiveRoutes(app: WebApp, parts: ArchiveParts): void {
  app.get('/api/events', (context) => {
    // A HEAD request's stream would never be read or closed.
    if (context.req.method === 'HEAD')
      return context.body(null, 200, { 'content-type': 'text/event-stream' });
    return parts.events.open(context.get('session')) ?? apiRefusal('too-many-streams', 503);
  });
  lookRoutes(app, parts);
  const pages = byLimit(() => new MailPages(parts));
  exportRoutes(app, parts);
  mailRoutes(app, parts, pages);
  savedRoutes(app, parts);
}
