import { lstatSync } from 'node:fs';
import path from 'node:path';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { compress } from 'hono/compress';
import { z } from 'zod';
import type { SearchNode } from '../catalog/query-ast.ts';
import { socketError } from '../core/error-tables.ts';
import { isPrivateFolder } from '../core/files.ts';
import { selects } from '../core/names.ts';
import { mailboxKey, parseAccountKey, readState, type StateFile } from '../core/state.ts';
import type { MailboxKey } from '../core/types.ts';
import { allowsLimitedAccess, cookieNames, FormTokens } from './access.ts';
import { archiveRoutes, fallbackRoutes, isMailboxApiPath, refuseLimited } from './app.tsx';
import { builtAssets } from './assets.ts';
import { EventStreams } from './event-streams.ts';
import { listenOnSocket } from './link-channel.ts';
import type { RequestFacts } from './request-context.ts';
import { withSecurityHeaders } from './security-headers.ts';
import { ServedArchive } from './served-archive.ts';
import { assetRoute } from './sign-in-routes.tsx';
import { mcpOf, mirrorOf } from './web-server.ts';

/** Header that says who a request is from. Believed on the Unix socket, which only this user can reach. */
export const CALLER_HEADER = 'mailkeep-caller';
/** Path of the mailboxes that a caller may read, with the keys that a forget needs. */
export const MAILBOXES_PATH = '/api/mailboxes';
/** A caller can name some hundred accounts and mailboxes. */
const MAX_CALLER_BYTES = 48 * 1024;

const callerShape = z.object({
  /** How the browser or program reached the server that let it in. */
  reached: z.object({ host: z.string(), origin: z.string(), secure: z.boolean() }),
  /** Accounts in the configuration of the archive, with the mailboxes that each of them mirrors. */
  accounts: z
    .array(
      z.object({ name: z.string(), include: z.array(z.string()), exclude: z.array(z.string()) }),
    )
    .readonly(),
  /** Keys of the mailboxes of these accounts that may be read; null for all of them. */
  mailboxes: z.array(z.string()).readonly().nullable(),
  /** Identifies the session or token. */
  id: z.string(),
  name: z.string(),
  createdAt: z.number(),
  usedAt: z.number().nullable(),
  expiresAt: z.number().nullable(),
});
export type Caller = z.output<typeof callerShape>;

/** Returns the value of the header, in characters that a header and a bearer token may have. */
export function callerText(caller: Caller): string {
  return Buffer.from(JSON.stringify(caller)).toString('base64url');
}

function callerOf(text: string): Caller {
  return callerShape.parse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
}

interface ReadableMailbox extends MailboxKey {
  readonly address: string;
}

