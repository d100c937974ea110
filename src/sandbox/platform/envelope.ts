import { Refusal } from '../http/refusal.ts';
import type { Reply } from '../http/reply.ts';

/**
 * What could not be processed as sent is 400 on this surface: bodies that are too large or no JSON object, and bytes
 * that are no HTTP request.
 */
const BAD_REQUEST_CODES: ReadonlySet<string> = new Set([
  'ERR_INVALID_JSON',
  'ERR_CONTENT_TYPE',
  'ERR_BODY_TOO_LARGE',
  'ERR_BAD_REQUEST',
  'ERR_REQUEST_TIMEOUT',
  'ERR_HEADER_TOO_LARGE',
]);

/**
 * An error in the envelope of the platform surface: `message`, `correlation_id` and, on 422 only, `errors` by
 * field. What nobody threw on purpose is a 500 that tells nothing of its inside.
 */
export function platformEnvelope(error: unknown, correlationId: string): Reply {
  const refusal =
    error instanceof Refusal ? error : new Refusal(500, 'ERR_INTERNAL', 'The service failed');
  const status = BAD_REQUEST_CODES.has(refusal.code) ? 400 : refusal.status;
  const body = {
    message: refusal.message,
    correlation_id: correlationId,
    ...(status === 422 ? { errors: refusal.params.fields ?? {} } : {}),
  };
  return { kind: 'text', status, text: JSON.stringify(body), headers: refusal.headers };
}
