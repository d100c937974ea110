import type { CreateWebhookRequest, UpdateWebhookRequest } from '../wire/mailbox-requests.ts';
import { PLATFORM_OPERATIONS as OPS } from '../wire/platform-operations.ts';
import {
  type DeliveryLogRecord,
  deliveryLogRecord,
  type PlatformMailboxRecord,
  type PlatformMessageRecord,
  type PlatformWebhookRecord,
  type PlatformWebhookTestRecord,
  type PlatformWebhookWithSecretRecord,
  platformMailboxRecord,
  platformMessageRecord,
  platformWebhookRecord,
  platformWebhookTestRecord,
  platformWebhookWithSecretRecord,
} from '../wire/platform-records.ts';
import { bySchema, type Page } from './answers.ts';
import { Client, type PageOptions } from './client.ts';
import type { Accepted, CallOptions, ClientOptions } from './surface-client.ts';

export interface PlatformWebhookPageOptions extends PageOptions {
  /** Only those of this mailbox, by its resource id. */
  readonly mailboxId?: string;
  readonly status?: 'active' | 'paused' | 'disabled';
}

export interface DeliveryLogPageOptions extends PageOptions {
  /** Only those of this mailbox, by its resource id. */
  readonly mailboxId?: string;
}

export interface PlatformMailboxPageOptions extends PageOptions {
  readonly search?: string;
  readonly sort?: string;
}

const webhook = bySchema(platformWebhookRecord);
const withSecret = bySchema(platformWebhookWithSecretRecord);
const webhookTest = bySchema(platformWebhookTestRecord);
const message = bySchema(platformMessageRecord);
const deliveryLog = bySchema(deliveryLogRecord);
const mailbox = bySchema(platformMailboxRecord);

/**
 * The platform surface, as far as it concerns webhooks of mail orders; its records are in snake_case as they
 * come. Every method is one operation and, failures apart, one request; those that begin with `each` ask page
 * after page as they are read. What changes something may be answered with 202: then it returns `Accepted`.
 *
 * All throw: `MailkeepError` with the codes of `origin.ts`; the signal's reason when it aborts. This surface
 * says 404 where the token may not see a resource.
 */
export class PlatformClient extends Client {
  /** @throws base-url-invalid */
  constructor(options: ClientOptions) {
    super('platform', options);
  }

  listWebhooks(
    orderId: string,
    options?: PlatformWebhookPageOptions,
  ): Promise<Page<PlatformWebhookRecord>> {
    const params = {
      orderId,
      mailbox_id: options?.mailboxId,
      status: options?.status,
      ...paging(options),
    };
    return this.calls.page(OPS.listWebhooks, params, undefined, webhook, options);
  }

  eachWebhook(
    orderId: string,
    options?: Omit<PlatformWebhookPageOptions, 'page'>,
  ): AsyncGenerator<PlatformWebhookRecord, void> {
    return this.each(OPS.listWebhooks, (page) => this.listWebhooks(orderId, { ...options, page }));
  }

  /** The secret is shown here and never again. */
  createWebhook(
    mailboxId: string,
    fields: CreateWebhookRequest,
    options?: CallOptions,
  ): Promise<PlatformWebhookWithSecretRecord | Accepted> {
    const params = { mailboxId };
    return this.calls.recordOrAccepted(OPS.createWebhook, params, fields, withSecret, options);
  }

  getWebhook(webhookId: string, options?: CallOptions): Promise<PlatformWebhookRecord> {
    return this.calls.record(OPS.getWebhook, { webhookId }, undefined, webhook, options);
  }

  updateWebhook(
    webhookId: string,
    fields: UpdateWebhookRequest,
    options?: CallOptions,
  ): Promise<PlatformWebhookRecord | Accepted> {
    const params = { webhookId };
    return this.calls.recordOrAccepted(OPS.updateWebhook, params, fields, webhook, options);
  }

  /** Deletes the webhook for good. */
  deleteWebhook(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformMessageRecord | Accepted> {
    const params = { webhookId };
    return this.calls.recordOrAccepted(OPS.deleteWebhook, params, undefined, message, options);
  }

  /** The old secret is dead at once. */
  regenerateWebhookSecret(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformWebhookWithSecretRecord | Accepted> {
    const operation = OPS.regenerateWebhookSecret;
    const params = { webhookId };
    return this.calls.recordOrAccepted(operation, params, undefined, withSecret, options);
  }

  /** Sends one test delivery; rate limited on its own. */
  testWebhook(
    webhookId: string,
    options?: CallOptions,
  ): Promise<PlatformWebhookTestRecord | Accepted> {
    const params = { webhookId };
    return this.calls.recordOrAccepted(OPS.testWebhook, params, undefined, webhookTest, options);
  }

  listDeliveryLogs(
    orderId: string,
    options?: DeliveryLogPageOptions,
  ): Promise<Page<DeliveryLogRecord>> {
    const params = { orderId, mailbox_id: options?.mailboxId, ...paging(options) };
    return this.calls.page(OPS.listDeliveryLogs, params, undefined, deliveryLog, options);
  }

  eachDeliveryLog(
    orderId: string,
    options?: Omit<DeliveryLogPageOptions, 'page'>,
  ): AsyncGenerator<DeliveryLogRecord, void> {
    return this.each(OPS.listDeliveryLogs, (page) =>
      this.listDeliveryLogs(orderId, { ...options, page }),
    );
  }

  listMailboxes(
    orderId: string,
    options?: PlatformMailboxPageOptions,
  ): Promise<Page<PlatformMailboxRecord>> {
    const params = { orderId, search: options?.search, sort: options?.sort, ...paging(options) };
    return this.calls.page(OPS.listMailboxes, params, undefined, mailbox, options);
  }

  eachMailbox(
    orderId: string,
    options?: Omit<PlatformMailboxPageOptions, 'page'>,
  ): AsyncGenerator<PlatformMailboxRecord, void> {
    return this.each(OPS.listMailboxes, (page) =>
      this.listMailboxes(orderId, { ...options, page }),
    );
  }
}

function paging(options: PageOptions | undefined) {
  return { page: options?.page, per_page: options?.perPage ?? 100 };
}
