import { isLoopback, type ListenAddress } from '../core/address.ts';
import { type ListenerLimits, listenOn } from '../core/listener.ts';
import { type ApiToken, mailboxKey, type StateFile } from '../core/state.ts';
import { FormTokens } from './access.ts';
import { ApiTokens } from './api-tokens.ts';
import { archiveRoutes, refuseUnknownHost, webApp } from './app.tsx';
import { builtAssets } from './assets.ts';
import { webError } from './errors.ts';
import { EventStreams } from './event-streams.ts';
import { McpSurface } from './mcp.ts';
import { MirrorSurface } from './mirror.ts';
import type { ArchiveParts, SignedInPart } from './request-context.ts';
import { ServedArchive } from './served-archive.ts';
import { type BrowserSessions, type SessionStore, Sessions } from './sessions.ts';

interface ListenOptions {
  readonly listen: ListenAddress;
  /** The https address at a reverse proxy; null if browsers connect directly. */
  readonly publicUrl: string | null;
  readonly sessions: SessionStore;
  /** The archive's state, with API tokens and quotas. Without one, no token is valid. */
  readonly state: StateFile | null;
  readonly now: () => number;
  /** Called for requests that failed, and for connections that the system did not accept. */
  readonly onError: (error: unknown) => void;
  readonly limits?: Partial<ListenerLimits>;
}

export interface WebServerOptions
  extends ListenOptions,
    Pick<ArchiveParts, 'accounts' | 'look' | 'hasDaemon'>,
    Partial<Pick<ArchiveParts, 'policy'>> {
  readonly dataDir: string;
}

export type WebServer = Awaited<ReturnType<typeof startWebServer>>;

/** Milliseconds. Longer than the parser can spend on a message, so that its page is still sent. */
const IDLE_MS = 90_000;
/**
 * Out of 256 connections. All clients share one address, this machine's or the proxy's, and a hundred API clients must
 * not lose their connections between two requests.
 */
const IDLE_CONNECTIONS = 200;

/** Opens the archive read-only. @throws web-not-loopback, cannot-listen, and errors from opening the archive */
export async function startWebServer(options: WebServerOptions) {
  requireLoopback(options);
  const archive = new ServedArchive(options.dataDir);
  // Fails now if the archive cannot be read, rather than at the first request.
  archive.hold(null).release();
  const { state, accounts, look, hasDaemon, policy = () => null, now, onError } = options;
  const sessions = new Sessions(options.sessions);
  const events = new EventStreams({ archive, sessions, now, onError });
  const parts = { archive, assets: builtAssets(), sessions, events, accounts, policy };
  const tokens = state === null ? null : new ApiTokens(state);
  const authorize = (secret: string) => tokens?.find(secret, now());
  const mirror = mirrorOf(archive, authorize, options);
  const mcp = mcpOf(archive, authorize, options);
  const server = await openSignedInServer(options, sessions, (forms) => ({
    routes: (app) => archiveRoutes(app, { ...parts, forms, look, hasDaemon, now, onError }),
    ...{ mirror, mcp },
    names: (mailboxes) =>
      archive.use(
        mailboxes,
        ({ catalog }) =>
          new Map(catalog.folders.mailboxes().map((entry) => [mailboxKey(entry), entry.address])),
      ),
    beforeClosing: () => events.close(),
    async close() {
      await mirror.close();
      await mcp.close();
      await archive.close();
    },
  }));
  return {
    ...server,
    /** Returns the address of a new link, usable once, within ten minutes. @param mailboxes keys; null for all */
    link: (mailboxes: readonly string[] | null) =>
      `${server.url}/enter#${sessions.codes.issue(now(), mailboxes)}`,
  };
}

/** @throws web-not-loopback */
export function requireLoopback({
  listen,
  publicUrl,
}: Pick<ListenOptions, 'listen' | 'publicUrl'>): void {
  if (publicUrl === null && !isLoopback(listen.host))
    throw webError('web-not-loopback', { host: listen.host });
}

interface OpenedArchive extends SignedInPart {
  /** Ends streams that would keep connections open. */
  beforeClosing(): void;
  /** Also called if the server cannot listen. */
  close(): Promise<void>;
}

/** @throws cannot-listen */
export async function openSignedInServer(
  options: Omit<ListenOptions, 'sessions' | 'state'>,
  sessions: BrowserSessions,
  open: (forms: FormTokens) => OpenedArchive,
  forms = new FormTokens(),
) {
  const { listen, publicUrl, now, onError, limits = {} } = options;
  const behind = open(forms);
  let answer: ReturnType<typeof webApp> | undefined;
  try {
    const listener = await listenOn({
      section: 'web',
      listen,
      clients: { kind: 'browsers', publicUrl },
      refuse: refuseUnknownHost,
      fetch: (request, { outgoing }, reached) =>
        answer?.(request, reached, () => outgoing.destroy()) ?? new Response(null, { status: 503 }),
      onError,
      limits: { idleMs: IDLE_MS, idlePerAddress: IDLE_CONNECTIONS, ...limits },
    });
    const { address } = listener;
    const known = { sessions, forms, behind, port: address.port };
    answer = webApp({ ...known, assets: builtAssets(), now, onError });
    const url = publicUrl === null ? httpUrl(address) : new URL(publicUrl).origin;
    return {
      address,
      url,
      apiUrl: url,
      mcpUrl: `${url}/mcp`,
      async close() {
        behind.beforeClosing();
        await listener.close();
        await behind.close();
      },
    };
  } catch (error) {
    await behind.close();
    throw error;
  }
}

export function mirrorOf(
  archive: ServedArchive,
  authorize: (secret: string) => ApiToken | undefined,
  { state, onError }: Pick<ListenOptions, 'state' | 'onError'>,
): MirrorSurface {
  return new MirrorSurface({ archive, authorize, state, onError });
}

export function mcpOf(
  archive: ServedArchive,
  authorize: (secret: string) => ApiToken | undefined,
  options: Pick<WebServerOptions, 'state' | 'accounts' | 'now' | 'onError'>,
): McpSurface {
  const { accounts, now, onError } = options;
  const state = options.state ?? undefined;
  const { spare } = archive;
  return new McpSurface({
    authorize,
    use: (mailboxes, signal, act) =>
      archive.use(mailboxes, (reader) =>
        act({ reader, accounts, signal, now: now(), spare, state }),
      ),
    onError,
  });
}

function httpUrl({ host, port }: ListenAddress): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
