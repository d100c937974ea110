import { z } from 'zod';
import type { MailboxOperationName } from '../../wire/operations.ts';

/**
 * What tools answer, for clients that check it: the service's own records, strictly. The schemas of `wire/` read an
 * answer leniently and so describe it loosely.
 */

const time = z.iso.datetime();
const count = z.int().min(0);
const uid = z.int().min(1);
const address = z.object({ name: z.string(), address: z.string() });

const folder = z.object({
  path: z.string(),
  name: z.string(),
  delimiter: z.string(),
  specialUse: z.string().nullable().describe('RFC 6154 attribute, such as \\Sent'),
  messageCount: count,
  unreadCount: count,
});

const message = z.object({
  uid,
  path: z.string().describe('full path of the folder'),
  date: time.describe('when the message was received'),
  flags: z.array(z.string()),
  unseen: z.boolean(),
  size: count.describe('bytes of the raw source'),
  subject: z.string().nullable(),
  from: address.nullable(),
  to: z.array(address),
  cc: z.array(address),
  bcc: z.array(address),
  messageId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  attachments: z.array(
    z.object({
      id: z.string(),
      contentType: z.string(),
      sizeBytes: count,
      inline: z.boolean(),
      filename: z.string().nullable(),
      contentId: z.string().nullable(),
    }),
  ),
});

const webhook = z.object({
  id: z.string(),
  accountResourceId: z.string(),
  mailbox: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  events: z.array(z.string()),
  status: z.string(),
  url: z.string(),
  createdAt: time,
  updatedAt: time,
});
const webhookWithSecret = webhook.extend({ secret: z.string() });

const usage = { usage: count, limit: count, percentage: count };
const quota = z.object({
  quotas: z.array(z.object({ resourceName: z.string(), ...usage })),
  totalUsage: count,
  totalLimit: count,
  totalPercentage: count,
  supported: z.boolean(),
});

const account = z.object({
  orderResourceId: z.string(),
  mailboxes: z.array(z.object({ resourceId: z.string(), address: z.string() })),
});
const flagsResult = z.object({
  successful: z.array(uid),
  failed: z.array(z.object({ uid, reason: z.string() })),
});
const messageText = z.object({ text: z.string(), html: z.string() });
const webhookTest = z.object({
  httpStatus: z.int().describe('0 where no answer came'),
  success: z.boolean(),
  error: z.string().nullable(),
});

const one = (record: z.ZodType) => z.object({ data: record });
const page = (record: z.ZodType) =>
  z.object({
    data: z.array(record),
    pagination: z.object({ page: count, perPage: count, total: count, totalPages: count }),
  });
const nothing = z.object({ data: z.null() });

/** By operation; null where the answer is bytes, which are an embedded resource. */
export const TOOL_OUTPUT: Readonly<Record<MailboxOperationName, z.ZodObject | null>> = {
  getCurrentAccount: one(account),
  submitFeedback: nothing,
  getQuota: one(quota),
  listFolders: page(folder),
  createFolder: one(folder),
  updateFolder: one(folder),
  deleteFolder: nothing,
  listMessages: page(message),
  deleteAllMessages: nothing,
  searchMessages: page(message),
  updateMessageFlags: one(flagsResult),
  moveMessages: nothing,
  deleteMessages: nothing,
  getMessage: one(message),
  patchMessage: one(message),
  deleteMessage: nothing,
  getMessageSource: null,
  getMessageText: one(messageText),
  getMessageAttachment: null,
  moveMessage: nothing,
  sendEmail: nothing,
  listWebhooks: page(webhook),
  createWebhook: one(webhookWithSecret),
  getWebhook: one(webhook),
  updateWebhook: one(webhook),
  deleteWebhook: nothing,
  regenerateWebhookSecret: one(webhookWithSecret),
  testWebhook: one(webhookTest),
};
