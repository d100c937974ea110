import type { IncomingMessage } from 'node:http';
import type { ListenAddress } from '../core/address.ts';
import { Semaphore } from '../core/concurrency.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { type ListenerLimits, type RequestOrigin, readAtMost } from '../core/listener.ts';
import { bytesAtMost } from '../core/streams.ts';
import {
  Refusal as ApiRefusal,
  envelope,
  statusRefusal,
  unauthorized,
} from '../service/surface.ts';
import { cookieValue, FormTokens } from '../web/access.ts';
import { apiRefusal } from '../web/app.tsx';
import { builtAssets } from '../web/assets.ts';
import { toResponse } from '../web/mirror.ts';
import { FailurePage } from '../web/pages/plain-pages.tsx';
import { TEXT_COOKIE, THEME_COOKIE, ZONE_COOKIE } from '../web/pages/theme.ts';
import { page, type RequestContext, wholeNumber } from '../web/request-context.ts';
import { type BrowserSessions, SESSION_MS, type Session } from '../web/sessions.ts';
import { openSignedInServer, requireLoopback } from '../web/web-server.ts';
import { fleetError } from './errors.ts';
import {
  findGrant,
  formKey,
  type Grant,
  type Route,
  redeemLink,
  revokeGrant,
  routesOf,
} from './grants.ts';
import type { FleetKeys } from './keys.ts';
import { certify } from './node-identity.ts';
import type { Registry } from './postgres.ts';
import {
  forwardedHeaders,
  HolderClient,
  listenForNodes,
  MAX_BODY,
  type NodeListenerOptions,
  refusalOf,
} from './relay.ts';

interface GatewayOptions extends Pick<NodeListenerOptions, 'registry' | 'held' | 'onError'> {
  /** UUID of the fleet. */
  readonly fleet: string;
  readonly keys: FleetKeys;
  /** Session of this worker, which other nodes know it by. */
  readonly session: string;
  /** Where other nodes reach this one. */
  readonly listen: ListenAddress;
  /** Where browsers and programs reach this node, as for the web interface of the daemon. Null for nobody. */
  readonly web: {
    readonly listen: ListenAddress;
    readonly publicUrl: string | null;
    readonly limits?: Partial<ListenerLimits>;
  } | null;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  /** How long a holder may be silent, in milliseconds. */
  readonly silentMs?: number;
}

export type Gateway = Awaited<ReturnType<typeof startGateway>>;

/**
 * Serves the accounts of a fleet: to other nodes what this one holds, and to browsers and programs every account, wherever
 * it is.
 *
 * @throws fleet-cannot-listen, cannot-listen, web-not-loopback
 */
export async function startGateway(options: GatewayOptions) {
  const { registry, fleet, keys, session, listen, held, web, onError } = options;
  if (web !== null) requireLoopback(web);
  const certificate = certify(keys, fleet, { kind: 'session', id: session });
  const nodes = await listenForNodes({ certificate, registry, listen, held, onError });
  const client = new HolderClient(certificate, options.silentMs);
  try {
    const front = web === null ? null : await openPublicServer(options, client, web);
    return {
      /** Where other nodes reach this one, with the port. */
      address: nodes.address,
      url: front?.url ?? null,
      /** Ends open answers to those who may not have them any more. Also done every second. */
      check: nodes.check,
      async close(): Promise<void> {
        await front?.close();
        client.close();
        await nodes.close();
      },
    };
  } catch (error) {
    client.close();
    await nodes.close();
    throw error;
  }
}

/** Field that names an account, for tokens that cover several. */
const ACCOUNT_FIELD = 'mailkeep-account';
/** Fields that are for this node alone. */
const OWN_FIELDS = new Set(['host', 'cookie', 'authorization', 'content-length', ACCOUNT_FIELD]);
/** Bodies of requests that are kept at the same time. */
const MAX_BODIES = 32;

