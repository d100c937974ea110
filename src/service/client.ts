import { createHash } from 'node:crypto';
import type { Listing } from '../core/types.ts';
import { originError } from './errors.ts';
import {
  type AccountRecord,
  type CreateWebhookRequest,
  type FeedbackRequest,
  type FlagsResultRecord,
  type FolderRecord,
  type MessageFlagsRequest,
  type MessageTextRecord,
  MAILBOX_OPERATIONS as OPS,
  type PatchMessageRequest,
  type QuotaRecord,
  type SearchRequest,
  type SendRequest,
  type UpdateWebhookRequest,
  type WebhookRecord,
  type WebhookTestRecord,
  type WebhookWithSecretRecord,
} from './mailbox-wire.ts';
import {
  type DeliveryLogRecord,
  PLATFORM_OPERATIONS as PLATFORM,
  type PlatformMailboxRecord,
  type PlatformMessageRecord,
  type PlatformWebhookRecord,
  type PlatformWebhookTestRecord,
  type PlatformWebhookWithSecretRecord,
} from './platform-wire.ts';
import {
  type Bytes,
  MAX_IDLE_PAGES,
  MAX_MAILBOXES,
  MAX_MESSAGE_PAGES,
  MAX_PAGES,
  type Page,
  type ParamValues,
} from './requests.ts';
import {
  type Accepted,
  type CallOptions,
  type ClientOptions,
  type PageOptions,
  type RawAnswer,
  type SpoolOptions,
  SurfaceClient,
} from './surface-client.ts';
import { tooLarge } from './transport.ts';
import type { Operation, Surface } from './wire.ts';

abstract class Client {
  protected readonly calls: SurfaceClient;

  /** @throws base-url-invalid */
  constructor(surface: Surface, options: ClientOptions) {
    this.calls = new SurfaceClient(surface, options);
  }

  get host(): string {
    return this.calls.host;
  }

  close(): Promise<void> {
    return this.calls.close();
  }

  /** Calls any operation of the API. Checks only the content type of the response. */
  call(
    operation: Operation,
    params: ParamValues,
    body?: unknown,
    options?: SpoolOptions,
  ): Promise<RawAnswer> {
    return this.calls.raw(operation, params, body, options);
  }

  protected async *each<T>(
    operation: Operation,
    read: (page: number) => Promise<Page<T>>,
  ): AsyncGenerator<T, void, undefined> {
    for await (const { items } of eachPage(operation, this.host, read)) yield* items;
  }
}

/**
 * Yields a collection's pages on demand with one request each, omitting items repeated from the previous page. Pages
 * are offsets into a set that can change between requests, so an item may still be repeated or missing. Only the
 * service's total marks the end; a short page does not.
 *
 * @throws origin.paging if pages contain nothing new before the total is reached
 * @throws origin.too-large if the total implies more pages than any real collection has
 */
export async function* eachPage<T>(
  operation: Operation,
  host: string,
  read: (page: number) => Promise<Page<T>>,
): AsyncGenerator<Page<T>, void, undefined> {
  const maxPages = MESSAGES.has(operation.name) ? MAX_MESSAGE_PAGES : MAX_PAGES;
  const previousHashes = new Set<string>();
  let before: ReadonlySet<string> = new Set();
  let shown = 0;
  /** Number of items on all pages, including repeats, because new items at the start shift the others back. */
  let itemCount = 0;
  let idle = 0;
  for (let page = 1; page <= maxPages; page += 1) {
    const answer = await read(page);
    const hashes = answer.items.map(hashItem);
    const isRepeated = previousHashes.has(hashItem(hashes));
    const items = isRepeated ? [] : answer.items.filter((_, i) => !before.has(hashes[i] ?? ''));
    if (!isRepeated) {
      previousHashes.add(hashItem(hashes));
      before = new Set(hashes);
      itemCount += answer.items.length;
    }
    shown += items.length;
    yield { ...answer, items };
    if (shown >= answer.total || (items.length === 0 && itemCount >= answer.total)) return;
    idle = items.length === 0 ? idle + 1 : 0;
    if (idle >= MAX_IDLE_PAGES) {
      const facts = { operation: operation.name, host, page, shown, total: answer.total };
      throw originError('origin.paging', facts);
    }
  }
  throw tooLarge(operation, host, 'pages', maxPages);
}

const MESSAGES: ReadonlySet<string> = new Set(['listMessages', 'searchMessages']);

