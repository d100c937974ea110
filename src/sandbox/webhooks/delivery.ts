import { z } from 'zod';

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
