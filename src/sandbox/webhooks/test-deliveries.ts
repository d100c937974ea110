import { Refusal } from '../http/refusal.ts';
import { RateWindow } from '../http/request-rate.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { DeliveryOutcome } from './deliver-once.ts';
import type { Deliveries } from './deliveries.ts';
import type { Webhook } from './webhooks.ts';

/** Test deliveries of the platform surface, which limits them for each webhook. */
export class TestDeliveries {
  readonly #deliveries: Deliveries;
  readonly #window: RateWindow;
  readonly #now: () => number;

  constructor(deliveries: Deliveries, perMinute: number, now: () => number) {
    this.#deliveries = deliveries;
    this.#window = new RateWindow(perMinute);
    this.#now = now;
  }

  /** @throws Refusal 429 `ERR_WEBHOOK_TEST_RATE_LIMIT` with Retry-After */
  async send(mailbox: Mailbox, webhook: Webhook): Promise<DeliveryOutcome> {
    const rate = this.#window.take(webhook.id, this.#now());
    if (rate.allowed) return this.#deliveries.test(mailbox, webhook);
    const retryAfter = rate.retryAfterSeconds;
    throw new Refusal(
      429,
      'ERR_WEBHOOK_TEST_RATE_LIMIT',
      'This webhook was tested a moment ago; wait and retry',
      { retryAfter },
      { 'retry-after': String(retryAfter) },
    );
  }
}
