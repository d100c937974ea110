import { once } from 'node:events';
import { type IncomingMessage, Server, type ServerResponse } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2';
import { isIP, type Server as NetServer, type Socket } from 'node:net';
import { Duplex, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createAdaptorServer, getRequestListener, type HttpBindings } from '@hono/node-server';
import { isLoopback, type ListenAddress } from './address.ts';
import { listenError } from './error-tables.ts';
import { errnoOf } from './errors.ts';

/** Who may ask a listener, and under which names. */
type Clients =
  /** Browsers show its pages: at this machine's own names, or at the https address of a reverse proxy. */
  | { readonly kind: 'browsers'; readonly publicUrl: string | null }
  /**
   * Programs only, such as monitoring: at any IP address and at these host names, whatever the port. Null allows every
   * name: a secret decides instead, and a proxy may pass on any name.
   */
  | { readonly kind: 'programs'; readonly names: readonly string[] | null };

/** How a request reached a listener. */
export interface Reached {
  readonly host: string;
  /** Origin of the pages that are served there. */
  readonly origin: string;
  /** Whether the browser used HTTPS, through the proxy. */
  readonly secure: boolean;
}

/** The status that refuses a request before anything of it is read. */
type Admission = { readonly refused: 403 | 421 } | ({ readonly refused: null } & Reached);

/**
 * Returns the function that admits requests to a listener. A request is refused with 421 if its `Host` is a name that
 * somebody else made point here (DNS rebinding). If the listener is for programs, a request from a page is refused with
 * 403.
 *
 * @param at where it listens, with the port it got
 */
function admissionTo(clients: Clients, at: ListenAddress): (request: Request) => Admission {
  if (clients.kind === 'browsers') {
    const own = clients.publicUrl === null ? null : new URL(clients.publicUrl);
    const hosts = ownHosts(at);
    return (request) => {
      const host = hostOf(request);
      if (own !== null && host === own.host) {
        return { refused: null, host, origin: own.origin, secure: true };
      }
      if (!hosts.has(host)) return { refused: 421 };
      return { refused: null, host, origin: `http://${host}`, secure: false };
    };
  }
  const names = clients.names === null ? null : new Set([...clients.names, at.host].map(nameOf));
  return (request) => {
    const host = hostOf(request);
    const name = nameOf(host);
    const isOwn = names === null || names.has(name) || isAddress(name) || isLoopback(name);
    if (!isOwn) return { refused: 421 };
    if (isForeign(request, null)) return { refused: 403 };
    return { refused: null, host, origin: `http://${host}`, secure: false };
  };
}

/**
 * Returns whether a page elsewhere had a browser send a request: by its headers, which no page can change. Another port
 * of this machine is elsewhere. Programs send neither header.
 *
 * @param ownOrigin of the pages that may ask; null for none
 */
export function isForeign({ headers }: Request, ownOrigin: string | null): boolean {
  const site = headers.get('sec-fetch-site') ?? 'none';
  if (site !== 'none' && site !== 'same-origin') return true;
  const from = headers.get('origin');
  return from !== null && from !== ownOrigin;
}

function hostOf({ headers }: Request): string {
  return headers.get('host')?.toLowerCase() ?? '';
}

/** The names of this machine for itself, with the port unless it is the scheme's own. */
function ownHosts({ host, port }: ListenAddress): Set<string> {
  const names = ['127.0.0.1', 'localhost', '[::1]'];
  if (isLoopback(host) && !host.includes(':')) names.push(host.toLowerCase());
  return new Set(names.map((name) => (port === 80 ? name : `${name}:${port}`)));
}

/** A host in lower case, without port, brackets and the dot of a complete name; empty if it is none. */
function nameOf(host: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:@/[\]]+?)\.?)(?::\d{1,5})?$/.exec(host.toLowerCase());
  return match?.[1] ?? match?.[2] ?? (isIP(host) === 6 ? host.toLowerCase() : '');
}

function isAddress(name: string): boolean {
  return isIP(name) !== 0;
}

/** Lets a server listen, and returns where, with the port it got. @throws the system's error */
export async function beginListening(
  server: NetServer,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  return { host, port: typeof address === 'object' && address !== null ? address.port : 0 };
}

interface ConnectionLimits {
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
class Connections {
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

interface ListenerOptions {
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

interface Listener {
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

/** Bytes of an answer that wait to be taken. */
const MOST_WAITING = 64 * 1024;
/** What waits in all answers of a stream, beyond which Node.js refuses requests: 10 by default. */
const MOST_MEGABYTES = 64;
/** Statuses of answers that have no body (RFC 9110, section 6.4.1). */
const EMPTY = new Set([204, 304]);

/** A request was not answered: the other side reset it, or the stream has ended. */
export class AnswerCut extends Error {
  override readonly name = 'AnswerCut';