interface RelayedOptions {
  readonly dataDir: string;
  /** Path of the Unix socket, in a folder that only this user can open. */
  readonly socket: string;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves an archive on a Unix socket to callers that another process has let in. Each request names its caller, and sees
 * the mailboxes of the caller's accounts only.
 *
 * @throws daemon-socket-folder, system errors, and errors from opening the archive
 */
export async function serveRelayed({ socket, ...options }: RelayedOptions) {
  const folder = path.dirname(socket);
  if (!isPrivateFolder(lstatSync(folder), null)) {
    throw socketError('daemon-socket-folder', { folder });
  }
  const { fetch, close } = openRelayed(options);
  try {
    const listener = getRequestListener((request, env) => fetch(request, env as HttpBindings), {
      overrideGlobalObjects: false,
    });
    const server = await listenOnSocket(socket, listener, { maxHeaderSize: 2 * MAX_CALLER_BYTES });
    return {
      async close() {
        await close(() => server.close());
      },
    };
  } catch (error) {
    await close(async () => {});
    throw error;
  }
}

function openRelayed({ dataDir, accounts, now, onError }: Omit<RelayedOptions, 'socket'>) {
  const archive = new ServedArchive(dataDir);
  archive.hold(null).release();
  let state = readState(dataDir);
  const mailboxesOf = (caller: Caller): readonly ReadableMailbox[] => {
    state ??= readState(dataDir);
    return readable(state, caller);
  };
  const keysOf = (caller: Caller): readonly string[] => mailboxesOf(caller).map(mailboxKey);
  // The process that relays a request ends its answer when the session ends.
  const sessions = { isOpen: () => true };
  const assets = builtAssets();
  const events = new EventStreams({ archive, sessions, now, onError });
  const app = new Hono<RequestFacts>();
  app.use(async (context, next) => {
    const { reached, session } = context.env;
    if (session === undefined) return context.body(null, 400);
    context.set('reached', reached);
    // Its own cookies are those of the server that let it in.
    context.set('cookies', cookieNames(0, reached.secure));
    context.set('session', session);
    await next();
    return undefined;
  });
  app.use(compress());
  assetRoute(app, assets, () => false);
  app.use(async (context, next) => {
    if (!allowsLimitedAccess(context.req.path)) return refuseLimited(context, assets);
    await next();
    return undefined;
  });
  archiveRoutes(app, {
    ...{ archive, assets, sessions, events, forms: new FormTokens(), accounts, now, onError },
    ...{ look: async () => false, hasDaemon: async () => null, policy: () => null },
  });
  fallbackRoutes(app, { assets, onError });
  const tokenIn = (text: string) => {
    const caller = callerOf(text);
    return { ...caller, mailboxes: keysOf(caller) };
  };
  const surfaces = { state: state ?? null, accounts, now, onError };
  const mirror = mirrorOf(archive, tokenIn, surfaces);
  const mcp = mcpOf(archive, tokenIn, surfaces);
  const answer = async (request: Request, { outgoing }: HttpBindings): Promise<Response> => {
    const text = request.headers.get(CALLER_HEADER);
    if (text === null) return new Response(null, { status: 400 });
    const caller = callerOf(text);
    const { reached } = caller;
    const { pathname } = new URL(request.url);
    if (pathname === MAILBOXES_PATH) return Response.json({ data: mailboxesOf(caller) });
    if (pathname === '/mcp' || isMailboxApiPath(pathname)) {
      const { method, body, signal, url, headers } = request;
      const own = new Headers(headers);
      own.set('authorization', `Bearer ${text}`);
      const init = { method, headers: own, signal, body, ...(body && { duplex: 'half' }) };
      const surface = pathname === '/mcp' ? mcp : mirror;
      return surface.fetch(new Request(url, init), reached.origin);
    }
    const { id: key, createdAt, usedAt, name: agent } = caller;
    const session = { key, createdAt, usedAt: usedAt ?? createdAt, agent };
    return app.fetch(request, {
      reached,
      breakOff: () => outgoing.destroy(),
      session: { ...session, mailboxes: keysOf(caller) },
    });
  };
  return {
    async fetch(request: Request, env: HttpBindings): Promise<Response> {
      try {
        return withSecurityHeaders(await answer(request, env));
      } catch (error) {
        onError(error);
        return new Response(null, { status: 500 });
      }
    },
    /** @param stop stops the server, once endless answers have ended */
    async close(stop: () => Promise<void>) {
      events.close();
      await stop();
      await mirror.close();
      await mcp.close();
      await archive.close();
      state?.close();
    },
  };
}

/**
 * Returns the mailboxes that a caller may read. A mailbox that the service no longer lists for an account
 * stays readable, unless another account lists it now: it may belong to someone else by then.
 */
function readable(
  state: Pick<StateFile, 'entries'> | undefined,
  { accounts, mailboxes }: Pick<Caller, 'accounts' | 'mailboxes'>,
): readonly ReadableMailbox[] {
  const own = new Map<string, ReadableMailbox & { readonly isReached: boolean }>();
  const others = new Set<string>();
  for (const { key, value } of state?.entries('account-mailboxes') ?? []) {
    const { account, host } = parseAccountKey(key);
    const selection = accounts.find(({ name }) => name === account);
    for (const { resourceId: mailbox, address, unreachableSince } of value) {
      const isReached = unreachableSince === null;
      const box = mailboxKey({ host, mailbox });
      if (selection === undefined) {
        if (isReached) others.add(box);
      } else if (selects(selection, address)) {
        const wasReached = own.get(box)?.isReached === true;
        own.set(box, { host, mailbox, address, isReached: isReached || wasReached });
      }
    }
  }
  return [...own].flatMap(([box, { isReached, ...mailbox }]) => {
    const isReadable = (isReached || !others.has(box)) && (mailboxes?.includes(box) ?? true);
    return isReadable ? [mailbox] : [];
  });
}
