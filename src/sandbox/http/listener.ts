import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { serviceError } from '../../errors/daemon.ts';
import type { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { refuseUnreadable } from './unreadable-request.ts';

/** A part of the service that answers the paths below a prefix. */
export interface Surface {
  readonly prefix: string;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** How it answers a request that could not be read, which came from this address. */
  envelope(refusal: Refusal, address: string): Reply;
}

export interface Listener {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  /** Stops listening and breaks what is still open. */
  close(): Promise<void>;
}

/**
 * Listens on the loopback address.
 *
 * @param port 0 for any free one
 * @param surfaces tried in order; the last one with an empty prefix answers everything else
 * @throws MailkeepError `sandbox-cannot-listen`
 */
export async function listen(port: number, surfaces: readonly Surface[]): Promise<Listener> {
  const surfaceOf = (url: string): Surface => {
    const surface = surfaces.find(({ prefix }) => url.startsWith(prefix));
    if (surface === undefined) throw new TypeError('the last surface answers everything');
    return surface;
  };
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    surfaceOf(request.url ?? '/').handle(request, response);
  };
  // Without a Host header or with an unknown expectation Node.js would answer by itself, in no envelope.
  const server = createServer({ keepAliveTimeout: 60_000, requireHostHeader: false }, answer);
  server.on('checkExpectation', answer);
  server.on('clientError', (error, socket) => {
    const address = socket instanceof Socket ? (socket.remoteAddress ?? '') : '';
    refuseUnreadable(error, socket, (path, refusal) => surfaceOf(path).envelope(refusal, address));
  });
  const host = '127.0.0.1';
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, resolve);
    });
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw serviceError('sandbox-cannot-listen', { host, port, reason }, error);
  }
  return {
    url: `http://${host}:${portOf(server.address())}`,
    close: () => closeServer(server),
  };
}

function portOf(address: AddressInfo | string | null): number {
  return typeof address === 'object' && address !== null ? address.port : 0;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.close((error) => (error === undefined ? resolve() : reject(error)));
    server.closeAllConnections();
  });
}