  constructor(code: number | undefined, cause?: unknown) {
    super(`no answer (HTTP/2 error code ${code ?? 'unknown'})`, { cause });
  }
}

/** HTTP requests that are asked over one stream of bytes. */
export interface RequestsOver {
  /** Requests that are being answered. */
  readonly open: number;
  /** True once the stream has ended: nothing more can be asked. */
  readonly hasEnded: boolean;
  /** @throws where the stream ends before an answer has begun; the reason of the request's signal */
  fetch(request: Request): Promise<Response>;
  /** Ends the stream, and what is being answered. */
  close(): void;
}

/**
 * Asks HTTP requests over a stream, many at a time, each with its own flow control (HTTP/2, RFC 9113).
 *
 * @param onIdle called when the last answer has ended
 */
export function requestsOver(stream: Duplex, onIdle: () => void): RequestsOver {
  const session = connect('http://archive', {
    createConnection: () => stream,
    maxSessionMemory: MOST_MEGABYTES,
  });
  // Every request hears of it by itself.
  session.on('error', () => undefined);
  let open = 0;
  return {
    get open() {
      return open;
    },
    get hasEnded() {
      return session.closed || session.destroyed;
    },
    async fetch(request) {
      const asked = begun(session, request);
      open += 1;
      asked.once('close', () => {
        open -= 1;
        if (open === 0) onIdle();
      });
      return answerOf(session, asked, request);
    },
    close: () => session.destroy(),
  };
}

function begun(session: ClientHttp2Session, request: Request): ClientHttp2Stream {
  const { pathname, search } = new URL(request.url);
  const { method, signal, body } = request;
  if (session.destroyed || session.closed) throw new AnswerCut(undefined);
  const asked = session.request(
    { ...Object.fromEntries(request.headers), ':method': method, ':path': pathname + search },
    { endStream: body === null, signal },
  );
  // Whoever sends it may leave; the answer then does not come.
  if (body !== null) pipeline(body, asked).catch(() => asked.destroy());
  return asked;
}

/** @throws AnswerCut where it ends before it began; the reason of the signal */
async function answerOf(
  session: ClientHttp2Session,
  asked: ClientHttp2Stream,
  { signal, method }: Request,
): Promise<Response> {
  // From here on, and not once the headers are there: Node.js may have closed a short answer by then.
  const body = bodyOf(session, asked);
  const headers = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
    asked.once('response', resolve);
    asked.once('error', (error) => reject(new AnswerCut(asked.rstCode, error)));
    asked.once('close', () => reject(new AnswerCut(asked.rstCode)));
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
  const { ':status': status, ...rest } = headers;
  const known = new Headers();
  for (const [name, value] of Object.entries(rest))
    for (const one of [value ?? []].flat()) known.append(name, one);
  const isEmpty = method === 'HEAD' || EMPTY.has(Number(status));
  return new Response(isEmpty ? null : body, { status: Number(status), headers: known });
}

/** What comes on a stream, which is read no faster than it is taken. Cut off, it ends with AnswerCut. */
function bodyOf(
  session: ClientHttp2Session,
  asked: ClientHttp2Stream,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isOver = false;
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        asked.on('data', (bytes: Buffer<ArrayBuffer>) => {
          if (isOver) return;
          controller.enqueue(bytes);
          if ((controller.desiredSize ?? 0) <= 0) asked.pause();
        });
        let hasEnd = false;
        asked.once('end', () => {
          hasEnd = true;
        });
        asked.on('error', () => undefined);
        asked.once('close', () => {
          if (isOver) return;
          isOver = true;
          // Node.js ends what is cut off as well: only its code says so, or that the session was destroyed.
          const isWhole = hasEnd && asked.rstCode === constants.NGHTTP2_NO_ERROR;
          if (isWhole && !session.destroyed) controller.close();
          else controller.error(new AnswerCut(asked.rstCode));
        });
      },
      pull: () => void asked.resume(),
      cancel() {
        isOver = true;
        asked.close(constants.NGHTTP2_CANCEL);
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: MOST_WAITING }),
  );
}

/**
 * Joins what is read and what is written to one stream. Destroying it ends neither: they are the process's own.
 *
 * @param write resolves when more is taken
 */
export function joined(input: Readable, write: (bytes: Uint8Array) => Promise<void>): Duplex {
  const stream = new Duplex({
    read: () => void input.resume(),
    write: (bytes: Uint8Array, _encoding, done) => {
      write(bytes).then(() => done(), done);
    },
  });
  input.on('data', (bytes: Buffer) => {
    if (!stream.destroyed && !stream.push(bytes)) input.pause();
  });
  input.once('end', () => stream.push(null));
  input.once('error', (error) => stream.destroy(error));
  input.once('close', () => {
    if (!input.readableEnded) stream.destroy();
  });
  return stream;
}

/**
 * Answers the requests that come over a stream.
 *
 * @param fetch must not reject; `breakOff` breaks off the answer of one request
 * @returns resolves when the stream has ended
 */
export async function answerOver(
  stream: Duplex,
  fetch: (request: Request, breakOff: () => void) => Promise<Response>,
): Promise<void> {
  const server = createServer(
    { maxSessionMemory: MOST_MEGABYTES },
    getRequestListener(
      (request, env) =>
        fetch(request, () => breakOff((env as { outgoing: Http2ServerResponse }).outgoing)),
      // A body that nobody reads is reset with its stream.
      { overrideGlobalObjects: false, autoCleanupIncoming: false },
    ),
  );
  const ended = once(stream, 'close');
  server.emit('connection', stream);
  await ended;
}

function breakOff({ stream }: Http2ServerResponse): void {
  stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}