function openPublicServer(
  { registry, keys, now, onError }: GatewayOptions,
  client: HolderClient,
  web: NonNullable<GatewayOptions['web']>,
) {
  const relay = new AccountRouter(registry, client);
  const assets = builtAssets();
  const grants = new WeakMap<Session, Grant>();
  const forBrowsers = async (context: RequestContext): Promise<Response> => {
    const grant = grants.get(context.get('session'));
    if (grant === undefined) return context.body(null, 401);
    const isApi = context.req.path.startsWith('/api/');
    try {
      const answer = await relay.answer(context.req.raw, grant, context.env);
      if (answer !== null) return answer;
      return isApi ? apiRefusal('signed-out', 401) : context.redirect('/enter', 303);
    } catch (error) {
      if (context.req.raw.signal.aborted) return context.body(null, 503);
      if (!(error instanceof MailkeepError)) throw error;
      onError(error);
      return isApi
        ? apiRefusal('elsewhere', 503)
        : page(context, FailurePage({ assets, kind: 'elsewhere' }), 503);
    }
  };
  const forTokens = {
    async fetch(request: Request, origin: string, breakOff: () => void): Promise<Response> {
      try {
        const header = request.headers.get('authorization') ?? '';
        const secret = /^Bearer +([^\s]+) *$/i.exec(header)?.[1] ?? '';
        const grant = await findGrant(registry, keys, 'token', secret);
        const host = new URL(origin).host;
        const reached = { host, origin, secure: origin.startsWith('https:') };
        const isSearch = new URL(request.url).pathname === SEARCH_PATH;
        const answer =
          grant === undefined
            ? null
            : isSearch
              ? await relay.search(request, grant, reached)
              : await relay.answer(request, grant, { reached, breakOff });
        if (answer !== null) return answer;
        throw unauthorized('The token is missing, malformed, expired or revoked');
      } catch (error) {
        if (error instanceof ApiRefusal) return toResponse(envelope(error));
        if (!request.signal.aborted) onError(error);
        return toResponse(envelope(statusRefusal(503, undefined, undefined)));
      }
    },
  };
  return openSignedInServer(
    { ...web, now, onError },
    sessionsOf(registry, keys, grants),
    () => ({
      routes: (app) => void app.all('*', forBrowsers),
      ...{ mirror: forTokens, mcp: forTokens },
      names: async (limits) => {
        const [grant = ''] = limits ?? [];
        const routes = await routesOf(registry, grant);
        return new Map([[grant, routes.map(({ name }) => name).join(', ')]]);
      },
      beforeClosing: () => {},
      close: async () => {},
    }),
    new FormTokens(formKey(keys)),
  );
}

/** Sessions in the registry, which every node knows. */
function sessionsOf(
  registry: Registry,
  keys: FleetKeys,
  grants: WeakMap<Session, Grant>,
): BrowserSessions {
  return {
    async enter(code, agent) {
      const redeemed = await redeemLink(registry, keys, code, agent, SESSION_MS);
      return redeemed.outcome === 'committed' ? redeemed.secret : null;
    },
    async find(secret) {
      const grant = await findGrant(registry, keys, 'session', secret);
      if (grant === undefined) return undefined;
      const { id: key, createdAt, usedAt, name: agent } = grant;
      const at = createdAt.getTime();
      // Always limited. The holder knows the mailboxes; here, the limit has the name of the grant.
      const session = {
        key,
        agent,
        mailboxes: [key],
        createdAt: at,
        usedAt: usedAt?.getTime() ?? at,
      };
      grants.set(session, grant);
      return session;
    },
    // A browser sees and ends only its own session.
    list: async () => [],
    async end(key) {
      await revokeGrant(registry, key, 'browser');
    },
  };
}

/** Searches all accounts of a token, in all shards: `?q=…&limit=…`. */
const SEARCH_PATH = '/api/v1/fleet/search';
const DEFAULT_HITS = 50;
const MAX_HITS = 200;
const SHARDS_AT_ONCE = 8;
const MAX_ANSWER = 4 << 20;

interface Hit {
  /** Grows with the date. */
  readonly docid: number;
  readonly line: { readonly id: string };
}

/** How a client reached this node. */
interface Connection {
  readonly reached: RequestOrigin;
  readonly breakOff: () => void;
}

class AccountRouter {
  readonly #bodies = new Semaphore(MAX_BODIES);

  constructor(
    private readonly registry: Registry,
    private readonly client: HolderClient,
  ) {}

