import type { z } from 'zod';
import { problemsByField, Refusal, tooSoon } from '../../mailbox-surface/refusal.ts';
import type { Reply } from '../../mailbox-surface/reply.ts';
import { fieldOf } from '../../wire/codec.ts';
import type { PlatformWebhookRecord } from '../../wire/platform-records.ts';
import type { Mailbox } from '../store/mailbox.ts';
import { webhookOperations } from '../webhooks/manage.ts';
import type { Webhook } from '../webhooks/webhooks.ts';
import {
  collection,
  mailboxIdsOf,
  mailboxOf,
  type PlatformCall,
  refused,
  resource,
  webhookOf,
} from './call.ts';

/** A body by its schema. @throws Refusal 422 with every problem by its field */
export function readBody<T extends z.ZodType>(call: PlatformCall, schema: T): z.output<T> {
  const result = schema.safeParse(call.body);
  if (result.success) return result.data;
  const problems = problemsByField(result.error.issues, (issue, field) => {
    const missing =
      issue.code === 'invalid_type' && issue.path.reduce(fieldOf, call.body) === undefined;
    return `The ${field} ${missing ? 'is required' : problemOf(issue)}.`;
  });
  throw refused(problems);
}

function problemOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be of type ${issue.expected}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.format === 'url' ? 'must be an http or https URL' : `must be a ${issue.format}`;
    case 'too_small':
      return `must have at least ${issue.minimum} ${unitOf(issue.origin)}`;
    case 'too_big':
      return `must not have more than ${issue.maximum} ${unitOf(issue.origin)}`;
    default:
      return issue.message;
  }
}

function unitOf(origin: string): string {
  return origin === 'string' ? 'characters' : 'entries';
}

/** In order of creation. */
export function listWebhooks(call: PlatformCall): Reply {
  const { webhooks, store } = call.service;
  const status = call.query.get('status');
  const all = webhooks
    .of(mailboxIdsOf(call))
    .filter((webhook) => status === undefined || webhook.status === status);
  return collection(call, all, (webhook) =>
    webhookRecordOf(store.mailboxes.get(webhook.mailbox), webhook),
  );
}

export const { createWebhook, getWebhook, updateWebhook, regenerateWebhookSecret } =
  webhookOperations<PlatformCall>({
    body: readBody,
    mailboxOf,
    webhookOf,
    checkCreate({ service }, mailbox) {
      if (!service.standings.isSuspended(mailbox)) return;
      throw new Refusal(409, 'ERR_MAILBOX_SUSPENDED', 'The mailbox is suspended.');
    },
    urlRefusal: (problem) => refused({ url: [`The url ${problem}.`] }),
    recordOf: webhookRecordOf,
    reply: resource,
  });

export function deleteWebhook(call: PlatformCall): Reply {
  call.service.webhooks.remove(webhookOf(call).webhook);
  return resource({ message: 'The webhook was deleted.' });
}

/** One delivery, now, whatever the webhook's status; it is not tried again, and rate limited. */
export async function testWebhook(call: PlatformCall): Promise<Reply> {
  const { mailbox, webhook } = webhookOf(call);
  const { deliveries, webhookTests, now } = call.service;
  const rate = webhookTests.take(webhook.id, now());
  if (!rate.allowed) {
    const message = 'This webhook was tested a moment ago; wait and retry';
    throw tooSoon('ERR_WEBHOOK_TEST_RATE_LIMIT', message, rate.retryAfterSeconds);
  }
  const { httpStatus, success, error } = await deliveries.test(mailbox, webhook);
  return resource({
    // An integer or nothing: the interface knows no null here.
    ...(httpStatus === null ? {} : { http_status: httpStatus }),
    is_successful: success,
    error,
  });
}

function webhookRecordOf(mailbox: Mailbox | undefined, webhook: Webhook): PlatformWebhookRecord {
  return {
    id: webhook.id,
    mailbox: { id: webhook.mailbox, address: mailbox?.address ?? '' },
    name: webhook.name,
    description: webhook.description,
    events: webhook.events,
    status: webhook.status,
    url: webhook.url,
    created_at: new Date(webhook.createdAt).toISOString(),
    updated_at: new Date(webhook.updatedAt).toISOString(),
  };
}
