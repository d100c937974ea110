import type { WebhookFinding } from '../delivery-watch/own-webhooks.ts';
import { webhookError } from '../errors/daemon.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { Observation } from '../notify/observation.ts';
import { sentenceOf } from '../wording/sentence-of.ts';

/** What findings about webhooks mean for those who are to be notified. */
export function webhookObservations(findings: readonly WebhookFinding[]): Observation[] {
  return findings.map((finding) => {
    const error = errorOf(finding);
    const subject = { kind: 'webhook' as const, name: finding.webhook.id };
    if (error === null) return { subject, failure: null };
    const { family, code } = error;
    return { subject, failure: { family, code, message: sentenceOf(error).message } };
  });
}

/** Why a webhook does not deliver, as an error; null when it does. */
export function errorOf({
  webhook,
  state,
  status,
  failures,
}: WebhookFinding): MailkeepError | null {
  const { id } = webhook;
  switch (state) {
    case 'well':
      return null;
    case 'missing':
      return webhookError('webhook-missing', { id });
    case 'off':
      return webhookError('webhook-off', { id, status: status ?? '' });
    case 'failing':
      return webhookError('webhook-failing', { id, failures });
  }
}
