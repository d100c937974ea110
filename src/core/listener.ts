import { once } from 'node:events';
import { type IncomingMessage, Server, type ServerResponse } from 'node:http';
import { isIP, type Server as NetServer, type Socket } from 'node:net';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import { isLoopback, type ListenAddress } from './address.ts';
import { listenError } from './error-tables.ts';
import { errnoOf } from './errors.ts';
import { bytesAtMost } from './streams.ts';

/** The clients that can send requests to a listener, and the `Host` names that they can use. */
type Clients =
  /** Browsers, which use this machine's own names or the https address of a reverse proxy. */
  | { readonly kind: 'browsers'; readonly publicUrl: string | null }
  /**
   * Programs such as monitoring tools, which use any IP address or one of these host names, on any port. Null allows
   * every name: a secret protects the listener, and a proxy can forward any name.
   */
  | { readonly kind: 'programs'; readonly names: readonly string[] | null };

/** The address through which a request reached a listener. */
export interface RequestOrigin {
  readonly host: string;
  /** Origin of the pages served at that address. */
  readonly origin: string;
  /** True if the browser used HTTPS, via the proxy. */
  readonly secure: boolean;
}

type Admission = { readonly refused: 403 | 421 } | ({ readonly refused: null } & RequestOrigin);

/**
 * Returns the function that admits requests to a listener. A request with a foreign `Host` name is refused with 421
 * (DNS rebinding). A listener for programs refuses requests from web pages with 403.
 * @param at listening address with the actual port
 */
function admissionTo(clients: Clients, at: ListenAddress): (request: Request) => Admission {
  if (clients.kind === 'browsers') {
    const publicOrigin = clients.publicUrl === null ? null : new URL(clients.publicUrl);
    const hosts = loopbackHosts(at);
    return (request) => {
      const host = hostOf(request);
      if (publicOrigin !== null && host === publicOrigin.host) {
        return { refused: null, host, origin: publicOrigin.origin, secure: true };
      }
      if (!hosts.has(host)) return { refused: 421 };
      return { refused: null, host, origin: `http://${host}`, secure: false };
    };
  }
  const names = clients.names === null ? null : new Set([...clients.names, at.host].map(parseHost));
  return (request) => {
    const host = hostOf(request);
    const name = parseHost(host);
    const isOwn = names === null || names.has(name) || isIP(name) !== 0 || isLoopback(name);
    if (!isOwn) return { refused: 421 };
    if (isForeign(request, null)) return { refused: 403 };
    return { refused: null, host, origin: `http://${host}`, secure: false };
  };
}

/**
 * Reports whether a foreign page sent a request, judging by headers that no page can change. Another port on this
 * machine is foreign. Programs send neither header.
 * @param ownOrigin origin of the pages that can send requests
 */
export function isForeign({ headers }: Request, ownOrigin: string | null): boolean {
  const site = headers.get('sec-fetch-site') ?? 'none';
  if (site !== 'none' && site !== 'same-origin') return true;
  const origin = headers.get('origin');
  return origin !== null && origin !== ownOrigin;
}

/**
 * Returns a request's body. Stops reading and returns null if the body exceeds `most` bytes.
 * @throws connection errors
 */
export async function readAtMost({ headers, body }: Request, most: number): Promise<Buffer | null> {
  return Number(headers.get('content-length') ?? 0) > most ? null : bytesAtMost(body, most);
}

function hostOf({ headers }: Request): string {
  return headers.get('host')?.toLowerCase() ?? '';
}

/** Returns this machine's loopback names, with the port if it is not the default. */
function loopbackHosts({ host, port }: ListenAddress): Set<string> {
  const names = ['127.0.0.1', 'localhost', '[::1]'];
  if (isLoopback(host) && !host.includes(':')) names.push(host.toLowerCase());
  return new Set(names.map((name) => (port === 80 ? name : `${name}:${port}`)));
}

/** Returns a host in lower case, without its port, brackets or trailing dot; empty if invalid. */
function parseHost(host: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:@/[\]]+?)\.?)(?::\d{1,5})?$/.exec(host.toLowerCase());
  return match?.[1] ?? match?.[2] ?? (isIP(host) === 6 ? host.toLowerCase() : '');
}

/**
 * Starts a server and returns its address with the actual port.
 * @throws system errors
 */
export async function startListening(
  server: NetServer,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  return { host, port: typeof address === 'object' && address !== null ? address.port : 0 };
}

interface ConnectionLimits {
  readonly connections: number;
  /** Maximum number of connections per address with no request in progress. */
  readonly idlePerAddress: number;
}

/**
 * Limits a server's connections. A connection is idle before its first complete request header and after its last
 * response. Above a limit, a new connection displaces the oldest idle one. Half-sent requests thus displace each other,
 * but never a client that sends complete requests.
 */
