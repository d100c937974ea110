import { once } from 'node:events';
import {
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { Agent, createServer, request as httpsRequest } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { TLSSocket } from 'node:tls';
import type { ListenAddress } from '../core/address.ts';
import { errnoName, errnoOf } from '../core/errors.ts';
import { type RequestOrigin, startListening } from '../core/listener.ts';
import { bytesAtMost } from '../core/streams.ts';
import { CALLER_HEADER, type Caller, callerText } from '../web/relayed.ts';
import { fleetError } from './errors.ts';
import { areValid, type CoveredAccount, type Reader, type Route, readerOf } from './grants.ts';
import {
  bodyHash,
  IDENTITY_HEADER,
  NODE_TLS,
  type NodeCertificate,
  openIdentity,
  peerOf,
  type RequestIdentity,
  signIdentity,
} from './node-identity.ts';
import type { Registry } from './postgres.ts';

/*
 * How nodes pass on requests: plain HTTP/1.1 over mutual TLS. Answers are streamed both ways and as fast as they are read.
 * Bodies of requests are read completely first, because the identity is bound to their hash, and the largest that any
 * route takes is a search of the Mailbox API.
 */

/** Bytes. */
export const MAX_BODY = 1 << 20;
/** Marks an answer of the holder itself, with one of `REFUSALS`. */
const REFUSED_HEADER = 'mailkeep-refused';

const REFUSALS = {
  /** The identity is not of this request, this connection or this sender, or was used before. */
  identity: 403,
  /** The session or token is not valid any more, or covers nothing here. */
  grant: 403,
  /** The node does not hold the shard in that epoch, or its lease was not renewed. */
  moved: 503,
  /** The web interface of the shard does not answer. */
  unready: 503,
  body: 413,
} as const;
type RelayRefusal = keyof typeof REFUSALS;

/** Header fields of one connection (RFC 9110, section 7.6.1), and those that only nodes set. */
const NOT_FORWARDED = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings', 'expect'],
  ...[IDENTITY_HEADER, CALLER_HEADER, REFUSED_HEADER],
]);

/** Returns the header fields that are meant for the other end. */
export function forwardedHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = (headers.connection ?? '').toLowerCase().split(',');
  const ofConnection = new Set(named.map((name) => name.trim()));
  const passed: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_FORWARDED.has(name) || ofConnection.has(name)) continue;
    passed[name] = value;
  }
  return passed;
}

/** A request as it is passed on. */
interface RelayedRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly reached: RequestOrigin;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

const CONNECT_MS = 5_000;
/** Streams of events send something every 20 seconds, and a client that reads nothing is cut off earlier. */
const SILENT_MS = 120_000;
const MAX_CONNECTIONS = 256;
const MAX_IDLE = 16;

/** Sends requests to the holders of shards. */
export class HolderClient {
  /** Keeps connections by session, which is the server name: another session at the same address has another certificate. */
  readonly #agent: Agent;
  /** Requests sent on each connection. */
  readonly #sent = new WeakMap<TLSSocket, number>();

