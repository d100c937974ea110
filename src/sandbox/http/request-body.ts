import type { IncomingMessage } from 'node:http';
import { bodyTooLarge, parseJsonBody } from '../../mailbox-surface/json-body.ts';

/**
 * Reads a JSON object body. No body at all counts as `{}`, since the interface only says that one may come.
 *
 * @param ceiling bytes accepted at most
 * @throws Refusal 422 for a larger body, or one that is no JSON object
 */
export async function readJsonBody(request: IncomingMessage, ceiling: number): Promise<unknown> {
  const bytes = await readBody(request, ceiling);
  return parseJsonBody(bytes, request.headers['content-type']);
}

async function readBody(request: IncomingMessage, ceiling: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    length += chunk.length;
    if (length <= ceiling) chunks.push(chunk);
    // What is too large is read to its end and thrown away: a client that is answered while it is still
    // sending often sees a broken connection instead of the answer. Within reason.
    else if (length > ceiling * PATIENCE) throw bodyTooLarge(ceiling, { connection: 'close' });
  }
  if (length > ceiling) throw bodyTooLarge(ceiling);
  return Buffer.concat(chunks, length);
}

/** How many times the ceiling a body may be before the connection is broken. */
const PATIENCE = 8;