function hashItem(item: unknown): string {
  return createHash('sha256').update(JSON.stringify(item)).digest('base64');
}

export interface PlatformWebhookPageOptions extends PageOptions {
  /** Resource id of a mailbox, to list only its webhooks. */
  readonly mailboxId?: string;
  readonly status?: 'active' | 'paused' | 'disabled';
}

export interface DeliveryLogPageOptions extends PageOptions {
  /** Resource id of a mailbox, to list only its deliveries. */
  readonly mailboxId?: string;
}

export interface PlatformMailboxPageOptions extends PageOptions {
  readonly search?: string;
  readonly sort?: string;
}

/**
 * Platform API client for the webhooks of mail orders. Records keep their snake_case. Every method is one operation
 * and, except for retries, one request; `each…` methods request pages as they are consumed. Writes that the service
 * answers with 202 return `Accepted`.
 *
 * All methods throw `MailkeepError` with a code from `errors.ts`, or the signal's reason if it aborts. The API returns
 * 404 for a resource that the token cannot access.
 */
export class PlatformClient extends Client {
  constructor(options: ClientOptions) {
    super('platform', options);
  }

  listWebhooks(
    orderId: string,
    options?: PlatformWebhookPageOptions,
  ): Promise<Page<PlatformWebhookRecord>> {
    const params = { orderId, mailbox_id: options?.mailboxId, status: options?.status };
    return this.calls.page(PLATFORM.listWebhooks, params, undefined, options);
  }

  eachWebhook(
    orderId: string,
    options?: Omit<PlatformWebhookPageOptions, 'page'>,
  ): AsyncGenerator<PlatformWebhookRecord, void> {
    return this.each(PLATFORM.listWebhooks, (page) =>
      this.listWebhooks(orderId, { ...options, page }),
    );
  }

  /** Returns the webhook's secret, which the service shows only once. */
  createWebhook(
    mailboxId: string,
    fields: CreateWebhookRequest,
    options?: CallOptions,
  ): Promise<PlatformWebhookWithSecretRecord | Accepted> {
    return this.calls.recordOrAccepted(PLATFORM.createWebhook, { mailboxId }, fields, options);
  }

  getWebhook(webhookId: string, options?: CallOptions): Promise<PlatformWebhookRecord> {
    return this.calls.record(PLATFORM.getWebhook, { webhookId }, undefined, options);
  }

  updateWebhook(
    webhookId: string,
    fields: UpdateWebhookRequest,
    options?: CallOptions,
  ): Promise<PlatformWebhookRecord | Accepted> {
    return this.calls.recordOrAccepted(PLATFORM.updateWebhook, { webhookId }, fields, options);
  }

