import type { WebhookFacts } from '../errors/webhooks.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

export const WEBHOOK_SENTENCES: Sentences<WebhookFacts> = {
  'webhook-unknown': ({ id, where }) =>
    say(
      `There is no webhook whose id begins with "${id}" in ${where}.`,
      '"mailkeep webhooks list" shows them with their ids; at least 4 characters are needed.',
    ),
  'webhook-ambiguous': ({ id, candidates }) =>
    say(
      `${id} is the beginning of several ids: ${some(candidates, 6)}.`,
      'Type a few more characters.',
    ),
  'webhook-secrets-unwritable': ({ file, reason }) =>
    say(
      `The secret of a webhook could not be kept in ${file}: ${reasonText(reason)}. No webhook was created.`,
      'Look at the disk and its permissions, or name another folder with --data DIR.',
    ),
  'webhook-secret-lost': ({ id, file, reason, deleted }) =>
    say(
      `The secret of webhook ${id} could not be written to ${file}: ${reasonText(reason)}. ${
        deleted
          ? 'The webhook was deleted again.'
          : 'The webhook is there all the same, and nobody knows its secret.'
      }`,
      deleted
        ? 'Look at the disk, then create it again.'
        : `"mailkeep webhooks delete ${id}" removes it.`,
    ),
  'webhook-secret-unreadable': ({ file, reason }) =>
    say(
      `${file} does not hold the secret of a webhook as it should: ${reasonText(reason)}.`,
      'Delete that webhook, and create it again.',
    ),
  'webhook-missing': ({ id }) =>
    say(
      `The service does not know webhook ${id} any more: new mail is found by the schedule only.`,
      '"mailkeep webhooks ensure" creates it again.',
    ),
  'webhook-off': ({ id, status }) =>
    say(
      `Webhook ${id} is ${status} at the service: new mail is found by the schedule only.`,
      `"mailkeep webhooks resume ${id}" or "mailkeep webhooks ensure" makes it deliver again.`,
    ),
  'webhook-failing': ({ id, failures }) =>
    say(
      `The last ${failures === 1 ? 'delivery' : `${failures} deliveries`} of webhook ${id} failed: new mail is found by the schedule only.`,
      `"mailkeep webhooks test ${id}" says why.`,
    ),
};
