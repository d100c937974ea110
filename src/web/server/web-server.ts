import { isLoopback, type ListenAddress } from '../../config/address.ts';
import type { ArchivePolicy } from '../../engine/status/archive-policy.ts';
import { webError } from '../../errors/small-families.ts';
import { type ListenerLimits, listenOn } from '../../listener/listener.ts';
import { ApiTokens } from '../../mirror/api-tokens.ts';
import { quotaAsReported } from '../../mirror/known-quota.ts';
import { MirrorSurface } from '../../mirror/mirror-surface.ts';
import type { SearchNode } from '../../search/ast.ts';
import { mailboxKey } from '../../state/scopes.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { ApiToken } from '../../state/values.ts';
import { ownAddresses } from '../access/request-rules.ts';
import { type SessionStore, Sessions } from '../access/sessions.ts';
import { SignInCodes } from '../access/sign-in-codes.ts';
import { McpSurface } from '../mcp/mcp-surface.ts';
import { ServedArchive } from '../reading/served-archive.ts';
import { webApp } from './app.tsx';
import { builtAssets } from './assets.ts';
import { EventStreams } from './event-streams.ts';

export interface WebServerOptions {
  readonly dataDir: string;
  readonly listen: ListenAddress;
  /** The https address at which a reverse proxy serves it; null where browsers come directly. */
  readonly publicUrl: string | null;
  readonly sessions: SessionStore;
  /** What the archive remembers: tokens of the API, quotas. Null where nothing can be read: no token is known then. */
  readonly state: StateFile | null;
  /** Returns the hosts of configured accounts by their names in lower case, for `account:` in a query. */
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  /** Has the daemon of the archive look for new mail; resolves with whether there is one. */
  readonly look: () => Promise<boolean>;
  /** Returns whether a daemon runs for the archive. */
  readonly hasDaemon: () => Promise<boolean>;
  /** Returns what the configuration decides, for the pages that show it; null where there is none for this archive. */
  readonly policy?: () => ArchivePolicy | null;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  /** Hears of a request that could not be answered, and of connections that the system did not give us. */
  readonly onError: (error: unknown) => void;
  readonly limits?: Partial<ListenerLimits>;
}

export interface WebServer {
  readonly address: ListenAddress;
  /** Where a browser finds it, without a path. */
  readonly url: string;
  /** Base of the API over the archive, for clients of the service. */
  readonly apiUrl: string;
  /** Where assistants find the archive, with a token. */
  readonly mcpUrl: string;
  /**
   * Returns the address of a new sign-in link, which works once, within ten minutes.
   *
   * @param mailboxes keys of the mailboxes that the browser may read; null for all
   */
  link(mailboxes: readonly string[] | null): string;
  close(): Promise<void>;
}

/**
 * Without a byte in either direction, in milliseconds: longer than a message may take that its parser gives up on, of
 * which a page with the rest still follows.
 */
const IDLE_MS = 90_000;
/**
 * Of the 256 connections, those without a request: nearly all, because every client has the same address, this machine's
 * or the proxy's. A hundred clients of the API that keep their connections must not lose them between two requests.
 */
const IDLE_CONNECTIONS = 200;

/**
 * Serves the web interface over an archive, which it only reads.
 *
 * @throws web-not-loopback, cannot-listen, and what opening the archive throws
 */
export async function startWebServer(options: WebServerOptions): Promise<WebServer> {
  const { listen, publicUrl, now, onError, limits = {} } = options;
  if (publicUrl === null && !isLoopback(listen.host))
    throw webError('web-not-loopback', { host: listen.host });
  const archive = new ServedArchive(options.dataDir);
  // What cannot be read is found out now, and not by the first visitor.
  archive.hold(null).release();
  const codes = new SignInCodes();
  const sessions = new Sessions(options.sessions);
  const { accounts, look, hasDaemon, policy = () => null } = options;
  const events = new EventStreams({ archive, sessions, now, onError });
  const deciding = { accounts, policy, look, hasDaemon };
  const noted = { events, now, onError };
  const parts = { archive, assets: builtAssets(), codes, sessions, ...deciding, ...noted };
  const tokens = options.state === null ? null : new ApiTokens(options.state);
  const authorize = (secret: string) => tokens?.find(secret, now());
  const mirror = mirrorOf(archive, authorize, options);
  const mcp = mcpOf(archive, authorize, options);
  let answer: ReturnType<typeof webApp> | undefined;
  try {
    const listener = await listenOn({
      section: 'web',
      listen,
      fetch: (request, { outgoing }) =>
        answer?.(request, () => outgoing.destroy()) ?? new Response(null, { status: 503 }),
      onError,
      limits: { idleMs: IDLE_MS, idlePerAddress: IDLE_CONNECTIONS, ...limits },
    });
    const { address } = listener;
    answer = webApp({ ...parts, ...address, mirror, mcp, own: ownAddresses(address, publicUrl) });
    const url = publicUrl === null ? httpUrl(address) : new URL(publicUrl).origin;
    return {
      address,
      url,
      apiUrl: url,
      mcpUrl: `${url}/mcp`,
      link: (mailboxes) => `${url}/enter#${codes.issue(now(), mailboxes)}`,
      async close() {
        events.close();
        await listener.close();
        await mirror.close();
        await mcp.close();
        await archive.close();
      },
    };
  } catch (error) {
    await mirror.close();
    await mcp.close();
    await archive.close();
    throw error;
  }
}

/** The API over the archive: its tokens say themselves which mailboxes they reach. */
function mirrorOf(
  archive: ServedArchive,
  authorize: (secret: string) => ApiToken | undefined,
  { dataDir, state, onError }: WebServerOptions,
): MirrorSurface {
  return new MirrorSurface({
    dataDir,
    hold() {
      const { reader, release } = archive.hold(null);
      const { catalog } = reader;
      return { archive: { catalog, key: catalog, sources: () => reader.sources() }, release };
    },
    authorize,
    keyOf: mailboxKey,
    quotaOf: (mailbox) => quotaAsReported(state?.get('quota', mailboxKey(mailbox))),
    onError,
  });
}

/** The archive for assistants, as a token may read it. */
function mcpOf(
  archive: ServedArchive,
  authorize: (secret: string) => ApiToken | undefined,
  { state, accounts, now, onError }: WebServerOptions,
): McpSurface {
  return new McpSurface({
    authorize,
    use: (mailboxes, signal, act) =>
      archive.use(mailboxes, (reader) =>
        act({
          ...{ reader, accounts, signal, now: now(), spare: archive.spare },
          state: state ?? undefined,
        }),
      ),
    onError,
  });
}

function httpUrl({ host, port }: ListenAddress): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
