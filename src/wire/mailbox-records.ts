import { z } from 'zod';
import {
  count,
  flag,
  list,
  orElse,
  quantity,
  quantityOrNull,
  text,
  textOrNull,
  uid,
} from './fields.ts';

/** Records of the mailbox surface, in camelCase. Every success but 204 wraps one, or a list of them, in `data`. */

export const accountRecord = z.looseObject({
  orderResourceId: textOrNull,
  mailboxes: z.array(z.looseObject({ resourceId: z.string().min(1), address: z.string() })),
});
export type AccountRecord = z.output<typeof accountRecord>;

/**
 * A folder. `messageCount` must be there: a count that is merely missing would read as an emptied folder.
 * A missing `name` is the last part of the path. An empty path is left to the reader: it must not hide the other folders.
 */
export const folderRecord = z
  .looseObject({
    path: z.string(),
    name: z.string().nullish(),
    delimiter: orElse(z.string(), '.'),
    specialUse: textOrNull,
    messageCount: z.int().min(0),
    unreadCount: count,
  })
  .transform((folder) => ({ ...folder, name: folder.name ?? leafName(folder) }));
export type FolderRecord = z.output<typeof folderRecord>;

function leafName(folder: { readonly path: string; readonly delimiter: string }): string {
  if (folder.delimiter === '') return folder.path;
  return folder.path.slice(folder.path.lastIndexOf(folder.delimiter) + 1);
}

export const addressRecord = z.looseObject({ name: text, address: text });

export const attachmentRecord = z.looseObject({
  id: z.string(),
  contentType: text,
  sizeBytes: count,
  inline: flag,
  filename: textOrNull,
  contentId: textOrNull,
});

/**
 * A message as listings, searches and `getMessage` show it. This schema is the shape for services, samples and
 * descriptions; clients decode with `decodeListing`, which reads the same shape several times faster.
 */
export const messageRecord = z.looseObject({
  uid,
  path: text,
  date: text,
  flags: list(z.string()),
  unseen: flag,
  size: count,
  subject: textOrNull,
  from: orElse(addressRecord, null),
  to: list(addressRecord),
  cc: list(addressRecord),
  bcc: list(addressRecord),
  messageId: textOrNull,
  inReplyTo: textOrNull,
  attachments: list(attachmentRecord),
});

export const messageTextRecord = z.looseObject({ text: textOrNull, html: textOrNull });
export type MessageTextRecord = z.output<typeof messageTextRecord>;

/** The outcome of a bulk flag update: 200 when all succeeded, 207 when `failed` is not empty. */
export const flagsResultRecord = z.looseObject({
  successful: list(uid),
  failed: list(z.looseObject({ uid, reason: text })),
});
export type FlagsResultRecord = z.output<typeof flagsResultRecord>;

/** `STORAGE` counts bytes, `MESSAGE` counts messages; `percentage` is 0 to 100. */
export const quotaRecord = z.looseObject({
  quotas: list(
    z.looseObject({
      resourceName: z.string(),
      usage: quantity,
      limit: quantityOrNull,
      percentage: quantityOrNull,
    }),
  ),
  totalUsage: quantityOrNull,
  totalLimit: quantityOrNull,
  totalPercentage: quantityOrNull,
  supported: orElse(z.boolean(), true),
});
export type QuotaRecord = z.output<typeof quotaRecord>;

export const WEBHOOK_STATUSES = ['active', 'paused', 'disabled'] as const;
/** The only kind of event the service knows. */
export const WEBHOOK_EVENTS = ['message.received'] as const;

/** Statuses and events are read as any text: a newer service may know more of them than this program. */
export const webhookRecord = z.looseObject({
  id: z.string().min(1),
  accountResourceId: textOrNull,
  mailbox: text,
  name: text,
  description: textOrNull,
  events: list(z.string()),
  status: text,
  url: text,
  createdAt: textOrNull,
  updatedAt: textOrNull,
});
export type WebhookRecord = z.output<typeof webhookRecord>;

/** The answer to creating a webhook, or a new secret for it: the only one that shows the secret. */
export const webhookWithSecretRecord = webhookRecord.extend({ secret: z.string().min(1) });
export type WebhookWithSecretRecord = z.output<typeof webhookWithSecretRecord>;

export const webhookTestRecord = z.looseObject({
  httpStatus: quantityOrNull,
  success: flag,
  error: textOrNull,
});
export type WebhookTestRecord = z.output<typeof webhookTestRecord>;

/** Stands next to `data` of a collection. Only `total` marks the end: pages can be short. */
export const mailboxPagination = z.looseObject({
  page: z.int().min(1),
  perPage: z.int().min(1),
  total: z.int().min(0),
  totalPages: z.int().min(0).optional(),
});

/** Every 4xx and 5xx of the mailbox surface. Clients branch on `code`; `error` is for logs. */
export const mailboxErrorRecord = z.looseObject({
  error: text,
  code: text,
  params: z
    .record(z.string(), z.unknown())
    .nullish()
    .catch(undefined)
    .transform((value) => value ?? {}),
});
