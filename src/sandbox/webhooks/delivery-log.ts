import { z } from 'zod';
import type { Store } from '../store/store.ts';

/** One event on its way to one webhook, or what became of it. */
export const deliveryState = z.object({
  /** A UUID of version 7, so that ids sort by age. */
  id: z.string(),
  /** Id of the webhook, which may have been deleted since. */
  webhook: z.string(),
  /** Resource id of the mailbox. */
  mailbox: z.string(),
  /** Where the last attempt went. */
  url: z.string(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  state: z.enum(['queued', 'delivered', 'failed']),
  attempts: z.number(),
  maxAttempts: z.number(),
  /** Of the last attempt. */
  durationMs: z.number(),
  /** When the next attempt is due, in milliseconds since the epoch; null once there is none. */
  nextAt: z.number().nullable(),
  /** The JSON text to send; null once it was. */
  body: z.string().nullable(),
});
export type Delivery = z.infer<typeof deliveryState>;

/** Newest first. */
export function byAge(a: Delivery, b: Delivery): number {
  return b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1);
}

/** Milliseconds before the attempt that follows `attempts` failed ones: doubling, up to a longest. */
export function backoff(attempts: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(attempts - 1, 30));
}

/** Finished deliveries that are remembered; the oldest go first. */
const DEFAULT_KEPT = 10_000;
const KIND = 'delivery';

/** Deliveries as the store keeps them: the ones under way, which a restart takes up again, and the finished ones. */
export class DeliveryLog {
  readonly #queued = new Map<string, Delivery>();
  /** In the order in which they ended. */
  readonly #finished = new Map<string, Delivery>();

  constructor(
    private readonly store: Store,
    private readonly kept = DEFAULT_KEPT,
  ) {
    for (const { body } of store.documents(KIND)) this.#hold(deliveryState.parse(body));
  }

  get queuedCount(): number {
    return this.#queued.size;
  }

  /** A delivery that is still under way. */
  getQueued(id: string): Delivery | null {
    return this.#queued.get(id) ?? null;
  }

  queued(): Delivery[] {
    return [...this.#queued.values()];
  }

  finished(): Delivery[] {
    return [...this.#finished.values()];
  }

  put(delivery: Delivery): void {
    this.store.putDocument(KIND, delivery.id, delivery);
    this.#hold(delivery);
    for (const oldest of this.#finished.keys()) {
      if (this.#finished.size <= this.kept) break;
      this.remove(oldest);
    }
  }

  remove(id: string): void {
    this.store.removeDocument(KIND, id);
    this.#queued.delete(id);
    this.#finished.delete(id);
  }

  #hold(delivery: Delivery): void {
    this.#queued.delete(delivery.id);
    if (delivery.state === 'queued') this.#queued.set(delivery.id, delivery);
    else this.#finished.set(delivery.id, delivery);
  }
}
