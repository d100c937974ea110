import { WEBHOOK_STATUSES } from './mailbox-records.ts';
import { createWebhookRequest, updateWebhookRequest } from './mailbox-requests.ts';
import type { Operation, Param } from './operation.ts';
import {
  deliveryLogRecord,
  platformMailboxRecord,
  platformMessageRecord,
  platformWebhookRecord,
  platformWebhookTestRecord,
  platformWebhookWithSecretRecord,
} from './platform-records.ts';

const ORDER = '/api/mail/v1/orders/{orderId}';
const WEBHOOK = '/api/mail/v1/webhooks/{webhookId}';

const orderId: Param = {
  name: 'orderId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'resource id of the mail order',
};
const mailboxId: Param = {
  name: 'mailboxId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'resource id of the mailbox',
};
const webhookId: Param = {
  name: 'webhookId',
  in: 'path',
  type: 'string',
  required: true,
  minLength: 1,
  help: 'id of the webhook',
};
const ofMailbox: Param = {
  name: 'mailbox_id',
  in: 'query',
  type: 'string',
  required: false,
  help: 'only those of this mailbox, by its resource id',
};
const status: Param = {
  name: 'status',
  in: 'query',
  type: 'string',
  required: false,
  values: WEBHOOK_STATUSES,
  help: 'only webhooks of this status',
};
const search: Param = {
  name: 'search',
  in: 'query',
  type: 'string',
  required: false,
  help: 'only mailboxes whose address contains this',
};
const sort: Param = {
  name: 'sort',
  in: 'query',
  type: 'string',
  required: false,
  help: 'order; a leading - is descending',
};
const page: Param = {
  name: 'page',
  in: 'query',
  type: 'integer',
  required: false,
  min: 1,
  default: 1,
  help: 'page, from 1',
};

function perPage(byDefault: number): Param {
  return {
    name: 'per_page',
    in: 'query',
    type: 'integer',
    required: false,
    min: 1,
    max: 100,
    default: byDefault,
    help: 'items a page',
  };
}

const defaults = {
  surface: 'platform',
  body: null,
  read: false,
  destructive: false,
  sideEffect: null,
  ownLimit: false,
  errors: [401, 404, 422, 500],
} as const;

/** The 9 operations of the platform surface that concern webhooks of mail orders. */
export const PLATFORM_OPERATIONS = {
  listWebhooks: {
    ...defaults,
    name: 'platform.listWebhooks',
    method: 'GET',
    path: `${ORDER}/webhooks`,
    params: [orderId, ofMailbox, status, page, perPage(50)],
    response: { kind: 'page', record: platformWebhookRecord },
    success: [200],
    read: true,
    summary: 'Webhooks of an order',
  },
  createWebhook: {
    ...defaults,
    name: 'platform.createWebhook',
    method: 'POST',
    path: '/api/mail/v1/mailboxes/{mailboxId}/webhooks',
    params: [mailboxId],
    body: createWebhookRequest,
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    success: [201],
    summary: 'Create a webhook; the only answer that shows its secret',
  },
  getWebhook: {
    ...defaults,
    name: 'platform.getWebhook',
    method: 'GET',
    path: WEBHOOK,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookRecord },
    success: [200],
    read: true,
    summary: 'One webhook',
  },
  updateWebhook: {
    ...defaults,
    name: 'platform.updateWebhook',
    method: 'PATCH',
    path: WEBHOOK,
    params: [webhookId],
    body: updateWebhookRequest,
    response: { kind: 'bare', record: platformWebhookRecord },
    success: [200],
    summary: 'Change a webhook',
  },
  deleteWebhook: {
    ...defaults,
    name: 'platform.deleteWebhook',
    method: 'DELETE',
    path: WEBHOOK,
    params: [webhookId],
    response: { kind: 'bare', record: platformMessageRecord },
    success: [200],
    destructive: true,
    summary: 'Delete a webhook for good',
  },
  regenerateWebhookSecret: {
    ...defaults,
    name: 'platform.regenerateWebhookSecret',
    method: 'POST',
    path: `${WEBHOOK}/regenerate-secret`,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    success: [200],
    destructive: true,
    summary: 'Make a new secret; the old one is dead at once',
  },
  testWebhook: {
    ...defaults,
    name: 'platform.testWebhook',
    method: 'POST',
    path: `${WEBHOOK}/test`,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookTestRecord },
    success: [200],
    errors: [401, 404, 422, 429, 500],
    ownLimit: true,
    summary: 'Send one test delivery; rate limited',
  },
  listDeliveryLogs: {
    ...defaults,
    name: 'platform.listDeliveryLogs',
    method: 'GET',
    path: `${ORDER}/webhooks/delivery-logs`,
    params: [orderId, ofMailbox, page, perPage(25)],
    response: { kind: 'page', record: deliveryLogRecord },
    success: [200],
    read: true,
    summary: 'What became of the deliveries of an order',
  },
  listMailboxes: {
    ...defaults,
    name: 'platform.listMailboxes',
    method: 'GET',
    path: `${ORDER}/mailboxes`,
    params: [orderId, search, sort, page, perPage(50)],
    response: { kind: 'page', record: platformMailboxRecord },
    success: [200],
    read: true,
    summary: 'Mailboxes of an order, with their usage',
  },
} as const satisfies Record<string, Operation>;
