import { Hono } from 'hono';
import type { SegmentStore } from '../../archive/segment-files.ts';
import type { SearchNode } from '../../catalog/query-ast.ts';
import { mailboxKey, readState } from '../../core/state.ts';
import { cookieNames, FormTokens } from '../access.ts';
import { archiveRoutes, fallbackRoutes, isMailboxApiPath } from '../app.tsx';
import { builtAssets } from '../assets.ts';
import { EventStreams } from '../event-streams.ts';
import type { ArchiveParts, RequestFacts, WebApp } from '../request-context.ts';
import type { SaveResult } from '../saving.ts';
import { ServedArchive, type ServedReader } from '../served-archive.ts';
import { assetRoute } from '../sign-in-routes.tsx';
import { mcpOf, mirrorOf } from '../web-server.ts';
import { ASKER_HEADER, askerOfText, MAILBOXES_PATH, type ServedMailboxes } from './asker.ts';

export interface BackOptions {
  readonly dataDir: string;
  /** What brings segments that are not in the folder. */
  readonly segments: SegmentStore;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** The archive for requests that another server let in. */
export interface Back {
  /** @param breakOff breaks the connection of the request */
  fetch(request: Request, breakOff: () => void): Promise<Response>;
  close(): Promise<void>;
}

/**
 * Opens an archive for requests of browsers and programs that another server knows: each one says who asks (`askerOfText`).
 * Nothing here knows a cookie or a secret.
 *
 * @throws what opening the archive throws
 */
export function openBack({ dataDir, segments, accounts, now, onError }: BackOptions): Back {
  const archive = new ServedArchive(dataDir, segments);
  archive.hold(null).release();
  const state = readState(dataDir) ?? null;
  // Whoever lets in browsers ends what it sends them.
  const sessions = { isOpen: () => true };
  const assets = builtAssets();
  const events = new EventStreams({ archive, sessions, now, onError });
  const app = appOf({
    ...{ archive, assets, sessions, events, forms: new FormTokens(), accounts, now, onError },
    // The worker that holds the archive looks by itself, and nobody here could ask it to.
    ...{ look: async () => false, hasDaemon: async () => null, policy: () => null },
  });
  const tokenIn = (text: string) => askerOfText(text).token ?? undefined;
  const surfaces = { state, accounts, now, onError };
  const mirror = mirrorOf(archive, tokenIn, surfaces);
  const mcp = mcpOf(archive, tokenIn, surfaces);
  const answer: Back['fetch'] = async (request, breakOff) => {
    const { pathname } = new URL(request.url);
    // Whatever a browser or a program asks for comes with who it is.
    if (pathname === MAILBOXES_PATH && !request.headers.has(ASKER_HEADER))
      return Response.json(await archive.use(null, mailboxesOf));
    const asker = askerOfText(request.headers.get(ASKER_HEADER) ?? '');
    const { origin } = asker.reached;
    if (pathname === '/mcp') return mcp.fetch(request, origin);
    if (isMailboxApiPath(pathname)) return mirror.fetch(request, origin);
    const { reached, session } = asker;
    return session === null
      ? new Response(null, { status: 400 })
      : app.fetch(request, { reached, breakOff, session });
  };
  return {
    async fetch(request, breakOff) {
      try {
        return await answer(request, breakOff);
      } catch (error) {
        onError(error);
        return new Response(null, { status: 500 });
      }
    },
    async close() {
      events.close();
      await mirror.close();
      await mcp.close();
      await archive.close();
      state?.close();
    },
  };
}

function appOf(parts: ArchiveParts): WebApp {
  const app = new Hono<RequestFacts>();
  app.use(async (context, next) => {
    const { reached, session } = context.env;
    if (session === undefined) throw new Error('nobody is signed in');
    context.set('reached', reached);
    // Its cookies are those of another server, and are set there.
    context.set('cookies', cookieNames(0, reached.secure));
    context.set('session', session);
    await next();
  });
  // A node that runs another version may ask for files of its pages.
  assetRoute(app, parts.assets, () => false);
  for (const path of ['/api/saved', '/api/saved/forget'])
    app.post(path, (context) => context.json({ data: NOT_SAVED }));
  archiveRoutes(app, parts);
  fallbackRoutes(app, parts);
  return app;
}

/** The state of an archive in a fleet belongs to one copy of it: what is saved there is gone with the node. */
const NOT_SAVED: SaveResult = {
  saved: [],
  problem: {
    message: 'Searches of an account in a fleet cannot be saved.',
    hint: 'A bookmark of this page has the query.',
    taken: null,
  },
};

function mailboxesOf({ catalog }: ServedReader): ServedMailboxes {
  return catalog.folders
    .mailboxes()
    .map((known) => ({ key: mailboxKey(known), address: known.address, mailbox: known.mailbox }));
}
