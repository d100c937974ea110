import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A real HTTP server that takes deliveries. */
export interface Receiver {
  readonly url: string;
  readonly got: readonly Received[];
  /** Resolves once so many requests have come in all. */
  count(requests: number): Promise<void>;
  close(): Promise<void>;
}

/** @param answer receives the number of the request, from 1 */
export async function receive(
  answer: (request: number, response: ServerResponse) => void = (_, response) => response.end(),
): Promise<Receiver> {
  const got: Received[] = [];
  let waiting: { requests: number; resolve: () => void }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      got.push({ path: request.url ?? '', headers: request.headers, body });
      answer(got.length, response);
      for (const { requests, resolve } of waiting) if (got.length >= requests) resolve();
      waiting = waiting.filter(({ requests }) => got.length < requests);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}/hook`,
    got,
    count: (requests) =>
      got.length >= requests
        ? Promise.resolve()
        : new Promise((resolve) => waiting.push({ requests, resolve })),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Answers with a status and nothing else. */
export function statuses(...all: readonly number[]): (n: number, response: ServerResponse) => void {
  return (n, response) => {
    response.statusCode = all[n - 1] ?? all.at(-1) ?? 200;
    response.end();
  };
}