class Connections {
  /** Oldest first. */
  readonly #idle = new Map<Socket, string>();
  #open = 0;

  constructor(private readonly limits: ConnectionLimits) {}

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => this.#opened(socket));
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#idle.delete(socket);
      response.once('close', () => {
        if (!socket.destroyed) this.#markIdle(socket);
      });
    });
  }

  #opened(socket: Socket): void {
    this.#open += 1;
    socket.once('close', () => {
      this.#open -= 1;
      this.#idle.delete(socket);
    });
    const [oldest] = this.#idle.keys();
    if (this.#open > this.limits.connections && !this.#close(oldest)) {
      // Every connection has a request in progress.
      socket.destroy();
      return;
    }
    this.#markIdle(socket);
  }

  #markIdle(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    this.#idle.delete(socket);
    this.#idle.set(socket, address);
    const sameAddress = [...this.#idle].filter(([, other]) => other === address);
    if (sameAddress.length > this.limits.idlePerAddress) this.#close(sameAddress[0]?.[0]);
  }

  #close(idle: Socket | undefined): boolean {
    if (idle === undefined) return false;
    this.#idle.delete(idle);
    idle.destroy();
    return true;
  }
}

/** Limits per client. Clients that exceed them are disconnected. */
export interface ListenerLimits extends ConnectionLimits {
  /** Time allowed for the complete headers. Until they arrive, a client has not presented a secret. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** How often to check `headersMs` and `requestMs`. */
  readonly checkMs: number;
  /** Maximum time without traffic in either direction, in milliseconds. */
  readonly idleMs: number;
}

const LIMITS: ListenerLimits = {
  headersMs: 3_000,
  requestMs: 15_000,
  checkMs: 1_000,
  idleMs: 20_000,
  connections: 256,
  idlePerAddress: 64,
};
const MAX_HEADER_BYTES = 16_384;

interface ListenerOptions {
  /** Configuration section that contains the address, for errors. */
  readonly section: string;
  readonly listen: ListenAddress;
  readonly clients: Clients;
  readonly fetch: (
    request: Request,
    env: HttpBindings,
    origin: RequestOrigin,
  ) => Response | Promise<Response>;
  /** Builds the response to a refused request. By default, a line of text states the reason. */
  readonly refuse?: (status: 403 | 421) => Response;
  /** Called if the system cannot accept a connection (`EMFILE`). The listener continues to run. */
  readonly onError: (error: Error) => void;
  readonly limits?: Partial<ListenerLimits>;
}

/** Responses take milliseconds. One that takes longer is waiting for a client that is not reading. */
const GRACE_MS = 1_000;

/**
 * Serves HTTP/1.1 on an address, and limits slow or numerous clients. TLS is left to the reverse proxy.
 * @throws cannot-listen
 */
export async function listenOn(options: ListenerOptions) {
  const limits = { ...LIMITS, ...options.limits };
  const { refuse = refusal } = options;
  const { host, port } = options.listen;
  let admit: ((request: Request) => Admission) | undefined;
  const server = createAdaptorServer({
    fetch(request, env) {
      if (admit === undefined) return new Response(null, { status: 503 });
      const admission = admit(request);
      if (admission.refused !== null) return refuse(admission.refused);
      return options.fetch(request, httpBindings(env), admission);
    },
    overrideGlobalObjects: false,
    serverOptions: {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: limits.checkMs,
      keepAliveTimeout: 5_000,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
  });
  if (!(server instanceof Server)) throw new TypeError('an HTTP/1.1 server was asked for');
  new Connections(limits).watch(server);
  server.setTimeout(limits.idleMs);
  const address = await startListening(server, options.listen).catch((error: unknown) => {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw listenError('cannot-listen', { section: options.section, host, port, reason }, error);
  });
  admit = admissionTo(options.clients, address);
  server.on('error', options.onError);
  let closing: Promise<void> | undefined;
  return {
    /** Listening address with the actual port. */
    address,
    /** Stops listening, allows responses in progress a short grace period, then aborts the rest. */
    close(): Promise<void> {
      closing ??= closeServer(server);
      return closing;
    },
  };
}

function refusal(status: 403 | 421): Response {
  const reason = status === 421 ? 'it does not answer to this name' : 'it does not answer pages';
  return new Response(`This server refused the request: ${reason}.\n`, {
    status,
    headers: {
      'content-type': 'text/plain',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
  });
}

function httpBindings(env: { incoming: object; outgoing: object }): HttpBindings {
  return env as { incoming: IncomingMessage; outgoing: ServerResponse };
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    const grace = setTimeout(() => server.closeAllConnections(), GRACE_MS);
    server.close((error) => {
      clearTimeout(grace);
      if (error === undefined) resolve();
      else reject(error);
    });
    server.closeIdleConnections();
  });
}