  deleteWebhook(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformMessageRecord | Accepted> {
    return this.calls.recordOrAccepted(PLATFORM.deleteWebhook, { webhookId }, undefined, options);
  }

  /** Replaces the secret. The old secret becomes invalid immediately. */
  regenerateWebhookSecret(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformWebhookWithSecretRecord | Accepted> {
    const operation = PLATFORM.regenerateWebhookSecret;
    return this.calls.recordOrAccepted(operation, { webhookId }, undefined, options);
  }

  /** Sends a single test delivery. This operation has its own rate limit. */
  testWebhook(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformWebhookTestRecord | Accepted> {
    return this.calls.recordOrAccepted(PLATFORM.testWebhook, { webhookId }, undefined, options);
  }

  listDeliveryLogs(
    orderId: string,
    options?: DeliveryLogPageOptions,
  ): Promise<Page<DeliveryLogRecord>> {
    const params = { orderId, mailbox_id: options?.mailboxId };
    return this.calls.page(PLATFORM.listDeliveryLogs, params, undefined, options);
  }

  eachDeliveryLog(
    orderId: string,
    options?: Omit<DeliveryLogPageOptions, 'page'>,
  ): AsyncGenerator<DeliveryLogRecord, void> {
    return this.each(PLATFORM.listDeliveryLogs, (page) =>
      this.listDeliveryLogs(orderId, { ...options, page }),
    );
  }

  listMailboxes(
    orderId: string,
    options?: PlatformMailboxPageOptions,
  ): Promise<Page<PlatformMailboxRecord>> {
    const params = { orderId, search: options?.search, sort: options?.sort };
    return this.calls.page(PLATFORM.listMailboxes, params, undefined, options);
  }

  eachMailbox(
    orderId: string,
    options?: Omit<PlatformMailboxPageOptions, 'page'>,
  ): AsyncGenerator<PlatformMailboxRecord, void> {
    return this.each(PLATFORM.listMailboxes, (page) =>
      this.listMailboxes(orderId, { ...options, page }),
    );
  }
}

/** A folder in a mailbox, as addressed by the Mailbox API. */
export interface FolderRef {
  readonly mailbox: string;
  /** Full path, unencoded. */
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

/**
 * Client for the whole Mailbox API. Every method is one operation and, except for retries, one request; `each…` methods
 * request pages as they are consumed.
 *
 * All methods throw `MailkeepError` with a code from `errors.ts`, or the signal's reason if it aborts.
 */
export class MailboxClient extends Client {
  constructor(options: ClientOptions) {
    super('mailbox', options);
  }

  /** @throws origin.too-large if there are more mailboxes than any order has */
  async getCurrentAccount(options?: CallOptions): Promise<AccountRecord> {
    const operation = OPS.getCurrentAccount;
    const account = await this.calls.record(operation, {}, undefined, options);
    if (account.mailboxes.length <= MAX_MAILBOXES) return account;
    throw tooLarge(operation, this.host, 'mailboxes', MAX_MAILBOXES);
  }

  /** Submits feedback. The service accepts one submission per customer every ten seconds. */
  submitFeedback(mailbox: string, feedback: FeedbackRequest, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.submitFeedback, mailboxParams(mailbox), feedback, options);
  }

  getQuota(mailbox: string, options?: CallOptions): Promise<QuotaRecord> {
    return this.calls.record(OPS.getQuota, mailboxParams(mailbox), undefined, options);
  }

  listFolders(mailbox: string, options?: PageOptions): Promise<Page<FolderRecord>> {
    return this.calls.page(OPS.listFolders, mailboxParams(mailbox), undefined, options);
  }

  eachFolder(mailbox: string, options?: CallOptions): AsyncGenerator<FolderRecord, void> {
    return this.each(OPS.listFolders, (page) => this.listFolders(mailbox, { ...options, page }));
  }

  /** `name` is the full path of the new folder. */
  createFolder(mailbox: string, name: string, options?: CallOptions): Promise<FolderRecord> {
    return this.calls.record(OPS.createFolder, mailboxParams(mailbox), { name }, options);
  }

  updateFolder(at: FolderRef, name: string, options?: CallOptions): Promise<FolderRecord> {
    return this.calls.record(OPS.updateFolder, folderParams(at), { name }, options);
  }

  /** Deletes the folder, its subfolders and all their messages permanently. */
  deleteFolder(at: FolderRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteFolder, folderParams(at), undefined, options);
  }

  listMessages(at: FolderRef, options?: MessagePageOptions): Promise<Page<Listing>> {
    const params = { ...folderParams(at), sort: options?.sort };
    return this.calls.page(OPS.listMessages, params, undefined, options);
  }

  eachMessage(
    at: FolderRef,
    options?: Omit<MessagePageOptions, 'page'>,
  ): AsyncGenerator<Listing, void> {
    return this.each(OPS.listMessages, (page) => this.listMessages(at, { ...options, page }));
  }

  deleteAllMessages(at: FolderRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteAllMessages, folderParams(at), undefined, options);
  }

  searchMessages(
    at: FolderRef,
    criteria: SearchRequest,
    options?: MessagePageOptions,
  ): Promise<Page<Listing>> {
    const params = { ...folderParams(at), sort: options?.sort };
    return this.calls.page(OPS.searchMessages, params, criteria, options);
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

  /** Changes up to 100 messages. `failed` lists the messages that could not be changed. */
  updateMessageFlags(
    at: FolderRef,
    change: MessageFlagsRequest,
    options?: CallOptions,
  ): Promise<FlagsResultRecord> {
    return this.calls.record(OPS.updateMessageFlags, folderParams(at), change, options);
  }

  moveMessages(
    at: FolderRef,
    uids: number[],
    targetFolder: string,
    options?: CallOptions,
  ): Promise<void> {
    return this.calls.done(OPS.moveMessages, folderParams(at), { uids, targetFolder }, options);
  }

  /** Deletes up to 100 messages permanently. */
  deleteMessages(at: FolderRef, uids: number[], options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteMessages, folderParams(at), { uids }, options);
  }

  getMessage(at: MessageRef, options?: CallOptions): Promise<Listing> {
    return this.calls.record(OPS.getMessage, inMessage(at), undefined, options);
  }

  patchMessage(
    at: MessageRef,
    change: PatchMessageRequest,
    options?: CallOptions,
  ): Promise<Listing> {
    return this.calls.record(OPS.patchMessage, inMessage(at), change, options);
  }

  deleteMessage(at: MessageRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteMessage, inMessage(at), undefined, options);
  }

