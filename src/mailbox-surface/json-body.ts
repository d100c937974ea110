import { Refusal } from './refusal.ts';

/**
 * Reads a JSON object body. No body at all counts as `{}`, since the interface only says that one may come.
 *
 * @throws Refusal 422 for what is no JSON object
 */
export function parseJsonBody(bytes: Uint8Array, contentType: string | undefined): unknown {
  if (bytes.length === 0) return {};
  if (
    contentType !== undefined &&
    !/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)
  ) {
    throw new Refusal(422, 'ERR_CONTENT_TYPE', 'The body must be sent as application/json', {
      contentType,
    });
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body is not valid JSON');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Refusal(422, 'ERR_INVALID_JSON', 'The body must be a JSON object');
  }
  return body;
}

/** The refusal of a body of more than `ceiling` bytes. */
export function bodyTooLarge(
  ceiling: number,
  headers: Readonly<Record<string, string>> = {},
): Refusal {
  const params = { maxBytes: ceiling };
  return new Refusal(422, 'ERR_BODY_TOO_LARGE', 'The body is too large', params, headers);
}
