import { createWebhookRequest, updateWebhookRequest } from './mailbox-requests.ts';
import { operationsOf } from './operation.ts';
import { anyText, page, pageSize, pathId, status, webhookId } from './params.ts';
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

const orderId = pathId('orderId', 'resource id of the mail order');
const mailboxId = pathId('mailboxId', 'resource id of the mailbox');
const ofMailbox = anyText('mailbox_id', 'only those of this mailbox, by its resource id');
const search = anyText('search', 'only mailboxes whose address contains this');
const sort = anyText('sort', 'order; a leading - is descending');

/** The 9 operations of the platform surface that concern webhooks of mail orders. */
export const PLATFORM_OPERATIONS = operationsOf('platform', [401, 404, 422, 500], {
  listWebhooks: {
    method: 'GET',
    path: `${ORDER}/webhooks`,
    params: [orderId, ofMailbox, status, page, pageSize('per_page', 50, 100)],
    response: { kind: 'page', record: platformWebhookRecord },
    summary: 'Webhooks of an order',
  },
  createWebhook: {
    method: 'POST',
    path: '/api/mail/v1/mailboxes/{mailboxId}/webhooks',
    params: [mailboxId],
    body: createWebhookRequest,
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    success: [201],
    summary: 'Create a webhook; the only answer that shows its secret',
  },
  getWebhook: {
    method: 'GET',
    path: WEBHOOK,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookRecord },
    summary: 'One webhook',
  },
  updateWebhook: {
    method: 'PATCH',
    path: WEBHOOK,
    params: [webhookId],
    body: updateWebhookRequest,
    response: { kind: 'bare', record: platformWebhookRecord },
    summary: 'Change a webhook',
  },
  deleteWebhook: {
    method: 'DELETE',
    path: WEBHOOK,
    params: [webhookId],
    response: { kind: 'bare', record: platformMessageRecord },
    destructive: true,
    summary: 'Delete a webhook for good',
  },
  regenerateWebhookSecret: {
    method: 'POST',
    path: `${WEBHOOK}/regenerate-secret`,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookWithSecretRecord },
    destructive: true,
    summary: 'Make a new secret; the old one is dead at once',
  },
  testWebhook: {
    method: 'POST',
    path: `${WEBHOOK}/test`,
    params: [webhookId],
    response: { kind: 'bare', record: platformWebhookTestRecord },
    errors: [401, 404, 422, 429, 500],
    ownLimit: true,
    summary: 'Send one test delivery; rate limited',
  },
  listDeliveryLogs: {
    method: 'GET',
    path: `${ORDER}/webhooks/delivery-logs`,
    params: [orderId, ofMailbox, page, pageSize('per_page', 25, 100)],
    response: { kind: 'page', record: deliveryLogRecord },
    summary: 'What became of the deliveries of an order',
  },
  listMailboxes: {
    method: 'GET',
    path: `${ORDER}/mailboxes`,
    params: [orderId, search, sort, page, pageSize('per_page', 50, 100)],
    response: { kind: 'page', record: platformMailboxRecord },
    summary: 'Mailboxes of an order, with their usage',
  },
});
