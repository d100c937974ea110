import type { Listing } from '../mail/words.ts';
import { decodeListing } from '../wire/listing.ts';
import { MAILBOX_OPERATIONS as OPS } from '../wire/mailbox-operations.ts';
import {
  type AccountRecord,
  accountRecord,
  type FlagsResultRecord,
  type FolderRecord,
  flagsResultRecord,
  folderRecord,
  type MessageTextRecord,
  messageTextRecord,
  type QuotaRecord,
  quotaRecord,
  type WebhookRecord,
  type WebhookTestRecord,
  type WebhookWithSecretRecord,
  webhookRecord,
  webhookTestRecord,
  webhookWithSecretRecord,
} from '../wire/mailbox-records.ts';
import type {
  CreateWebhookRequest,
  FeedbackRequest,
  MessageFlagsRequest,
  PatchMessageRequest,
  SearchRequest,
  SendRequest,
  UpdateWebhookRequest,
} from '../wire/mailbox-requests.ts';
import { type Bytes, bySchema, type Page } from './answers.ts';
import { Client, eachPage, type PageOptions } from './client.ts';
import { MOST_MAILBOXES } from './limits.ts';
import type { CallOptions, ClientOptions, SpoolOptions } from './surface-client.ts';
import { tooLarge } from './transport-errors.ts';

/** A folder of a mailbox, as the mailbox surface addresses it. */
export interface FolderRef {
  readonly mailbox: string;
  /** Full path, not encoded. */
  readonly folder: string;
}

export interface MessageRef extends FolderRef {
  readonly uid: number;
}

export interface WebhookRef {
  readonly mailbox: string;
  readonly webhookId: string;
}

export interface MessagePageOptions extends PageOptions {
  readonly sort?: 'uid' | '-uid' | 'date' | '-date' | 'size' | '-size';
}

export interface WebhookPageOptions extends PageOptions {
  readonly status?: 'active' | 'paused' | 'disabled';
}

const account = bySchema(accountRecord);
const folder = bySchema(folderRecord);
const quota = bySchema(quotaRecord);
const messageText = bySchema(messageTextRecord);
const flagsResult = bySchema(flagsResultRecord);
const webhook = bySchema(webhookRecord);
const withSecret = bySchema(webhookWithSecretRecord);
const webhookTest = bySchema(webhookTestRecord);

/**
 * The mailbox surface, whole. Every method is one operation of the interface and, failures apart, one request;
 * those that begin with `each` ask page after page as they are read.
 *
 * All throw: `MailkeepError` with the codes of `origin.ts`; the signal's reason when it aborts.
 */
export class MailboxClient extends Client {
  /** @throws base-url-invalid */
  constructor(options: ClientOptions) {
    super('mailbox', options);
  }

  /** @throws origin.too-large for more mailboxes than any order has */
  async getCurrentAccount(options?: CallOptions): Promise<AccountRecord> {
    const operation = OPS.getCurrentAccount;
    const found = await this.calls.record(operation, {}, undefined, account, options);
    if (found.mailboxes.length <= MOST_MAILBOXES) return found;
    throw tooLarge(operation, this.host, 'mailboxes', MOST_MAILBOXES);
  }

