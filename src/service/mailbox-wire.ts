import { z } from 'zod';
import { flagSet, type Listing } from '../core/types.ts';
import {
  count,
  decode,
  flag,
  list,
  operationsOf,
  orElse,
  type Param,
  parseUidSet,
  quantity,
  quantityOrNull,
  text,
  textOrNull,
  uid as uidField,
} from './wire.ts';

/** Mailbox API records, in camelCase. Every successful response except 204 wraps a record or a list in `data`. */

const accountRecord = z.looseObject({
  orderResourceId: textOrNull,
  mailboxes: z.array(z.looseObject({ resourceId: z.string().min(1), address: z.string() })),
});
export type AccountRecord = z.output<typeof accountRecord>;

/**
 * `messageCount` is required, because a missing count would look like an emptied folder. A missing `name` becomes the
 * last part of the path. An empty path is accepted, so that it does not hide the other folders.
 */
const folderRecord = z
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

const addressRecord = z.object({ name: text, address: text });

const attachmentRecord = z.object({
  id: z.string(),
  contentType: text,
  sizeBytes: count,
  inline: flag,
  filename: textOrNull,
  contentId: textOrNull,
});

/** A message in a listing, as sent by a service. Clients decode it with `decodeListing`. */
export const messageRecord = z.looseObject({
  uid: uidField,
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

const messageTextRecord = z.looseObject({ text: textOrNull, html: textOrNull });
export type MessageTextRecord = z.output<typeof messageTextRecord>;

/** Result of a bulk flag update. The status is 207 if `failed` is not empty. */
const flagsResultRecord = z.looseObject({
  successful: list(uidField),
  failed: list(z.looseObject({ uid: uidField, reason: text })),
});
export type FlagsResultRecord = z.output<typeof flagsResultRecord>;

/** `STORAGE` counts bytes, `MESSAGE` counts messages; `percentage` is 0 to 100. */
const quotaRecord = z.looseObject({
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
/** The service's only event. */
const WEBHOOK_EVENTS = ['message.received'] as const;

/** Accepts any text as a status or event, because a newer service may send new ones. */
const webhookRecord = z.looseObject({
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

/** Response to creating a webhook or replacing its secret. No other response contains the secret. */
export const webhookWithSecretRecord = webhookRecord.extend({ secret: z.string().min(1) });
export type WebhookWithSecretRecord = z.output<typeof webhookWithSecretRecord>;

const webhookTestRecord = z.looseObject({
  httpStatus: quantityOrNull,
  success: flag,
  error: textOrNull,
});
export type WebhookTestRecord = z.output<typeof webhookTestRecord>;

/** Sent with the `data` of a collection. Only `total` marks the end, because pages can be short. */
export const mailboxPagination = z.looseObject({
  page: z.int().min(1),
  perPage: z.int().min(1),
  total: z.int().min(0),
  totalPages: z.int().min(0).optional(),
});

/** The body of every 4xx and 5xx from the Mailbox API. Clients branch on `code`; `error` is only for logs. */
export const mailboxErrorRecord = z.looseObject({
  error: text,
  code: text,
  params: z
    .record(z.string(), z.unknown())
    .nullish()
    .catch(undefined)
    .transform((value) => value ?? {}),
});

/** Request bodies with their documented bounds. Services drop unknown fields; clients reject them (`encodeBody`). */

export const feedbackRequest = z.object({
  score: z.int().min(1).max(10),
  message: z.string().min(1).max(2000),
});
export type FeedbackRequest = z.input<typeof feedbackRequest>;

/** Creates a folder with this full path, or renames a folder to it. */
export const folderRequest = z.object({ name: z.string().trim().min(1).max(100) });

const flagName = z.string().min(1).max(255);
const flagNames = z.array(flagName);
const uids = z.array(uidField).min(1).max(100);

function hasChange(change: {
  readonly addFlags?: readonly string[] | undefined;
  readonly removeFlags?: readonly string[] | undefined;
}): boolean {
  return (change.addFlags?.length ?? 0) + (change.removeFlags?.length ?? 0) > 0;
}
const needsFlags = { error: 'needs addFlags or removeFlags', path: ['addFlags'] };

export const patchMessageRequest = z
  .object({ addFlags: flagNames.optional(), removeFlags: flagNames.optional() })
  .refine(hasChange, needsFlags);
export type PatchMessageRequest = z.input<typeof patchMessageRequest>;

export const messageFlagsRequest = z
  .object({ uids, addFlags: flagNames.optional(), removeFlags: flagNames.optional() })
  .refine(hasChange, needsFlags);
export type MessageFlagsRequest = z.input<typeof messageFlagsRequest>;

const targetFolder = z.string().min(1).max(100);

export const moveMessageRequest = z.object({ targetFolder });

export const moveMessagesRequest = z.object({ uids, targetFolder });

export const deleteMessagesRequest = z.object({ uids });

/** A valid day as `YYYY-MM-DD`, compared with the received date. */
const day = z.iso.date();
const term = z.string().min(1).max(1024);
const addressTerm = z.string().min(1).max(320);

/** All criteria must match, but only one of `subject`, `from`, `to`, `cc` and `body`. `{}` matches all messages. */
export const searchRequest = z.object({
  since: day.optional(),
  before: day.optional(),
  flags: z.array(flagName).optional(),
  uid: z
    .string()
    .refine((set) => parseUidSet(set) !== null, { error: 'not an IMAP uid set' })
    .optional(),
  /** `Name:value` matches a substring of the header with that name. */
  header: term.regex(/^[!-9;-~]+:/, { error: 'not of the form Name:value' }).optional(),
  larger: z.int().min(0).optional(),
  smaller: z.int().min(0).optional(),
  text: term.optional(),
  subject: term.optional(),
  from: addressTerm.optional(),
  to: addressTerm.optional(),
  cc: addressTerm.optional(),
  body: term.optional(),
});
export type SearchRequest = z.input<typeof searchRequest>;

const plainAddress = z
  .string()
  .max(320)
  .regex(/^[^\s@<>]+@[^\s@<>]+$/, { error: 'not a plain address' });
const addresses = z.array(plainAddress);
const sourceReference = z.object({ uid: uidField, folder: z.string().min(1) });

export const sendRequest = z
  .object({
    to: addresses.optional(),
    cc: addresses.optional(),
    bcc: addresses.optional(),
    displayName: z.string().optional(),
    subject: z.string().optional(),
    text: z.string().optional(),
    html: z.string().optional(),
    attachments: z
      .array(
        z.object({
          filename: z.string().optional(),
          content: z.string(),
          contentType: z.string().optional(),
          cid: z.string().optional(),
          /** Encoding of `content`; defaults to base64. */
          encoding: z.string().optional(),
        }),
      )
      .optional(),
    inReplyTo: sourceReference.optional(),
    forwardOf: sourceReference.optional(),
  })
  .refine((mail) => (mail.to?.length ?? 0) + (mail.cc?.length ?? 0) + (mail.bcc?.length ?? 0) > 0, {
    error: 'needs at least one of to, cc and bcc',
    path: ['to'],
  })
  .refine((mail) => mail.inReplyTo === undefined || mail.forwardOf === undefined, {
    error: 'cannot be a reply and a forward at once',
    path: ['forwardOf'],
  });
export type SendRequest = z.input<typeof sendRequest>;

const webhookFields = {
  name: z.string().min(1).max(255),
  url: z.url({ protocol: /^https?$/ }).max(2048),
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1),
  description: z.string().nullable().optional(),
  status: z.enum(WEBHOOK_STATUSES).optional(),
};

/** Fields for creating a webhook, the same in both APIs. */
export const createWebhookRequest = z.object(webhookFields);
export type CreateWebhookRequest = z.input<typeof createWebhookRequest>;

export const updateWebhookRequest = z.object(webhookFields).partial();
export type UpdateWebhookRequest = z.input<typeof updateWebhookRequest>;

/** Parameters that both APIs have under different names. */

const MESSAGE_SORTS = ['uid', '-uid', 'date', '-date', 'size', '-size'] as const;

const mailbox = pathId(
  'mailboxResourceId',
  'resource id of the mailbox, as getCurrentAccount returns it',
);
const folder = pathId('folder', 'full path of the folder');
const uid: Param = {
  name: 'uid',
  in: 'path',
  type: 'integer',
  required: true,
  min: 1,
  help: 'uid of the message within the folder',
};
const attachmentId = pathId('attachmentId', 'id of the attachment, as the message lists it');
export const webhookId = pathId('webhookId', 'id of the webhook');
export const page: Param = positiveParam('page', 1, 'page, from 1');
const sort: Param = {
  ...anyText('sort', 'order; a leading - is descending'),
  values: MESSAGE_SORTS,
  default: '-uid',
};
export const status: Param = {
  ...anyText('status', 'only webhooks of this status'),
  values: WEBHOOK_STATUSES,
};

export function pathId(name: string, help: string): Param {
  return { name, in: 'path', type: 'string', required: true, minLength: 1, help };
}

export function anyText(name: string, help: string): Param & { readonly type: 'string' } {
  return { name, in: 'query', type: 'string', required: false, help };
}

export function pageSize(name: 'perPage' | 'per_page', fallback: number, max: number): Param {
  return { ...positiveParam(name, fallback, 'items a page'), max };
}

function positiveParam(
  name: string,
  fallback: number,
  help: string,
): Param & { readonly type: 'integer' } {
  return { name, in: 'query', type: 'integer', required: false, min: 1, default: fallback, help };
}

const IN_PATH = [mailbox, folder, uid, attachmentId, webhookId];

const MAILBOX = '/api/v1/mailboxes/{mailboxResourceId}';
const FOLDER = `${MAILBOX}/folders/{folder}`;
const MESSAGE = `${FOLDER}/messages/{uid}`;
const WEBHOOK = `${MAILBOX}/webhooks/{webhookId}`;

const empty = { response: { kind: 'empty' }, success: [204] } as const;

/** The 28 operations of the Mailbox API. */
export const MAILBOX_OPERATIONS = operationsOf('mailbox', IN_PATH, [401, 403, 422, 500, 502], {
  getCurrentAccount: {
    route: ['GET', '/api/v1/me'],
    response: { kind: 'data', record: accountRecord },
    errors: [401, 500, 502],
    summary: 'The order and the mailboxes the token reaches',
  },
  submitFeedback: {
    route: ['POST', `${MAILBOX}/feedback`],
    body: feedbackRequest,
    ...empty,
    errors: [401, 403, 422, 429, 500, 502, 504],
    ownLimit: true,
    summary: 'Send feedback about the interface to the service, at most once in ten seconds',
  },
  getQuota: {
    route: ['GET', `${MAILBOX}/quota`],
    response: { kind: 'data', record: quotaRecord },
    errors: [401, 403, 500, 502],
    summary: 'Storage and messages used and allowed',
  },
  listFolders: {
    route: ['GET', `${MAILBOX}/folders`],
    query: [page, pageSize('perPage', 50, 100)],
    response: { kind: 'page', record: folderRecord },
    summary: 'Folders with their counts',
  },
  createFolder: {
    route: ['POST', `${MAILBOX}/folders`],
    body: folderRequest,
    response: { kind: 'data', record: folderRecord },
    success: [201],
    errors: [401, 403, 409, 422, 500, 502],
    summary: 'Create a folder',
  },
  updateFolder: {
    route: ['PUT', FOLDER],
    body: folderRequest,
    response: { kind: 'data', record: folderRecord },
    errors: [401, 403, 409, 422, 500, 502],
    summary: 'Rename a folder',
  },
  deleteFolder: {
    route: ['DELETE', FOLDER],
    ...empty,
    errors: [401, 403, 404, 409, 422, 500, 502],
    destructive: true,
    summary: 'Delete a folder, its subfolders and all their messages for good',
  },
  listMessages: {
    route: ['GET', `${FOLDER}/messages`],
    query: [page, pageSize('perPage', 25, 100), sort],
    response: { kind: 'page', record: messageRecord },
    summary: 'Messages of a folder',
  },
  deleteAllMessages: {
    route: ['DELETE', `${FOLDER}/messages`],
    ...empty,
    errors: [401, 403, 404, 422, 500, 502],
    destructive: true,
    summary: 'Empty a folder for good',
  },
  searchMessages: {
    route: ['POST', `${FOLDER}/messages/search`],
    query: [page, pageSize('perPage', 25, 100), sort],
    body: searchRequest,
    response: { kind: 'page', record: messageRecord },
    read: true,
    summary: 'Messages of a folder that meet criteria',
  },
  updateMessageFlags: {
    route: ['POST', `${FOLDER}/messages/flags`],
    body: messageFlagsRequest,
    response: { kind: 'data', record: flagsResultRecord },
    success: [200, 207],
    summary: 'Add and remove flags of up to 100 messages',
  },
  moveMessages: {
    route: ['POST', `${FOLDER}/messages/move`],
    body: moveMessagesRequest,
    ...empty,
    summary: 'Move up to 100 messages to another folder',
  },
  deleteMessages: {
    route: ['POST', `${FOLDER}/messages/delete`],
    body: deleteMessagesRequest,
    ...empty,
    destructive: true,
    summary: 'Delete up to 100 messages for good',
  },
  getMessage: {
    route: ['GET', MESSAGE],
    response: { kind: 'data', record: messageRecord },
    errors: [401, 403, 404, 422, 500, 502],
    summary: 'One message as the listing shows it',
  },
  patchMessage: {
    route: ['PATCH', MESSAGE],
    body: patchMessageRequest,
    response: { kind: 'data', record: messageRecord },
    errors: [401, 403, 404, 422, 500, 502],
    summary: 'Add and remove flags of one message',
  },
  deleteMessage: {
    route: ['DELETE', MESSAGE],
    ...empty,
    destructive: true,
    summary: 'Delete one message for good',
  },
  getMessageSource: {
    route: ['GET', `${MESSAGE}/source`],
    response: { kind: 'bytes', contentType: 'message/rfc822' },
    errors: [401, 403, 404, 422, 500, 502],
    summary: 'The raw source of a message, byte for byte',
  },
  getMessageText: {
    route: ['GET', `${MESSAGE}/text`],
    response: { kind: 'data', record: messageTextRecord },
    errors: [401, 403, 404, 422, 500, 502],
    sideEffect: 'marks-seen',
    summary: 'The text and HTML of a message; marks it as read',
  },
  getMessageAttachment: {
    route: ['GET', `${MESSAGE}/attachments/{attachmentId}`],
    response: { kind: 'bytes', contentType: 'application/octet-stream' },
    errors: [401, 403, 404, 422, 500, 502],
    summary: 'One attachment, decoded',
  },
  moveMessage: {
    route: ['POST', `${MESSAGE}/move`],
    body: moveMessageRequest,
    ...empty,
    summary: 'Move one message to another folder',
  },
  sendEmail: {
    route: ['POST', `${MAILBOX}/send`],
    body: sendRequest,
    ...empty,
    summary: 'Send a message, a reply or a forward; a copy goes to INBOX.Sent',
  },
  listWebhooks: {
    route: ['GET', `${MAILBOX}/webhooks`],
    query: [status, page, pageSize('perPage', 50, 1000)],
    response: { kind: 'page', record: webhookRecord },
    summary: 'Webhooks of a mailbox',
  },
  createWebhook: {
    route: ['POST', `${MAILBOX}/webhooks`],
    body: createWebhookRequest,
    response: { kind: 'data', record: webhookWithSecretRecord },
    success: [201],
    summary: 'Create a webhook; the only answer that shows its secret',
  },
  getWebhook: {
    route: ['GET', WEBHOOK],
    response: { kind: 'data', record: webhookRecord },
    errors: [401, 403, 404, 500, 502],
    summary: 'One webhook',
  },
  updateWebhook: {
    route: ['PATCH', WEBHOOK],
    body: updateWebhookRequest,
    response: { kind: 'data', record: webhookRecord },
    errors: [401, 403, 404, 422, 500, 502],
    summary: 'Change a webhook',
  },
  deleteWebhook: {
    route: ['DELETE', WEBHOOK],
    ...empty,
    errors: [401, 403, 404, 500, 502],
    destructive: true,
    summary: 'Delete a webhook for good',
  },
  regenerateWebhookSecret: {
    route: ['POST', `${WEBHOOK}/regenerate-secret`],
    response: { kind: 'data', record: webhookWithSecretRecord },
    errors: [401, 403, 404, 500, 502],
    destructive: true,
    summary: 'Make a new secret; the old one is dead at once',
  },
  testWebhook: {
    route: ['POST', `${WEBHOOK}/test`],
    response: { kind: 'data', record: webhookTestRecord },
    errors: [401, 403, 404, 500, 502],
    ownLimit: true,
    summary: 'Send one test delivery',
  },
});

/** The record's fields that a listing uses. `path` and `unseen` repeat its place and flags. */
const { path: _path, unseen: _unseen, ...listedFields } = messageRecord.shape;
const listedRecord = z.object({
  ...listedFields,
  attachments: list(
    // The API calls the parameter attachmentId, and the record's field id.
    attachmentRecord
      .extend({ id: textOrNull, attachmentId: textOrNull })
      .transform(({ id, attachmentId, ...rest }) => ({ id: id ?? attachmentId ?? '', ...rest })),
  ),
});

const isUid = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 1;
/** Missing flags would look like removed flags. */
const requiredFields = z.object({
  uid: z.custom<number>(isUid, { error: 'integer at least 1' }),
  flags: list(z.string()),
});

/**
 * Decodes one message record leniently. Only `uid` is required; other missing fields become null or empty. Unknown
 * fields and fields of a wrong type go to `extra`, so that an odd message does not hide the others on its page.
 *
 * @param path path of the record in the response, such as `data[3]`, for errors
 * @throws origin.shape if it is not a record, has no uid, or its flags are unreadable
 */
export function decodeListing(record: unknown, operation: string, path = 'data'): Listing {
  const result = listedRecord.safeParse(record);
  if (!result.success) decode(requiredFields, record, operation, path);
  const wrongFields = new Set(result.error?.issues.map((issue) => issue.path[0]));
  const fields = Object.entries<unknown>(Object(record));
  const valid =
    result.data ??
    listedRecord.parse(Object.fromEntries(fields.filter(([name]) => !wrongFields.has(name))));
  const extra = fields.filter(
    ([name]) => wrongFields.has(name) || !Object.hasOwn(messageRecord.shape, name),
  );
  return { ...valid, flags: flagSet(valid.flags), extra: Object.fromEntries(extra) };
}
