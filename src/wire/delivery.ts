import { z } from 'zod';
import { decodeIfFits } from './codec.ts';

/**
 * The body of a webhook delivery as our own service sends it. No public text documents it, so that a receiver
 * reads it with `readDelivery` and believes nothing in it but that something may have arrived.
 */
export const deliveryBody = z.looseObject({
  event: z.string(),
  /** Address of the mailbox. */
  mailbox: z.string(),
  /** The message as a listing shows it. */
  data: z.looseObject({}),
});
export type DeliveryBody = z.output<typeof deliveryBody>;

/** What a delivery hints at: never data to store. */
export interface DeliveryHint {
  readonly event: string | null;
  /** Address or resource id of the mailbox; null when the delivery does not name it. */
  readonly mailbox: string | null;
  readonly folder: string | null;
  readonly uid: number | null;
}

const loose = z.looseObject({
  event: z.string().max(255).nullish().catch(null),
  mailbox: z
    .union([
      z.string().max(320),
      z
        .looseObject({
          address: z.string().max(320).optional(),
          resourceId: z.string().max(320).optional(),
        })
        .transform(({ address, resourceId }) => address ?? resourceId ?? null),
    ])
    .nullish()
    .catch(null),
  data: z
    .looseObject({
      path: z.string().max(1024).nullish().catch(null),
      uid: z.int().min(1).nullish().catch(null),
    })
    .nullish()
    .catch(null),
});

/** Reads a delivery; whatever does not fit is null. Never throws. */
export function readDelivery(body: unknown): DeliveryHint {
  const read = decodeIfFits(loose, body);
  return {
    event: read?.event ?? null,
    mailbox: read?.mailbox ?? null,
    folder: read?.data?.path ?? null,
    uid: read?.data?.uid ?? null,
  };
}
