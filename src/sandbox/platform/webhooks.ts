import type { z } from 'zod';
import { createWebhookRequest, updateWebhookRequest } from '../../wire/mailbox-requests.ts';
import type {
  PlatformWebhookRecord,
  PlatformWebhookWithSecretRecord,
} from '../../wire/platform-records.ts';
import { Refusal } from '../http/refusal.ts';
import type { Reply } from '../http/reply.ts';
import type { Mailbox } from '../store/mailbox.ts';
import { targetProblem } from '../webhooks/target-url.ts';
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
  const fields: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const field = issue.path.map(String).join('.') || 'body';
    const missing = issue.code === 'invalid_type' && valueAt(call.body, issue.path) === undefined;
    const problem = missing ? 'is required' : problemOf(issue);
    fields[field] = [...(fields[field] ?? []), `The ${field} ${problem}.`];
  }
  throw refused(fields);
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

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null
        ? Object.getOwnPropertyDescriptor(value, key)?.value
        : undefined,
    body,
  );
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

/** Creates a webhook. Its secret is returned here and never again. */
export function createWebhook(call: PlatformCall): Reply {
  const mailbox = mailboxOf(call);
  const body = readBody(call, createWebhookRequest);
  checkUrl(call, body.url);
  if (call.service.standings.isSuspended(mailbox)) {
    throw new Refusal(409, 'ERR_MAILBOX_SUSPENDED', 'The mailbox is suspended.');
  }
  const webhook = call.service.webhooks.create(mailbox, {
    name: body.name,
    description: body.description ?? null,
    events: [...new Set(body.events)],
    status: body.status ?? 'active',
    url: body.url,
  });
  return resource(withSecret(mailbox, webhook), 201);
}

export function getWebhook(call: PlatformCall): Reply {
  const { mailbox, webhook } = webhookOf(call);
  return resource(webhookRecordOf(mailbox, webhook));
}

export function updateWebhook(call: PlatformCall): Reply {
  const { mailbox, webhook } = webhookOf(call);
  const { name, url, events, description, status } = readBody(call, updateWebhookRequest);
  if (url !== undefined) checkUrl(call, url);
  const updated = call.service.webhooks.update(webhook, {
    ...(name === undefined ? {} : { name }),
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { events: [...new Set(events)] }),
    ...(description === undefined ? {} : { description }),
    ...(status === undefined ? {} : { status }),
  });
  return resource(webhookRecordOf(mailbox, updated));
}

export function deleteWebhook(call: PlatformCall): Reply {
  call.service.webhooks.remove(webhookOf(call).webhook);
  return resource({ message: 'The webhook was deleted.' });
}

export function regenerateWebhookSecret(call: PlatformCall): Reply {
  const { mailbox, webhook } = webhookOf(call);
  return resource(withSecret(mailbox, call.service.webhooks.regenerateSecret(webhook)));
}

/** One delivery, now, whatever the webhook's status; it is not tried again, and rate limited. */
export async function testWebhook(call: PlatformCall): Promise<Reply> {
  const { mailbox, webhook } = webhookOf(call);
  const { httpStatus, success, error } = await call.service.webhookTests.send(mailbox, webhook);
  return resource({
    // An integer or nothing: the interface knows no null here.
    ...(httpStatus === null ? {} : { http_status: httpStatus }),
    is_successful: success,
    error,
  });
}

function checkUrl(call: PlatformCall, url: string): void {
  const problem = targetProblem(url, call.service.settings.localWebhooks);
  if (problem !== null) throw refused({ url: [`The url ${problem}.`] });
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

function withSecret(mailbox: Mailbox, webhook: Webhook): PlatformWebhookWithSecretRecord {
  return { ...webhookRecordOf(mailbox, webhook), secret: webhook.secret };
}
