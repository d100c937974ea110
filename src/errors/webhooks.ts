import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** Codes of webhooks and their secrets, with the facts that fill their sentences. */
export interface WebhookFacts {
  /** `where` names the accounts or the mailbox that were looked through. */
  readonly 'webhook-unknown': { readonly id: string; readonly where: string };
  readonly 'webhook-ambiguous': { readonly id: string; readonly candidates: readonly string[] };
  /** The secrets' folder or a file in it cannot be written. Nothing was asked of the service. */
  readonly 'webhook-secrets-unwritable': { readonly file: string; readonly reason: string };
  /** A secret that the service will not show again was not stored; `deleted`: the webhook was taken back. */
  readonly 'webhook-secret-lost': {
    readonly id: string;
    readonly file: string;
    readonly reason: string;
    readonly deleted: boolean;
  };
  readonly 'webhook-secret-unreadable': { readonly file: string; readonly reason: string };
  /** A webhook that was created from here does not deliver: mail is found by the schedule only. */
  readonly 'webhook-missing': { readonly id: string };
  /** `status` as the service says it: paused, disabled. */
  readonly 'webhook-off': { readonly id: string; readonly status: string };
  /** `failures` in a row, by the service's log. */
  readonly 'webhook-failing': { readonly id: string; readonly failures: number };
}

export type WebhookCode = keyof WebhookFacts;

const FAMILY: Readonly<Record<WebhookCode, ErrorFamily>> = {
  'webhook-unknown': 'usage',
  'webhook-ambiguous': 'usage',
  'webhook-secrets-unwritable': 'disk',
  'webhook-secret-lost': 'disk',
  'webhook-secret-unreadable': 'disk',
  'webhook-missing': 'origin',
  'webhook-off': 'origin',
  'webhook-failing': 'origin',
};

/** An error about a webhook; its family is in the table above. */
export function webhookError<C extends WebhookCode>(
  code: C,
  facts: WebhookFacts[C],
  cause?: unknown,
): MailkeepError<C, WebhookFacts[C]> {
  return new MailkeepError(FAMILY[code], code, facts, { cause });
}
