import { request } from 'undici';
import type { Webhook } from './webhooks.ts';

/** What one POST to a webhook's URL came to. */
export interface DeliveryOutcome {
  /** Null when no answer came. */
  readonly httpStatus: number | null;
  /** True for any 2xx. */
  readonly success: boolean;
  /** Why not, in words of the transport; never the receiver's body. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** A receiver that takes longer than this has failed. */
const TIMEOUT_MS = 10_000;

/** POSTs a payload once, with the webhook's secret as bearer token. Never throws for what the receiver does. */
export async function deliverOnce(
  webhook: Pick<Webhook, 'url' | 'secret'>,
  payload: unknown,
  timeoutMs = TIMEOUT_MS,
): Promise<DeliveryOutcome> {
  const started = performance.now();
  const outcome = (httpStatus: number | null, error: string | null): DeliveryOutcome => ({
    httpStatus,
    success: error === null,
    error,
    durationMs: Math.round(performance.now() - started),
  });
  try {
    const answer = await request(webhook.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${webhook.secret}`,
        'user-agent': 'mailkeep-sandbox',
      },
      body: JSON.stringify(payload),
      signal: AbortSignal.timeout(timeoutMs),
    });
    await answer.body.dump();
    const { statusCode } = answer;
    const success = statusCode >= 200 && statusCode < 300;
    return outcome(statusCode, success ? null : `The endpoint answered ${statusCode}`);
  } catch (error) {
    return outcome(null, error instanceof Error ? error.message || error.name : String(error));
  }
}
