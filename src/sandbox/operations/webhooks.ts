import { pageOf } from '../../mailbox-surface/parameters.ts';
import { invalid, Refusal } from '../../mailbox-surface/refusal.ts';
import { dataReply, NO_CONTENT, pageOfAll, type Reply } from '../../mailbox-surface/reply.ts';
import {
  WEBHOOK_STATUSES,
  type WebhookRecord,
  type WebhookTestRecord,
} from '../../wire/mailbox-records.ts';
import type { Mailbox } from '../store/mailbox.ts';
import { webhookOperations } from '../webhooks/manage.ts';
import type { Webhook } from '../webhooks/webhooks.ts';
import { bodyOf, type Call, mailboxOf } from './call.ts';

export function listWebhooks(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const page = pageOf(call.query, 50, 1000);
  const status = call.query.get('status');
  if (status !== null && !WEBHOOK_STATUSES.some((known) => known === status)) {
    throw invalid({ status: [`must be one of ${WEBHOOK_STATUSES.join(', ')}`] });
  }
  const all = call.service.webhooks
    .of(new Set([mailbox.resourceId]))
    .filter((webhook) => status === null || webhook.status === status);
  return pageOfAll(all, page, (webhook) => webhookRecordOf(mailbox, webhook));
}

export const { createWebhook, getWebhook, updateWebhook, regenerateWebhookSecret } =
  webhookOperations<Call>({
    body: bodyOf,
    mailboxOf,
    webhookOf,
    checkCreate: () => {},
    urlRefusal: (problem) => invalid({ url: [problem] }),
    recordOf: webhookRecordOf,
    reply: dataReply,
  });

export function deleteWebhook(call: Call): Reply {
  call.service.webhooks.remove(webhookOf(call).webhook);
  return NO_CONTENT;
}

/** Sends one delivery, now, whatever the webhook's status, without retries. This surface declares no limit for it. */
export async function testWebhook(call: Call): Promise<Reply> {
  const { mailbox, webhook } = webhookOf(call);
  const outcome = await call.service.deliveries.test(mailbox, webhook);
  const record: WebhookTestRecord = {
    // An integer always, as the interface declares it: 0 where no answer came.
    httpStatus: outcome.httpStatus ?? 0,
    success: outcome.success,
    error: outcome.error,
  };
  return dataReply(record);
}

function webhookOf(call: Call): { readonly mailbox: Mailbox; readonly webhook: Webhook } {
  const mailbox = mailboxOf(call);
  const id = call.params.webhookId ?? '';
  const webhook = call.service.webhooks.get(id);
  if (webhook === null || webhook.mailbox !== mailbox.resourceId) {
    throw new Refusal(404, 'ERR_WEBHOOK_NOT_FOUND', 'The webhook does not exist', {
      webhookId: id,
    });
  }
  return { mailbox, webhook };
}

function webhookRecordOf(mailbox: Mailbox, webhook: Webhook): WebhookRecord {
  return {
    id: webhook.id,
    accountResourceId: mailbox.resourceId,
    mailbox: mailbox.address,
    name: webhook.name,
    description: webhook.description,
    events: webhook.events,
    status: webhook.status,
    url: webhook.url,
    createdAt: new Date(webhook.createdAt).toISOString(),
    updatedAt: new Date(webhook.updatedAt).toISOString(),
  };
}
