import type { Duplex } from 'node:stream';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';

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
