import { z } from 'zod';
import type { Answer } from '../client.ts';

/**
 * The answers of every operation with the types of the interface, copied by hand from its documents: integers are
 * integers, texts are texts, and only what is said to be nullable may be null. No field may be missing, and none may
 * come on top. Nothing here comes from `src/`.
 */

const time = z.iso.datetime();
const count = z.int().min(0);
const uid = z.int().min(1);
const id = z.string().min(1);
const nullableText = z.string().nullable();
const address = z.strictObject({ name: z.string(), address: z.string() });
const status = z.enum(['active', 'paused', 'disabled']);
const events = z.array(z.literal('message.received')).min(1);

const data = (record: z.ZodType) => z.strictObject({ data: record });
const paged = (record: z.ZodType) =>
  z.strictObject({
    data: z.array(record),
    pagination: z.strictObject({
      page: z.int().min(1),
      perPage: z.int().min(1),
      total: count,
      totalPages: count,
    }),
  });
const collection = (record: z.ZodType) =>
  z.strictObject({
    data: z.array(record),
    meta: z.strictObject({ current_page: z.int().min(1), per_page: z.int().min(1), total: count }),
  });

const folder = z.strictObject({
  path: id,
  name: id,
  delimiter: z.literal('.'),
  specialUse: z.string().startsWith('\\').nullable(),
  messageCount: count,
  unreadCount: count,
});

const message = z.strictObject({
  uid,
  path: id,
  date: time,
  flags: z.array(z.string().min(1)),
  unseen: z.boolean(),
  size: count,
  subject: nullableText,
  from: address.nullable(),
  to: z.array(address),
  cc: z.array(address),
  bcc: z.array(address),
  messageId: nullableText,
  inReplyTo: nullableText,
  attachments: z.array(
    z.strictObject({
      id,
      contentType: z.string(),
      sizeBytes: count,
      inline: z.boolean(),
      filename: nullableText,
      contentId: nullableText,
    }),
  ),
});

const quota = z.strictObject({
  quotas: z.array(
    z.strictObject({
      resourceName: z.enum(['STORAGE', 'MESSAGE']),
      usage: count,
      limit: count,
      percentage: count,
    }),
  ),
  totalUsage: count,
  totalLimit: count,
  totalPercentage: count,
  supported: z.boolean(),
});

const webhook = z.strictObject({
  id: z.uuidv7(),
  accountResourceId: id,
  mailbox: id,
  name: id,
  description: nullableText,
  events,
  status,
  url: z.url(),
  createdAt: time,
  updatedAt: time,
});

const platformWebhook = z.strictObject({
  id: z.uuidv7(),
  mailbox: z.strictObject({ id, address: id }),
  name: id,
  description: nullableText,
  events,
  status,
  url: z.url(),
  created_at: time,
  updated_at: time,
});

const deliveryLogEntry = z.strictObject({
  created_at: time,
  mailbox_address: id,
  webhook_url: z.url(),
  is_successful: z.boolean(),
  duration: count,
  retry_count: count,
  max_retry_count: count,
});

const platformMailbox = z.strictObject({
  id,
  address: id,
  status: z.enum(['active', 'suspended']),
  usage: z.strictObject({
    storage_used: count,
    storage_quota: count,
    messages_used: count,
    messages_quota: count,
    synced_at: time,
  }),
  created_at: time,
  updated_at: time,
});

/** By `surface.operation`; null for an answer without a body. */
export const STRICT: Readonly<Record<string, z.ZodType | null>> = {
  'mailbox.getCurrentAccount': data(
    z.strictObject({
      orderResourceId: id,
      mailboxes: z.array(z.strictObject({ resourceId: z.string().startsWith('AC'), address: id })),
    }),
  ),
  'mailbox.submitFeedback': null,
  'mailbox.getQuota': data(quota),
  'mailbox.listFolders': paged(folder),
  'mailbox.createFolder': data(folder),
  'mailbox.updateFolder': data(folder),
  'mailbox.deleteFolder': null,
  'mailbox.listMessages': paged(message),
  'mailbox.deleteAllMessages': null,
  'mailbox.searchMessages': paged(message),
  'mailbox.updateMessageFlags': data(
    z.strictObject({
      successful: z.array(uid),
      failed: z.array(z.strictObject({ uid, reason: id })),
    }),
  ),
  'mailbox.moveMessages': null,
  'mailbox.deleteMessages': null,
  'mailbox.getMessage': data(message),
  'mailbox.patchMessage': data(message),
  'mailbox.deleteMessage': null,
  'mailbox.getMessageText': data(z.strictObject({ text: z.string(), html: z.string() })),
  'mailbox.moveMessage': null,
  'mailbox.sendEmail': null,
  'mailbox.listWebhooks': paged(webhook),
  'mailbox.createWebhook': data(webhook.extend({ secret: id })),
  'mailbox.getWebhook': data(webhook),
  'mailbox.updateWebhook': data(webhook),
  'mailbox.deleteWebhook': null,
  'mailbox.regenerateWebhookSecret': data(webhook.extend({ secret: id })),
  'mailbox.testWebhook': data(
    z.strictObject({ httpStatus: count, success: z.boolean(), error: nullableText }),
  ),
  'platform.listWebhooks': collection(platformWebhook),
  'platform.createWebhook': platformWebhook.extend({ secret: id }),
  'platform.getWebhook': platformWebhook,
  'platform.updateWebhook': platformWebhook,
  'platform.deleteWebhook': z.strictObject({ message: id }),
  'platform.regenerateWebhookSecret': platformWebhook.extend({ secret: id }),
  'platform.testWebhook': z.strictObject({
    http_status: z.int().optional(),
    is_successful: z.boolean().optional(),
    error: nullableText.optional(),
  }),
  'platform.listDeliveryLogs': collection(deliveryLogEntry),
  'platform.listMailboxes': collection(platformMailbox),
};

/** Answers that are bytes, with their type. */
export const BYTES: Readonly<Record<string, string>> = {
  'mailbox.getMessageSource': 'message/rfc822',
  'mailbox.getMessageAttachment': 'application/octet-stream',
};

/** What a reader that validates types would complain of. */
export function complaints(
  operation: string,
  { json, bytes, headers }: Pick<Answer, 'json' | 'bytes' | 'headers'>,
): unknown {
  const type = BYTES[operation];
  if (type !== undefined) return headers['content-type'] === type ? [] : [headers['content-type']];
  const schema = STRICT[operation];
  if (schema === undefined) throw new Error(`no types for ${operation}`);
  if (schema === null) return bytes.length === 0 ? [] : ['a body'];
  return schema.safeParse(json).error?.issues ?? [];
}
