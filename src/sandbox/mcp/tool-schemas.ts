import { z } from 'zod';
import { type Operation, type Param, readParam } from '../../wire/operation.ts';
import type { MailboxOperationName } from '../../wire/operations.ts';

/** What a tool takes: path and query parameters and the fields of the body, side by side. */
export function toolInput(operation: Operation): z.ZodObject {
  const fields: Record<string, z.ZodType> = {};
  for (const param of operation.params) fields[param.name] = paramSchema(param);
  // The refinements of a body as a whole are left to the surface, which checks every request.
  return z.strictObject({ ...fields, ...bodyFields(operation) });
}

function paramSchema(param: Param): z.ZodType {
  const schema = (param.type === 'integer' ? integer(param) : string(param)).describe(param.help);
  return param.required ? schema : schema.optional();
}

function integer({ min, max }: Extract<Param, { type: 'integer' }>): z.ZodInt {
  const low = min === undefined ? z.int() : z.int().min(min);
  return max === undefined ? low : low.max(max);
}

function string({ values, minLength }: Extract<Param, { type: 'string' }>): z.ZodType {
  return values === undefined ? z.string().min(minLength ?? 0) : z.enum(values);
}

function bodyFields({ body }: Operation): Readonly<Record<string, z.core.$ZodType>> {
  return body instanceof z.ZodObject ? body.shape : {};
}

/** A request as the mailbox surface takes it. */
export interface ToolRequest {
  readonly method: string;
  /** Path and query, percent-encoded. */
  readonly path: string;
  /** JSON text; null where the operation takes none. */
  readonly body: string | null;
}

/** The request that a tool's arguments stand for. */
export function toolRequest(
  operation: Operation,
  input: Readonly<Record<string, unknown>>,
): ToolRequest {
  let { path } = operation;
  const query = new URLSearchParams();
  for (const param of operation.params) {
    const value = input[param.name];
    if (typeof value !== 'string' && typeof value !== 'number') continue;
    const reading = readParam(param, value);
    const text = String(reading.ok ? reading.value : value);
    if (param.in === 'path') path = path.replace(`{${param.name}}`, () => encodeURIComponent(text));
    else query.set(param.name, text);
  }
  const body: Record<string, unknown> = {};
  for (const name of Object.keys(bodyFields(operation))) {
    if (input[name] !== undefined) body[name] = input[name];
  }
  return {
    method: operation.method,
    path: query.size === 0 ? path : `${path}?${query}`,
    body: operation.body === null ? null : JSON.stringify(body),
  };
}

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

const OUTPUT: Readonly<Record<string, z.ZodObject>> = {
  getCurrentAccount: one(account),
  getQuota: one(quota),
  listFolders: page(folder),
  createFolder: one(folder),
  updateFolder: one(folder),
  listMessages: page(message),
  searchMessages: page(message),
  updateMessageFlags: one(flagsResult),
  getMessage: one(message),
  patchMessage: one(message),
  getMessageText: one(messageText),
  listWebhooks: page(webhook),
  createWebhook: one(webhookWithSecret),
  getWebhook: one(webhook),
  updateWebhook: one(webhook),
  regenerateWebhookSecret: one(webhookWithSecret),
  testWebhook: one(webhookTest),
} satisfies Partial<Record<MailboxOperationName, z.ZodObject>>;

/** What a tool answers; null where the answer is bytes, which are an embedded resource. */
export function toolOutput({ name, response }: Operation): z.ZodObject | null {
  return response.kind === 'bytes' ? null : (OUTPUT[name] ?? nothing);
}
