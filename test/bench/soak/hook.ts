import { createServer } from 'node:http';
import { request } from 'undici';
import { z } from 'zod';
import type { Hello } from './child.ts';
import { placeOf } from './reads.ts';

const delivery = z.object({ data: z.object({ subject: z.string().nullable() }) });

/** Every so manyth delivery is refused, and must come again. */
const REFUSED_EVERY = 25;

/** A receiver of the webhook of the first mailbox. */
export interface Hook {
  /** Subjects that were taken, and how often. */
  readonly taken: ReadonlyMap<string, number>;
  readonly refused: () => number;
  close(): Promise<void>;
}

export async function openHook(hello: Hello): Promise<Hook> {
  const taken = new Map<string, number>();
  let requests = 0;
  let refused = 0;
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      requests += 1;
      if (requests % REFUSED_EVERY === 0) {
        refused += 1;
        response.writeHead(503).end('not now');
        return;
      }
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      const subject = delivery.parse(body).data.subject ?? '';
      taken.set(subject, (taken.get(subject) ?? 0) + 1);
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const { m, headers } = placeOf(hello);
  const url = `http://127.0.0.1:${address.port}/`;
  const { statusCode, body } = await request(`${hello.url}${m}/webhooks`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'soak', url, events: ['message.received'] }),
  });
  await body.dump();
  if (statusCode !== 201) throw new Error(`the webhook was not created: ${statusCode}`);
  return {
    taken,
    refused: () => refused,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
