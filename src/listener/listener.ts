import { type IncomingMessage, Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import type { ListenAddress } from '../config/address.ts';
import { listenError } from '../errors/config.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { type Admission, admissionTo, type Clients, type Reached } from './admission.ts';
import { beginListening } from './begin-listening.ts';

export interface ConnectionLimits {
  /** In all, from whatever address. */
  readonly connections: number;
  /** Of one address, connections on which no request is being answered. */
  readonly idlePerAddress: number;
}

/**
 * Bounds the connections of a server without turning away new ones while old ones do nothing. A connection is idle
 * while no complete request header has come on it, or after its last answer. Where there are too many, the oldest idle
 * one is closed: a stranger's half-sent requests push out each other, and never a client that sends a whole request.
 */
export class Connections {
  /** Oldest first. */
  readonly #idle = new Map<Socket, string>();
  readonly #idleOf = new Map<string, number>();
  #open = 0;

  constructor(private readonly limits: ConnectionLimits) {}

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => this.#opened(socket));
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#leave(socket);
      response.once('close', () => {
        if (!socket.destroyed) this.#rest(socket);
      });
    });
  }

  #opened(socket: Socket): void {
    this.#open += 1;
    socket.once('close', () => {
      this.#open -= 1;
      this.#leave(socket);
    });
    if (this.#open > this.limits.connections && !this.#closeOldest(() => true)) {
      // Every connection has a request that is being answered.
      socket.destroy();
      return;
    }
    this.#rest(socket);
  }

  #rest(socket: Socket): void {
    const address = socket.remoteAddress ?? '';
    this.#leave(socket);
    this.#idle.set(socket, address);
    const idle = (this.#idleOf.get(address) ?? 0) + 1;
    this.#idleOf.set(address, idle);
    if (idle > this.limits.idlePerAddress) this.#closeOldest((of) => of === address);
  }

  #leave(socket: Socket): void {
    const address = this.#idle.get(socket);
    if (address === undefined) return;
    this.#idle.delete(socket);
    const idle = (this.#idleOf.get(address) ?? 1) - 1;
    if (idle > 0) this.#idleOf.set(address, idle);
    else this.#idleOf.delete(address);
  }

  #closeOldest(fits: (address: string) => boolean): boolean {
    for (const [socket, address] of this.#idle) {
      if (!fits(address)) continue;
      this.#leave(socket);
      socket.destroy();
      return true;
    }
    return false;
  }
}

/** What a client may cost. Whoever sends or reads slower than this is cut off. */
export interface ListenerLimits extends ConnectionLimits {
  /** Until the last header has come: before that no client has shown a secret. */
  readonly headersMs: number;
  /** Until the last byte of the body has come. */
  readonly requestMs: number;
  /** How often the two above are checked. */
  readonly checkMs: number;
  /** Without a byte in either direction. */
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
const MOST_HEADER_BYTES = 16_384;

export interface ListenerOptions {
  /** Section of the configuration that named the address, for the error. */
  readonly section: string;
  readonly listen: ListenAddress;
  readonly clients: Clients;
  /** Answers a request that was admitted. */
  readonly fetch: (
    request: Request,
    env: HttpBindings,
    reached: Reached,
  ) => Response | Promise<Response>;
  /** Answers a request that was not admitted; by default with the reason in one line. */
  readonly refuse?: (status: 403 | 421) => Response;
  /** Hears of a connection that the system did not give us (`EMFILE`); the next ones are waited for all the same. */
  readonly onError: (error: Error) => void;
  readonly limits?: Partial<ListenerLimits>;
}

export interface Listener {
  /** Where it listens, with the port it got. */
  readonly address: ListenAddress;
  /** Stops listening, lets answers under way go out for a moment, and breaks the rest. */
  close(): Promise<void>;
}

/** Answers under way take milliseconds; what takes longer is a client that does not read. */
const GRACE_MS = 1_000;

/**
 * Serves HTTP/1.1 on an address, with limits that slow or many clients run into. TLS is the reverse proxy's.
 *
 * @throws cannot-listen
 */
export async function listenOn(options: ListenerOptions): Promise<Listener> {
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
      maxHeaderSize: MOST_HEADER_BYTES,
    },
  });
  if (!(server instanceof Server)) throw new TypeError('an HTTP/1.1 server was asked for');
  new Connections(limits).watch(server);
  server.setTimeout(limits.idleMs);
  const address = await beginListening(server, options.listen).catch((error: unknown) => {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw listenError('cannot-listen', { section: options.section, host, port, reason }, error);
  });
  admit = admissionTo(options.clients, address);
  server.on('error', options.onError);
  let closing: Promise<void> | undefined;
  return {
    address,
    close() {
      closing ??= closed(server);
      return closing;
    },
  };
}

function refusal(status: 403 | 421): Response {
  const why = status === 421 ? 'it does not answer to this name' : 'it does not answer pages';
  return new Response(`This server refused the request: ${why}.\n`, {
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

function closed(server: Server): Promise<void> {
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
