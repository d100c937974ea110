import { z } from 'zod';
import {
  anyText,
  createWebhookRequest,
  MAILBOX_OPERATIONS,
  page,
  pageSize,
  pathId,
  status,
  updateWebhookRequest,
  webhookId,
} from './mailbox-wire.ts';
import {
  count,
  flag,
  list,
  type Operation,
  operationsOf,
  orElse,
  quantity,
  quantityOrNull,
  text,
  textOrNull,
} from './wire.ts';

/** Platform API records, in snake_case. Single resources have no wrapper. Collections have `data` and `meta`. */

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

const platformWebhookWithSecretRecord = platformWebhookRecord.extend({
  secret: z.string().min(1),
});
export type PlatformWebhookWithSecretRecord = z.output<typeof platformWebhookWithSecretRecord>;

/** Any of the three fields can be missing. A missing outcome becomes null, which does not mean failure. */
const platformWebhookTestRecord = z.looseObject({
  http_status: quantityOrNull,
  is_successful: orElse(z.boolean(), null),
  error: textOrNull,
});
export type PlatformWebhookTestRecord = z.output<typeof platformWebhookTestRecord>;

const platformMessageRecord = z.looseObject({ message: text });
export type PlatformMessageRecord = z.output<typeof platformMessageRecord>;

/** `duration` is in milliseconds. `retry_count` excludes the first attempt; `max_retry_count` is its maximum. */
const deliveryLogRecord = z.looseObject({
  created_at: text,
  mailbox_address: text,
  webhook_url: text,
  is_successful: flag,
  duration: quantity,
  retry_count: count,
  max_retry_count: count,
});
export type DeliveryLogRecord = z.output<typeof deliveryLogRecord>;

/** Storage is in kilobytes, unlike in the Mailbox API. */
const platformMailboxRecord = z.looseObject({
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

/** Only `total` marks the end: there is no last page and no next link. */
export const platformMeta = z.looseObject({
  current_page: z.int().min(1),
  per_page: z.int().min(1),
  total: z.int().min(0),
});
export type PlatformMeta = z.output<typeof platformMeta>;

/** Body of every Platform API error. Only 422 has `errors`, keyed by field. */
export const platformErrorRecord = z.looseObject({
  message: text,
  correlation_id: textOrNull,
  errors: z.record(z.string(), z.array(z.string())).optional().catch(undefined),
});

const ORDER = '/api/mail/v1/orders/{orderId}';
const WEBHOOK = '/api/mail/v1/webhooks/{webhookId}';

const IN_PATH = [
  pathId('orderId', 'resource id of the mail order'),
  pathId('mailboxId', 'resource id of the mailbox'),
  webhookId,
];
const mailboxParam = anyText('mailbox_id', 'only those of this mailbox, by its resource id');
const search = anyText('search', 'only mailboxes whose address contains this');
const sort = anyText('sort', 'order; a leading - is descending');

export const PLATFORM_OPERATIONS = operationsOf('platform', IN_PATH, [401, 404, 422, 500], {
  listWebhooks: {
    route: ['GET', `${ORDER}/webhooks`],
    query: [mailboxParam, status, page, pageSize('per_page', 50, 100)],
    response: { kind: 'page', record: platformWebhookRecord },
    summary: 'Webhooks of an order',
  },
  createWebhook: {
    route: ['POST', '/api/mail/v1/mailboxes/{mailboxId}/webhooks'],
    body: createWebhookRequest,
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    success: [201],
    summary: 'Create a webhook; the only answer that shows its secret',
  },
  getWebhook: {
    route: ['GET', WEBHOOK],
    response: { kind: 'bare', record: platformWebhookRecord },
    summary: 'One webhook',
  },
  updateWebhook: {
    route: ['PATCH', WEBHOOK],
    body: updateWebhookRequest,
    response: { kind: 'bare', record: platformWebhookRecord },
    summary: 'Change a webhook',
  },
  deleteWebhook: {
    route: ['DELETE', WEBHOOK],
    response: { kind: 'bare', record: platformMessageRecord },
    destructive: true,
    summary: 'Delete a webhook for good',
  },
  regenerateWebhookSecret: {
    route: ['POST', `${WEBHOOK}/regenerate-secret`],
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    destructive: true,
    summary: 'Make a new secret; the old one is dead at once',
  },
  testWebhook: {
    route: ['POST', `${WEBHOOK}/test`],
    response: { kind: 'bare', record: platformWebhookTestRecord },
    errors: [401, 404, 422, 429, 500],
    ownLimit: true,
    summary: 'Send one test delivery; rate limited',
  },
  listDeliveryLogs: {
    route: ['GET', `${ORDER}/webhooks/delivery-logs`],
    query: [mailboxParam, page, pageSize('per_page', 25, 100)],
    response: { kind: 'page', record: deliveryLogRecord },
    summary: 'What became of the deliveries of an order',
  },
  listMailboxes: {
    route: ['GET', `${ORDER}/mailboxes`],
    query: [search, sort, page, pageSize('per_page', 50, 100)],
    response: { kind: 'page', record: platformMailboxRecord },
    summary: 'Mailboxes of an order, with their usage',
  },
});

/** Body of the webhook deliveries sent by our service. The format is undocumented, so receivers use `readDelivery`. */
const deliveryBody = z.looseObject({
  event: z.string(),
  mailbox: z.string(),
  data: z.looseObject({}),
});
export type DeliveryBody = z.output<typeof deliveryBody>;

/** Content of a delivery. It is only a notification, and must never be stored as data. */
export interface DeliveryHint {
  readonly event: string | null;
  /** The mailbox's address or resource id. */
  readonly mailbox: string | null;
  readonly folder: string | null;
  readonly uid: number | null;
}

const deliverySchema = z.looseObject({
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

/** Reads a delivery. Invalid fields become null. Never throws. */
export function readDelivery(body: unknown): DeliveryHint {
  const read = deliverySchema.safeParse(body).data;
  return {
    event: read?.event ?? null,
    mailbox: read?.mailbox ?? null,
    folder: read?.data?.path ?? null,
    uid: read?.data?.uid ?? null,
  };
}

export type MailboxOperationName = keyof typeof MAILBOX_OPERATIONS;
export type PlatformOperationName = keyof typeof PLATFORM_OPERATIONS;

/** All operations in documentation order, Mailbox API first. */
export const OPERATIONS: readonly Operation[] = [
  ...Object.values(MAILBOX_OPERATIONS),
  ...Object.values(PLATFORM_OPERATIONS),
];

/** Finds an operation by name. The `platform.` prefix is optional unless the Mailbox API has the same name. */
export function findOperation(name: string): Operation | null {
  return (
    OPERATIONS.find((operation) => operation.name === name) ??
    OPERATIONS.find((operation) => operation.name === `platform.${name}`) ??
    null
  );
}
