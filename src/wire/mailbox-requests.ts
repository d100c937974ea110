import { z } from 'zod';
import { uid } from './fields.ts';
import { WEBHOOK_EVENTS, WEBHOOK_STATUSES } from './mailbox-records.ts';
import { parseUidSet } from './uid-set.ts';

/**
 * Request bodies of the mailbox surface, with the bounds the interface gives. Unknown fields are dropped here, so
 * that a service may ignore them; a client refuses them before it sends (`encodeBody`).
 */

export const feedbackRequest = z.object({
  score: z.int().min(1).max(10),
  message: z.string().min(1).max(2000),
});
export type FeedbackRequest = z.input<typeof feedbackRequest>;

/** Creates a folder by its full path, or renames one. */
export const folderRequest = z.object({ name: z.string().trim().min(1).max(100) });

const flagName = z.string().min(1).max(255);
const flagNames = z.array(flagName);
const uids = z.array(uid).min(1).max(100);

function changesSomething(change: {
  readonly addFlags?: readonly string[] | undefined;
  readonly removeFlags?: readonly string[] | undefined;
}): boolean {
  return (change.addFlags?.length ?? 0) + (change.removeFlags?.length ?? 0) > 0;
}
const needsFlags = { error: 'needs addFlags or removeFlags', path: ['addFlags'] };

export const patchMessageRequest = z
  .object({ addFlags: flagNames.optional(), removeFlags: flagNames.optional() })
  .refine(changesSomething, needsFlags);
export type PatchMessageRequest = z.input<typeof patchMessageRequest>;

export const messageFlagsRequest = z
  .object({ uids, addFlags: flagNames.optional(), removeFlags: flagNames.optional() })
  .refine(changesSomething, needsFlags);
export type MessageFlagsRequest = z.input<typeof messageFlagsRequest>;

const targetFolder = z.string().min(1).max(100);

export const moveMessageRequest = z.object({ targetFolder });

export const moveMessagesRequest = z.object({ uids, targetFolder });

export const deleteMessagesRequest = z.object({ uids });

/** A day as `YYYY-MM-DD` that exists; compared with the received date. */
const day = z.iso.date();
const term = z.string().min(1).max(1024);
const addressTerm = z.string().min(1).max(320);

/**
 * Criteria of `searchMessages`. `subject`, `from`, `to`, `cc` and `body` are OR-combined with each other and
 * AND-combined with all the rest. An empty object matches everything.
 */
export const searchRequest = z.object({
  since: day.optional(),
  before: day.optional(),
  /** Messages that carry all of them. */
  flags: z.array(flagName).optional(),
  uid: z
    .string()
    .refine((set) => parseUidSet(set) !== null, { error: 'not an IMAP uid set' })
    .optional(),
  /** `Name:value`, a substring of that header. */
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
const sourceReference = z.object({ uid, folder: z.string().min(1) });

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
          /** How `content` is written; base64 when left out. */
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

/** Both surfaces create webhooks from the same fields. */
export const createWebhookRequest = z.object(webhookFields);
export type CreateWebhookRequest = z.input<typeof createWebhookRequest>;

export const updateWebhookRequest = z.object(webhookFields).partial();
export type UpdateWebhookRequest = z.input<typeof updateWebhookRequest>;