  /**
   * Has a request answered by the holder of the account.
   *
   * @returns null if the grant is not valid any more
   * @throws fleet-no-reader, fleet-node-unreachable, fleet-reading-moved, fleet-reading-unready; errors of the registry
   */
  async answer(request: Request, grant: Grant, by: Connection): Promise<Response | null> {
    if (request.body === null) return this.#answer(request, grant, by, Buffer.alloc(0));
    return this.#bodies.run(async () => {
      const body = await readAtMost(request, MAX_BODY);
      if (body === null) return new Response(null, { status: 413 });
      return this.#answer(request, grant, by, body);
    }, request.signal);
  }

  async #answer(
    request: Request,
    grant: Grant,
    { reached, breakOff }: Connection,
    body: Buffer,
  ): Promise<Response | null> {
    const { method, signal } = request;
    const { pathname, search } = new URL(request.url);
    const relayed = { method, target: pathname + search, headers: headersFor(request), body };
    const named = request.headers.get(ACCOUNT_FIELD) ?? undefined;
    for (let tries = 1; ; tries += 1) {
      const routes = await routesOf(this.registry, grant.id, named);
      const [route] = routes;
      if (route === undefined) {
        return named === undefined ? null : new Response(null, { status: 404 });
      }
      if (routes.length > 1) return apiRefusal('account-missing', 400);
      const { account, name } = route;
      const who = { grant: grant.id, account };
      const answer = await this.client.send(route, who, { ...relayed, reached, signal });
      const refused = refusalOf(answer);
      if (refused === undefined) return responseOf(answer, method, breakOff);
      answer.resume();
      if (refused === 'grant') return null;
      // The shard has moved since it was looked up.
      if (refused === 'moved' && tries === 1) continue;
      if (refused === 'moved') throw fleetError('fleet-reading-moved', { account: name });
      throw unready(route, refused);
    }
  }

  /** Searches the accounts of a grant in all shards, and returns the newest messages. */
  async search(request: Request, grant: Grant, reached: RequestOrigin): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const typed = wholeNumber(searchParams.get('limit') ?? undefined) || DEFAULT_HITS;
    const limit = Math.min(typed, MAX_HITS);
    const query = new URLSearchParams({ q: searchParams.get('q') ?? '', limit: String(limit) });
    const { signal } = request;
    const relayed = {
      ...{ method: 'GET', target: `/api/rows?${query}`, headers: {}, body: Buffer.alloc(0) },
      ...{ reached, signal },
    };
    const routes = await routesOf(this.registry, grant.id);
    const shards = [...Map.groupBy(routes, ({ shard }) => shard).values()].flatMap(
      ([first]) => first ?? [],
    );
    const turns = new Semaphore(SHARDS_AT_ONCE);
    let messages: Hit[] = [];
    let problem: unknown = null;
    const missing: string[] = [];
    await Promise.all(
      shards.map((route) =>
        turns.run(async () => {
          const found = await this.#rows(route, grant, relayed).catch((error: unknown) => {
            signal.throwIfAborted();
            if (!(error instanceof MailkeepError) && errnoOf(error) === undefined) throw error;
            missing.push(
              ...routes.filter(({ shard }) => shard === route.shard).map((one) => one.name),
            );
            return { hits: [], problem: null };
          });
          problem ??= found.problem ?? null;
          messages = [...messages, ...(found.hits ?? [])].toSorted(newestFirst).slice(0, limit);
        }, signal),
      ),
    );
    return Response.json({ data: { messages, problem, missing: missing.toSorted() } });
  }

  async #rows(
    route: Route,
    { id: grant }: Grant,
    request: Parameters<HolderClient['send']>[2],
  ): Promise<{ hits?: readonly Hit[]; problem?: unknown }> {
    const answer = await this.client.send(route, { grant, account: null }, request);
    const bytes = await bytesAtMost(answer, MAX_ANSWER);
    const refused = refusalOf(answer);
    if (refused !== undefined || answer.statusCode !== 200 || bytes === null) {
      throw unready(route, refused ?? `HTTP ${answer.statusCode}`);
    }
    return JSON.parse(bytes.toString('utf8')).data;
  }
}

function newestFirst(a: Hit, b: Hit): number {
  return b.docid - a.docid || (a.line.id < b.line.id ? -1 : 1);
}

function unready({ node, name: account }: Route, code: string): Error {
  return fleetError('fleet-reading-unready', { node: node ?? '', account, code });
}

/** Returns the fields of a request that are passed on. Of cookies, only preferences are. */
function headersFor({ headers }: Request): Record<string, string> {
  const passed = [...headers].filter(([name]) => !OWN_FIELDS.has(name));
  const cookies = [THEME_COOKIE, ZONE_COOKIE, TEXT_COOKIE].flatMap((name) => {
    const value = cookieValue(headers.get('cookie'), name);
    return value === undefined ? [] : [`${name}=${value}`];
  });
  return {
    ...Object.fromEntries(passed),
    ...(cookies.length === 0 ? {} : { cookie: cookies.join('; ') }),
  };
}

/** Statuses whose answers have no body (RFC 9110, section 6.4.1). */
const EMPTY = new Set([204, 205, 304]);

function responseOf(answer: IncomingMessage, method: string, breakOff: () => void): Response {
  const status = answer.statusCode ?? 502;
  const headers = new Headers();
  for (const [name, value] of Object.entries(forwardedHeaders(answer.headers)))
    for (const one of [value].flat()) headers.append(name, one);
  // Otherwise, the listener would add a type to an answer without a body, such as a redirection.
  const isEmpty = EMPTY.has(status) || answer.headers['content-type'] === undefined;
  if (method === 'HEAD' || isEmpty) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  return new Response(bodyOf(answer, breakOff), { status, headers });
}

/** Reads an answer as fast as it is sent. One that is cut off breaks the connection, so that it is not taken for whole. */
function bodyOf(answer: IncomingMessage, breakOff: () => void): ReadableStream<Uint8Array> {
  const pieces: AsyncIterator<Uint8Array> = answer.iterator();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await pieces.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch {
          breakOff();
          controller.close();
        }
      },
      cancel: () => void answer.destroy(),
    },
    { highWaterMark: 0 },
  );
}
