import type { IncomingMessage } from 'node:http';
import { Refusal } from './refusal.ts';

/**
 * Reads a JSON object body. No body at all counts as `{}`, since the interface only says that one may come.
 *
 * @param ceiling bytes accepted at most
 * @throws Refusal 422 for a larger body, or one that is no JSON object
 */
export async function readJsonBody(request: IncomingMessage, ceiling: number): Promise<unknown> {
  const bytes = await readBody(request, ceiling);
  if (bytes.length === 0) return {};
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type)) {
    throw new Refusal(422, 'ERR_CONTENT_TYPE', 'The body must be sent as application/json', {
      contentType: type,
    });
  }
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body is not valid JSON');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body must be a JSON object');
  }
  return body;
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
    else if (length > ceiling * PATIENCE) throw tooLarge(ceiling, { connection: 'close' });
  }
  if (length > ceiling) throw tooLarge(ceiling, {});
  return Buffer.concat(chunks, length);
}

/** How many times the ceiling a body may be before the connection is broken. */
const PATIENCE = 8;

function tooLarge(ceiling: number, headers: Readonly<Record<string, string>>): Refusal {
  const params = { maxBytes: ceiling };
  return new Refusal(422, 'ERR_BODY_TOO_LARGE', 'The body is too large', params, headers);
}
