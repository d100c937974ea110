import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request as it came in. */
export interface Seen {
  readonly method: string;
  /** Path and query as sent. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export type Answer = (request: Seen, response: ServerResponse) => void | Promise<void>;

/** A real HTTP server on this machine that behaves as each test defines; it stops with the test. */
export interface LocalOrigin {
  readonly url: string;
  readonly seen: Seen[];
}

/**
 * Starts a server. With a list, each request gets the next answer, and the last one again and again after that.
 */
export async function startOrigin(answers: Answer | readonly Answer[]): Promise<LocalOrigin> {
  const list = typeof answers === 'function' ? [answers] : answers;
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const answer = list[Math.min(seen.length, list.length - 1)];
      const now: Seen = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      };
      seen.push(now);
      void answer?.(now, response);
    });
    // A client that gives up in the middle is part of the tests.
    request.on('error', () => {});
  });
  const url = await listen(server);
  return { url, seen };
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}`;
}

/** Answers with JSON. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}

/** Answers with a body as it stands; its length is announced unless `content-length` is given as empty. */
export function raw(
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-length': String(Buffer.byteLength(body)), ...headers });
    response.end(body);
  };
}

/** The error envelope of the mailbox surface. */
export function envelope(
  status: number,
  code: string,
  headers: Record<string, string> = {},
): Answer {
  return json(status, { error: `says ${code}`, code, params: {} }, headers);
}

export const QUOTA = { data: { quotas: [], totalUsage: 1, totalLimit: 2, supported: true } };