  /** At most one in ten seconds for a customer. */
  submitFeedback(mailbox: string, feedback: FeedbackRequest, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.submitFeedback, inMailbox(mailbox), feedback, options);
  }

  getQuota(mailbox: string, options?: CallOptions): Promise<QuotaRecord> {
    return this.calls.record(OPS.getQuota, inMailbox(mailbox), undefined, quota, options);
  }

  listFolders(mailbox: string, options?: PageOptions): Promise<Page<FolderRecord>> {
    const params = { ...inMailbox(mailbox), ...paging(options) };
    return this.calls.page(OPS.listFolders, params, undefined, folder, options);
  }

  eachFolder(mailbox: string, options?: CallOptions): AsyncGenerator<FolderRecord, void> {
    return this.each(OPS.listFolders, (page) => this.listFolders(mailbox, { ...options, page }));
  }

  /** `name` is the full path of the new folder. */
  createFolder(mailbox: string, name: string, options?: CallOptions): Promise<FolderRecord> {
    return this.calls.record(OPS.createFolder, inMailbox(mailbox), { name }, folder, options);
  }

  /** Renames a folder. */
  updateFolder(at: FolderRef, name: string, options?: CallOptions): Promise<FolderRecord> {
    return this.calls.record(OPS.updateFolder, inFolder(at), { name }, folder, options);
  }

  /** Deletes the folder, its subfolders and all their messages for good. */
  deleteFolder(at: FolderRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteFolder, inFolder(at), undefined, options);
  }

  listMessages(at: FolderRef, options?: MessagePageOptions): Promise<Page<Listing>> {
    const params = { ...inFolder(at), ...paging(options), sort: options?.sort };
    return this.calls.page(OPS.listMessages, params, undefined, decodeListing, options);
  }

  eachMessage(
    at: FolderRef,
    options?: Omit<MessagePageOptions, 'page'>,
  ): AsyncGenerator<Listing, void> {
    return this.each(OPS.listMessages, (page) => this.listMessages(at, { ...options, page }));
  }

  /** Deletes every message of the folder for good. */
  deleteAllMessages(at: FolderRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteAllMessages, inFolder(at), undefined, options);
  }

  searchMessages(
    at: FolderRef,
    criteria: SearchRequest,
    options?: MessagePageOptions,
  ): Promise<Page<Listing>> {
    const params = { ...inFolder(at), ...paging(options), sort: options?.sort };
    return this.calls.page(OPS.searchMessages, params, criteria, decodeListing, options);
  }

  eachFound(
    at: FolderRef,
    criteria: SearchRequest,
    options?: Omit<MessagePageOptions, 'page'>,
  ): AsyncGenerator<Listing, void> {
    return this.each(OPS.searchMessages, (page) =>
      this.searchMessages(at, criteria, { ...options, page }),
    );
  }

  /** Up to 100 messages; those that could not be changed are named in `failed`. */
  updateMessageFlags(
    at: FolderRef,
    change: MessageFlagsRequest,
    options?: CallOptions,
  ): Promise<FlagsResultRecord> {
    return this.calls.record(OPS.updateMessageFlags, inFolder(at), change, flagsResult, options);
  }

  /** Up to 100 messages. */
  moveMessages(
    at: FolderRef,
    uids: number[],
    targetFolder: string,
    options?: CallOptions,
  ): Promise<void> {
    return this.calls.done(OPS.moveMessages, inFolder(at), { uids, targetFolder }, options);
  }

  /** Deletes up to 100 messages for good. */
  deleteMessages(at: FolderRef, uids: number[], options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteMessages, inFolder(at), { uids }, options);
  }

  getMessage(at: MessageRef, options?: CallOptions): Promise<Listing> {
    return this.calls.record(OPS.getMessage, inMessage(at), undefined, decodeListing, options);
  }

  patchMessage(
    at: MessageRef,
    change: PatchMessageRequest,
    options?: CallOptions,
  ): Promise<Listing> {
    return this.calls.record(OPS.patchMessage, inMessage(at), change, decodeListing, options);
  }

  /** Deletes the message for good. */
  deleteMessage(at: MessageRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteMessage, inMessage(at), undefined, options);
  }

  /**
   * Returns the raw source, complete as far as HTTP shows it: of type `message/rfc822` and as long as announced. Above
   * the limit for memory it comes as a file of mode 0600, which the caller deletes.
   *
   * @throws origin.not-mail for anything of another type, origin.too-large, spool-failed
   */
  getMessageSource(at: MessageRef, options?: SpoolOptions): Promise<Bytes> {
    return this.calls.bytes(OPS.getMessageSource, inMessage(at), options);
  }

  /** The rendered text and HTML. The service marks the message as read. */
  getMessageText(at: MessageRef, options?: CallOptions): Promise<MessageTextRecord> {
    return this.calls.record(OPS.getMessageText, inMessage(at), undefined, messageText, options);
  }

  /** One attachment, decoded; as a file where it is too large for memory. */
  getMessageAttachment(
    at: MessageRef,
    attachmentId: string,
    options?: SpoolOptions,
  ): Promise<Bytes> {
    const params = { ...inMessage(at), attachmentId };
    return this.calls.bytes(OPS.getMessageAttachment, params, options);
  }

  moveMessage(at: MessageRef, targetFolder: string, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.moveMessage, inMessage(at), { targetFolder }, options);
  }

  /** Sends a message, a reply (`inReplyTo`) or a forward (`forwardOf`). */
  sendEmail(mailbox: string, mail: SendRequest, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.sendEmail, inMailbox(mailbox), mail, options);
  }

  listWebhooks(mailbox: string, options?: WebhookPageOptions): Promise<Page<WebhookRecord>> {
    const params = { ...inMailbox(mailbox), ...paging(options), status: options?.status };
    return this.calls.page(OPS.listWebhooks, params, undefined, webhook, options);
  }

  eachWebhook(
    mailbox: string,
    options?: Omit<WebhookPageOptions, 'page'>,
  ): AsyncGenerator<WebhookRecord, void> {
    return this.each(OPS.listWebhooks, (page) => this.listWebhooks(mailbox, { ...options, page }));
  }

  /** The secret is shown here and never again. */
  createWebhook(
    mailbox: string,
    fields: CreateWebhookRequest,
    options?: CallOptions,
  ): Promise<WebhookWithSecretRecord> {
    const params = inMailbox(mailbox);
    return this.calls.record(OPS.createWebhook, params, fields, withSecret, options);
  }

  getWebhook(at: WebhookRef, options?: CallOptions): Promise<WebhookRecord> {
    return this.calls.record(OPS.getWebhook, inWebhook(at), undefined, webhook, options);
  }

  updateWebhook(
    at: WebhookRef,
    fields: UpdateWebhookRequest,
    options?: CallOptions,
  ): Promise<WebhookRecord> {
    return this.calls.record(OPS.updateWebhook, inWebhook(at), fields, webhook, options);
  }

  /** Deletes the webhook for good. */
  deleteWebhook(at: WebhookRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteWebhook, inWebhook(at), undefined, options);
  }

  /** The old secret is dead at once. */
  regenerateWebhookSecret(at: WebhookRef, options?: CallOptions): Promise<WebhookWithSecretRecord> {
    const params = inWebhook(at);
    return this.calls.record(OPS.regenerateWebhookSecret, params, undefined, withSecret, options);
  }

  testWebhook(at: WebhookRef, options?: CallOptions): Promise<WebhookTestRecord> {
    return this.calls.record(OPS.testWebhook, inWebhook(at), undefined, webhookTest, options);
  }
}

function paging(options: PageOptions | undefined) {
  return { page: options?.page, perPage: options?.perPage ?? 100 };
}

function inMailbox(mailbox: string) {
  return { mailboxResourceId: mailbox };
}

function inFolder({ mailbox, folder }: FolderRef) {
  return { mailboxResourceId: mailbox, folder };
}

function inMessage({ mailbox, folder, uid }: MessageRef) {
  return { mailboxResourceId: mailbox, folder, uid };
}

function inWebhook({ mailbox, webhookId }: WebhookRef) {
  return { mailboxResourceId: mailbox, webhookId };
}

/** Lists folders as `eachFolder` does, with the total of each page. */
export function folderPages(
  client: MailboxClient,
  mailbox: string,
  options?: CallOptions,
): AsyncGenerator<Page<FolderRecord>, void> {
  const read = (page: number) => client.listFolders(mailbox, { ...options, page });
  return eachPage(OPS.listFolders, client.host, read);
}

/** Returns the error for a listing of folders that is longer than its reader takes. */
export function tooManyFolders(
  client: MailboxClient,
  what: 'folders' | 'folder names',
  limit: number,
): Error {
  return tooLarge(OPS.listFolders, client.host, what, limit);
}
