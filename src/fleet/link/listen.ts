import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ListenAddress } from '../../core/address.ts';
import { errnoOf } from '../../core/errors.ts';
import { startListening } from '../../core/listener.ts';
import { fleetLinkError } from '../errors.ts';
import { keyOfIdentity, LINK_TLS, type LinkSecrets } from './link-keys.ts';

/** What others may cost a node. Milliseconds. */
export interface LinkLimits {
  /** Until a connection has shown that it has a key of the fleet. */
  readonly handshakeMs: number;
  /** Until the headers of its request have come. */
  readonly headersMs: number;
  /** Connections that have shown no key yet: beyond them, the oldest is closed. */
  readonly strangers: number;
  /** Connections in all. */
  readonly connections: number;
}

const LIMITS: LinkLimits = {
  ...{ handshakeMs: 5_000, headersMs: 10_000 },
  ...{ strangers: 64, connections: 512 },
};
const MOST_HEADER_BYTES = 4_096;

export interface LinkListenerOptions {
  readonly listen: ListenAddress;
  readonly secrets: LinkSecrets;
  /** Answers one request; whoever made it has a key of the fleet. */
  readonly answer: (request: IncomingMessage, response: ServerResponse) => void;
  readonly limits?: Partial<LinkLimits>;
}

export interface LinkListener {
  readonly address: ListenAddress;
  /** Breaks every link. */
  close(): Promise<void>;
}

/**
 * Listens for other nodes: HTTP/1.1 over TLS with a key derived from those of the fleet. Without one, a connection ends in
 * the handshake.
 *
 * @throws fleet-cannot-listen
 */
export async function listenForNodes(options: LinkListenerOptions): Promise<LinkListener> {
  const { listen, secrets, answer } = options;
  const limits = { ...LIMITS, ...options.limits };
  const server = createServer(
    {
      ...LINK_TLS,
      pskCallback: (_, identity) => keyOrNothing(secrets, identity),
      handshakeTimeout: limits.handshakeMs,
      headersTimeout: limits.headersMs,
      // The body is what an asker sends while it reads: that may take as long as an export.
      requestTimeout: 0,
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: 1_000,
      maxHeaderSize: MOST_HEADER_BYTES,
      noDelay: true,
    },
    answer,
  );
  server.maxConnections = limits.connections;
  server.maxRequestsPerSocket = 1;
  const strangers = boundStrangers(server, limits.strangers);
  const address = await startListening(server, listen).catch((error: unknown) => {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw fleetLinkError('fleet-cannot-listen', { ...listen, reason }, error);
  });
  // Such as EMFILE: the next connection is waited for all the same.
  server.on('error', () => undefined);
  return {
    address,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      // Those that have shown no key are not among them.
      for (const socket of strangers.values()) socket.destroy();
      await closed;
    },
  };
}

/** A file of keys that cannot be read now ends a handshake, and nothing else. */
function keyOrNothing(secrets: LinkSecrets, identity: string): Buffer | null {
  try {
    return keyOfIdentity(secrets, identity);
  } catch {
    return null;
  }
}

/** Whoever has no key keeps nobody out who has one: where there are too many, the oldest connection makes room. */
function boundStrangers(server: Server, most: number): ReadonlyMap<string, Socket> {
  const strangers = new Map<string, Socket>();
  const nameOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket);
    strangers.set(name, socket);
    socket.once('close', () => {
      if (strangers.get(name) === socket) strangers.delete(name);
    });
    const [oldest] = strangers.size > most ? strangers : [];
    if (oldest === undefined) return;
    strangers.delete(oldest[0]);
    oldest[1].destroy();
  });
  server.on('secureConnection', (socket: TLSSocket) => strangers.delete(nameOf(socket)));
  // A handshake that failed: its connection is closed already.
  server.on('tlsClientError', () => undefined);
  return strangers;
}