  /** @param timeout how long a connection may be silent, in milliseconds */
  constructor(
    private readonly certificate: NodeCertificate,
    timeout = SILENT_MS,
  ) {
    this.#agent = new Agent({
      ...tlsOf(certificate),
      checkServerIdentity: (session, { subject }) =>
        subject.CN === `session/${session}` ? undefined : new Error('another session'),
      ...{ keepAlive: true, maxSockets: MAX_CONNECTIONS, maxFreeSockets: MAX_IDLE },
      ...{ timeout, maxCachedSessions: 0 },
    });
  }

  /**
   * Passes on a request, and returns the answer once it starts. Its body fails if it is cut off.
   *
   * @param account null for all accounts of the grant in the shard
   * @throws fleet-no-reader, fleet-node-unreachable, and the signal's reason
   */
  async send(
    route: Route,
    { grant, account }: Pick<RequestIdentity, 'grant' | 'account'>,
    request: RelayedRequest,
  ): Promise<IncomingMessage> {
    const { shard, epoch, session, node, address } = route;
    if (session === null || node === null || address === null) {
      throw fleetError('fleet-no-reader', { account: route.name });
    }
    const unreachable = (reason: string, cause?: unknown) =>
      fleetError('fleet-node-unreachable', { node, address, reason }, cause);
    if (address === '') throw unreachable('no address');
    const { method, target, body, reached, signal } = request;
    const about = { grant, account, shard, epoch, method, target, reached, body: bodyHash(body) };
    const { hostname, port } = new URL(`https://${address}`);
    const options = {
      ...{
        host: hostname.replace(/^\[|\]$/g, ''),
        port: port || 443,
        method,
        path: target,
        signal,
      },
      headers: { ...forwardedHeaders(request.headers), 'content-length': String(body.length) },
      ...{ agent: this.#agent, servername: session },
    };
    for (let tries = 1; ; tries += 1) {
      const outgoing = httpsRequest(options);
      outgoing.on('error', () => undefined);
      outgoing.on('timeout', () => outgoing.destroy(timedOut()));
      // The identity is signed for the connection, so it follows the handshake.
      outgoing.once('socket', (socket) => {
        if (!(socket instanceof TLSSocket)) throw new TypeError('nodes use TLS');
        const send = (): void => {
          const sequence = (this.#sent.get(socket) ?? 0) + 1;
          this.#sent.set(socket, sequence);
          const identity = signIdentity(
            { ...about, sequence },
            this.certificate.privateKey,
            socket,
          );
          outgoing.setHeader(IDENTITY_HEADER, identity);
          outgoing.end(body);
        };
        if (this.#sent.has(socket)) return send();
        const timer = setTimeout(() => outgoing.destroy(timedOut()), CONNECT_MS);
        outgoing.once('close', () => clearTimeout(timer));
        socket.once('secureConnect', () => {
          clearTimeout(timer);
          send();
        });
      });
      try {
        const [response]: IncomingMessage[] = await once(outgoing, 'response');
        if (response !== undefined) return response;
      } catch (error) {
        signal.throwIfAborted();
        // The holder may close an idle connection at any time. All requests only read.
        if (outgoing.reusedSocket && tries === 1) continue;
        throw unreachable(errnoName(error), error);
      }
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

function timedOut(): Error {
  return Object.assign(new Error('the holder does not answer'), { code: 'ETIMEDOUT' });
}

function tlsOf({ ca, cert, key }: NodeCertificate) {
  return { ...NODE_TLS, ca, cert, key };
}

/** Returns why the holder itself refused a request; undefined for an answer of the shard. */
export function refusalOf({ headers }: IncomingMessage): RelayRefusal | undefined {
  const code = headers[REFUSED_HEADER];
  if (code === undefined) return undefined;
  return Object.keys(REFUSALS).find((known): known is RelayRefusal => known === code) ?? 'unready';
}

/** A shard that this node holds, with a lease that is renewed. */
export interface HeldShard {
  readonly epoch: number;
  /** Returns the path of the Unix socket of its web interface, which it starts if needed. */
  socket(): Promise<string>;
  /** Returns the name of an account in the configuration of the shard. */
  nameOf(account: CoveredAccount): string;
}

export interface NodeListenerOptions {
  readonly certificate: NodeCertificate;
  readonly registry: Registry;
  readonly listen: ListenAddress;
  /** Undefined for shards that this node does not hold, or whose lease may have run out. */
  readonly held: (shard: number) => HeldShard | undefined;
  readonly onError: (error: unknown) => void;
}

interface OpenAnswer extends Pick<RequestIdentity, 'grant' | 'shard' | 'epoch'> {
  readonly session: string | null;
  readonly end: () => void;
}

/** How often open answers are checked, in milliseconds. */
const CHECK_MS = 1_000;

/** Answers requests that other nodes pass on. TLS refuses clients without a certificate of the fleet. */
class NodeListener {
  readonly #received = new WeakMap<TLSSocket, number>();
  readonly #open = new Set<OpenAnswer>();
  #checking: Promise<void> | undefined;

  constructor(private readonly options: NodeListenerOptions) {}

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const refused = await this.#relay(request, response, gone.signal);
      if (refused !== undefined) refuse(request, response, refused);
    } catch (error) {
      if (!gone.signal.aborted) this.options.onError(error);
      if (response.headersSent) response.destroy();
      else refuse(request, response, 'unready');
    }
  }

  /** Ends open answers whose session or token is not valid any more, or whose shard this node no longer holds. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #check(): Promise<void> {
    const open = [...this.#open];
    if (open.length === 0) return;
    const valid = await areValid(this.options.registry, open).catch((error: unknown) => {
      // If nobody can say who is known, nobody is.
      this.options.onError(error);
      return [];
    });
    for (const [at, answer] of open.entries()) {
      if (valid[at] !== true || !this.#isHeld(answer)) answer.end();
    }
  }

  #isHeld({ shard, epoch }: Pick<OpenAnswer, 'shard' | 'epoch'>): boolean {
    return this.options.held(shard)?.epoch === epoch;
  }

  async #relay(
    request: IncomingMessage,
    response: ServerResponse,
    gone: AbortSignal,
  ): Promise<RelayRefusal | undefined> {
    const known = this.#identityOf(request);
    if (known === undefined) return 'identity';
    const { identity, session } = known;
    const { shard, epoch, grant, method, target } = identity;
    const tooLarge = Number(request.headers['content-length'] ?? 0) > MAX_BODY;
    const body = tooLarge ? null : await bytesAtMost(request, MAX_BODY);
    if (body === null) return 'body';
    if (bodyHash(body) !== identity.body) return 'identity';
    if (!this.#isHeld(identity)) return 'moved';
    const reader = await readerOf(this.options.registry, identity, session);
    if (reader === undefined) return 'grant';
    if (!reader.isSenderAlive) return 'identity';
    const held = this.options.held(shard);
    if (held?.epoch !== epoch) return 'moved';
    const caller = callerOf(reader, identity.reached, held);
    const answer: OpenAnswer = { grant, session, shard, epoch, end: () => response.destroy() };
    this.#open.add(answer);
    try {
      const upstream = httpRequest({
        ...{ socketPath: await held.socket(), method, path: target, agent: false, signal: gone },
        headers: {
          ...forwardedHeaders(request.headers),
          ...{ host: identity.reached.host, 'content-length': String(body.length) },
          [CALLER_HEADER]: callerText(caller),
        },
      });
      upstream.on('error', () => undefined);
      upstream.end(body);
      const [found]: IncomingMessage[] = await once(upstream, 'response');
      if (found === undefined) return 'unready';
      if (!this.#isHeld(identity)) {
        found.destroy();
        return 'moved';
      }
      response.writeHead(found.statusCode ?? 502, forwardedHeaders(found.headers));
      // Streams of events send nothing for long.
      response.flushHeaders();
      await pipeline(found, response);
      return undefined;
    } finally {
      this.#open.delete(answer);
    }
  }

  #identityOf(
    request: IncomingMessage,
  ): { readonly identity: RequestIdentity; readonly session: string | null } | undefined {
    const { socket, headers, method, url } = request;
    if (!(socket instanceof TLSSocket)) return undefined;
    const peer = peerOf(socket);
    const text = headers[IDENTITY_HEADER];
    if (peer === undefined || typeof text !== 'string') return undefined;
    const identity = openIdentity(text, peer.publicKey, socket);
    const isOwn = identity?.method === method && identity?.target === url;
    if (identity === undefined || !isOwn) return undefined;
    if (identity.sequence <= (this.#received.get(socket) ?? 0)) return undefined;
    this.#received.set(socket, identity.sequence);
    const { kind, id } = peer.subject;
    if (kind === 'grant' && id !== identity.grant) return undefined;
    return { identity, session: kind === 'session' ? id : null };
  }
}

function callerOf({ grant, accounts }: Reader, reached: RequestOrigin, held: HeldShard): Caller {
  const { id, name, mailboxes, createdAt, usedAt, expiresAt } = grant;
  return {
    ...{ id, name, reached, mailboxes, createdAt: createdAt.getTime() },
    accounts: accounts.map((one) => ({ name: held.nameOf(one), ...one.mailboxes })),
    usedAt: usedAt?.getTime() ?? null,
    expiresAt: expiresAt?.getTime() ?? null,
  };
}

function refuse(request: IncomingMessage, response: ServerResponse, code: RelayRefusal): void {
  // What was not read of the body would be taken for the next request.
  const closing = request.complete ? {} : { connection: 'close' };
  response.writeHead(REFUSALS[code], { [REFUSED_HEADER]: code, 'content-length': 0, ...closing });
  response.end();
}

/**
 * Listens for other nodes.
 *
 * @throws fleet-cannot-listen
 */
export async function listenForNodes(options: NodeListenerOptions) {
  const { certificate, listen, onError } = options;
  const listener = new NodeListener(options);
  const server = createServer(
    {
      ...{ ...tlsOf(certificate), requestCert: true, rejectUnauthorized: true },
      ...{ handshakeTimeout: 10_000, headersTimeout: 10_000, requestTimeout: 30_000 },
      // The identity repeats the target, which browsers may make 16 KiB long.
      ...{ keepAliveTimeout: 60_000, maxHeaderSize: 65_536 },
    },
    (request, response) => void listener.answer(request, response),
  );
  server.maxConnections = 4 * MAX_CONNECTIONS;
  server.setTimeout(SILENT_MS);
  const address = await startListening(server, listen).catch((error: unknown) => {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetError('fleet-cannot-listen', { ...listen, reason }, error);
  });
  server.on('error', onError);
  const timer = setInterval(() => void listener.check(), CHECK_MS).unref();
  return {
    address,
    check: () => listener.check(),
    async close(): Promise<void> {
      clearInterval(timer);
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
