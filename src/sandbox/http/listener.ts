import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { serviceError } from '../../errors/small-families.ts';
import { Refusal } from '../../mailbox-surface/refusal.ts';
import type { Reply } from '../../mailbox-surface/reply.ts';

/**
 * Answers bytes that are no HTTP request, or one with too long a header, which never reach a surface: errors
 * have an envelope here as well. The path is what its first line shows, empty where it shows none.
 */
export function refuseUnreadable(
  error: Error,
  socket: Duplex,
  envelopeAt: (path: string, refusal: Refusal) => Reply,
): void {
  const code = 'code' in error ? error.code : '';
  // Gone, or in the middle of an answer already.
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const reply = envelopeAt(pathOf(error), refusalOf(code));
  if (reply.kind !== 'text') throw new TypeError('an envelope is text');
  const headers = {
    ...reply.headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(reply.text)),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${reply.status} Refused\r\n${lines.join('')}\r\n${reply.text}`);
}

function refusalOf(code: unknown): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal(431, 'ERR_HEADER_TOO_LARGE', 'The header is too long');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal(408, 'ERR_REQUEST_TIMEOUT', 'The request took too long to arrive');
    default:
      return new Refusal(
        400,
        'ERR_BAD_REQUEST',
        'This is no HTTP request, or its method is unknown',
      );
  }
}

function pathOf(error: Error): string {
  if (!('rawPacket' in error) || !Buffer.isBuffer(error.rawPacket)) return '';
  return /^\S+ (\S+)/.exec(error.rawPacket.toString('latin1', 0, 1024))?.[1] ?? '';
}

/** A part of the service that answers the paths below a prefix. */
export interface Surface {
  readonly prefix: string;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** How it answers a request that could not be read, which came from this address. */
  refusal(refusal: Refusal, address: string): Reply;
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
    refuseUnreadable(error, socket, (path, refusal) => surfaceOf(path).refusal(refusal, address));
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
