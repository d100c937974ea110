import type { z } from 'zod';
import type { Refusal } from '../../mailbox-surface/refusal.ts';
import type { Reply } from '../../mailbox-surface/reply.ts';
import { createWebhookRequest, updateWebhookRequest } from '../../wire/mailbox-requests.ts';
import type { ServiceState } from '../service-state.ts';
import type { Mailbox } from '../store/mailbox.ts';
import { targetProblem } from './target-url.ts';
import type { Webhook } from './webhooks.ts';

/** How a surface reads a call about webhooks, and how it answers one. */
export interface WebhookSurface<Call> {
  /** A body by its schema. @throws Refusal */
  body<T extends z.ZodType>(call: Call, schema: T): z.output<T>;
  /** The mailbox of the path. @throws Refusal */
  mailboxOf(call: Call): Mailbox;
  /** The webhook of the path, with its mailbox. @throws Refusal */
  webhookOf(call: Call): { readonly mailbox: Mailbox; readonly webhook: Webhook };
  /** Refuses a new webhook for a mailbox that may have none. @throws Refusal */
  checkCreate(call: Call, mailbox: Mailbox): void;
  /** The refusal of a target, `must be an https URL` for example. */
  urlRefusal(problem: string): Refusal;
  recordOf(mailbox: Mailbox, webhook: Webhook): object;
  reply(record: object, status?: number): Reply;
}

/** What both surfaces do alike: they manage the same webhooks, from the same fields. */
export function webhookOperations<Call extends { readonly service: ServiceState }>(
  surface: WebhookSurface<Call>,
) {
  const checkUrl = ({ service }: Call, url: string): void => {
    const problem = targetProblem(url, service.settings.localWebhooks);
    if (problem !== null) throw surface.urlRefusal(problem);
  };
  const withSecret = (mailbox: Mailbox, webhook: Webhook): object => ({
    ...surface.recordOf(mailbox, webhook),
    secret: webhook.secret,
  });
  return {
    /** Creates a webhook. Its secret is returned here and never again. */
    createWebhook(call: Call): Reply {
      const mailbox = surface.mailboxOf(call);
      const { name, description, events, status, url } = surface.body(call, createWebhookRequest);
      checkUrl(call, url);
      surface.checkCreate(call, mailbox);
      const webhook = call.service.webhooks.create(mailbox, {
        name,
        description: description ?? null,
        events: [...new Set(events)],
        status: status ?? 'active',
        url,
      });
      return surface.reply(withSecret(mailbox, webhook), 201);
    },

    getWebhook(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      return surface.reply(surface.recordOf(mailbox, webhook));
    },

    updateWebhook(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      const body = surface.body(call, updateWebhookRequest);
      const { name = webhook.name, url = webhook.url, status = webhook.status } = body;
      const { description = webhook.description, events = webhook.events } = body;
      if (body.url !== undefined) checkUrl(call, url);
      const change = { name, url, status, description, events: [...new Set(events)] };
      return surface.reply(
        surface.recordOf(mailbox, call.service.webhooks.update(webhook, change)),
      );
    },

    regenerateWebhookSecret(call: Call): Reply {
      const { mailbox, webhook } = surface.webhookOf(call);
      return surface.reply(withSecret(mailbox, call.service.webhooks.regenerateSecret(webhook)));
    },
  };
}
