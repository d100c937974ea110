import { z } from 'zod';
import { count, flag, list, orElse, quantity, quantityOrNull, text, textOrNull } from './fields.ts';

/** Records of the platform surface, in snake_case: single resources stand bare, collections have `data` and `meta`. */

const mailboxReference = z.looseObject({ id: textOrNull, address: text });

export const platformWebhookRecord = z.looseObject({
  id: z.string().min(1),
  mailbox: orElse(mailboxReference, null),
  name: text,
  description: textOrNull,
  events: list(z.string()),
  status: text,
  url: text,
  created_at: textOrNull,
  updated_at: textOrNull,
});
export type PlatformWebhookRecord = z.output<typeof platformWebhookRecord>;

export const platformWebhookWithSecretRecord = platformWebhookRecord.extend({
  secret: z.string().min(1),
});
export type PlatformWebhookWithSecretRecord = z.output<typeof platformWebhookWithSecretRecord>;

/** All three may be missing; a missing outcome is null, not a failure. */
export const platformWebhookTestRecord = z.looseObject({
  http_status: quantityOrNull,
  is_successful: orElse(z.boolean(), null),
  error: textOrNull,
});
export type PlatformWebhookTestRecord = z.output<typeof platformWebhookTestRecord>;

export const platformMessageRecord = z.looseObject({ message: text });
export type PlatformMessageRecord = z.output<typeof platformMessageRecord>;

/** `duration` is in milliseconds; `retry_count` counts the attempts after the first, `max_retry_count` how many of them may be. */
export const deliveryLogRecord = z.looseObject({
  created_at: text,
  mailbox_address: text,
  webhook_url: text,
  is_successful: flag,
  duration: quantity,
  retry_count: count,
  max_retry_count: count,
});
export type DeliveryLogRecord = z.output<typeof deliveryLogRecord>;

/** Storage is counted in kilobytes here, unlike on the mailbox surface. */
export const platformMailboxRecord = z.looseObject({
  id: z.string().min(1),
  address: text,
  status: text,
  usage: orElse(
    z.looseObject({
      storage_used: quantityOrNull,
      storage_quota: quantityOrNull,
      messages_used: quantityOrNull,
      messages_quota: quantityOrNull,
      synced_at: textOrNull,
    }),
    null,
  ),
  created_at: textOrNull,
  updated_at: textOrNull,
});
export type PlatformMailboxRecord = z.output<typeof platformMailboxRecord>;

/** There is no last page and no next link: `total` marks the end. */
export const platformMeta = z.looseObject({
  current_page: z.int().min(1),
  per_page: z.int().min(1),
  total: z.int().min(0),
});
export type PlatformMeta = z.output<typeof platformMeta>;

/** Every error of the platform surface; `errors` by field on 422 only. */
export const platformErrorRecord = z.looseObject({
  message: text,
  correlation_id: textOrNull,
  errors: z.record(z.string(), z.array(z.string())).optional().catch(undefined),
});