  /**
   * Returns the raw source after checking its type (`message/rfc822`) and its declared length. Above the memory limit,
   * the source is in a file with mode 0600, which the caller must delete.
   *
   * @throws origin.not-mail for any other type, origin.too-large, spool-failed
   */
  getMessageSource(at: MessageRef, options?: SpoolOptions): Promise<Bytes> {
    return this.calls.bytes(OPS.getMessageSource, inMessage(at), options);
  }

  /** Returns the rendered text and HTML. The service marks the message as read. */
  getMessageText(at: MessageRef, options?: CallOptions): Promise<MessageTextRecord> {
    return this.calls.record(OPS.getMessageText, inMessage(at), undefined, options);
  }

  /** Returns a decoded attachment, which is in a file if it exceeds the memory limit. */
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
    return this.calls.done(OPS.sendEmail, mailboxParams(mailbox), mail, options);
  }

  listWebhooks(mailbox: string, options?: WebhookPageOptions): Promise<Page<WebhookRecord>> {
    const params = { ...mailboxParams(mailbox), status: options?.status };
    return this.calls.page(OPS.listWebhooks, params, undefined, options);
  }

  eachWebhook(
    mailbox: string,
    options?: Omit<WebhookPageOptions, 'page'>,
  ): AsyncGenerator<WebhookRecord, void> {
    return this.each(OPS.listWebhooks, (page) => this.listWebhooks(mailbox, { ...options, page }));
  }

  /** Returns the webhook's secret, which the service shows only once. */
  createWebhook(
    mailbox: string,
    fields: CreateWebhookRequest,
    options?: CallOptions,
  ): Promise<WebhookWithSecretRecord> {
    return this.calls.record(OPS.createWebhook, mailboxParams(mailbox), fields, options);
  }

  getWebhook(at: WebhookRef, options?: CallOptions): Promise<WebhookRecord> {
    return this.calls.record(OPS.getWebhook, webhookParams(at), undefined, options);
  }

  updateWebhook(
    at: WebhookRef,
    fields: UpdateWebhookRequest,
    options?: CallOptions,
  ): Promise<WebhookRecord> {
    return this.calls.record(OPS.updateWebhook, webhookParams(at), fields, options);
  }

  deleteWebhook(at: WebhookRef, options?: CallOptions): Promise<void> {
    return this.calls.done(OPS.deleteWebhook, webhookParams(at), undefined, options);
  }

  /** Replaces the secret. The old secret becomes invalid immediately. */
  regenerateWebhookSecret(at: WebhookRef, options?: CallOptions): Promise<WebhookWithSecretRecord> {
    return this.calls.record(OPS.regenerateWebhookSecret, webhookParams(at), undefined, options);
  }

  testWebhook(at: WebhookRef, options?: CallOptions): Promise<WebhookTestRecord> {
    return this.calls.record(OPS.testWebhook, webhookParams(at), undefined, options);
  }
}

function mailboxParams(mailbox: string) {
  return { mailboxResourceId: mailbox };
}

function folderParams({ mailbox, folder }: FolderRef) {
  return { mailboxResourceId: mailbox, folder };
}

function inMessage({ mailbox, folder, uid }: MessageRef) {
  return { mailboxResourceId: mailbox, folder, uid };
}

function webhookParams({ mailbox, webhookId }: WebhookRef) {
  return { mailboxResourceId: mailbox, webhookId };
}

/** Lists folders like `eachFolder`, but yields whole pages with their total. */
export function folderPages(
  client: MailboxClient,
  mailbox: string,
  options?: CallOptions,
): AsyncGenerator<Page<FolderRecord>, void> {
  const readPage = (page: number) => client.listFolders(mailbox, { ...options, page });
  return eachPage(OPS.listFolders, client.host, readPage);
}

/** Returns the error for a folder listing that exceeds its limit. */
export function tooManyFolders(
  client: MailboxClient,
  what: 'folders' | 'folder names',
  limit: number,
): Error {
  return tooLarge(OPS.listFolders, client.host, what, limit);
}
