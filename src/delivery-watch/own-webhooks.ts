import type { LoggedDelivery } from './delivery-log.ts';

/**
 * Returns whether two addresses of deliveries are the same as URLs: the case of the host, a default port and the slash
 * of an empty path make no difference. What is no URL is compared letter by letter.
 */
export function isSameAddress(one: string, other: string): boolean {
  return one === other || normal(one) === normal(other);
}

function normal(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}

/** A webhook that was created from here. */
export interface OwnWebhook {
  readonly id: string;
  readonly account: string;
  readonly mailboxId: string;
  readonly mailbox: string;
  readonly url: string;
}

/** A webhook as the service lists it. */
export interface ListedWebhook {
  readonly id: string;
  readonly status: string;
  readonly url: string;
}

/** Whether a webhook of ours delivers, by what the service says of it. */
export interface WebhookFinding {
  readonly webhook: OwnWebhook;
  /** `off`: paused or disabled. */
  readonly state: 'well' | 'missing' | 'off' | 'failing';
  /** As the service spells it; null where it does not know the webhook. */
  readonly status: string | null;
  /** Deliveries that failed in a row, the newest first. */
  readonly failures: number;
  readonly lastSuccessAt: number | null;
}

/** What failed longer ago says nothing of today. */
const RECENT_MS = 24 * 3_600_000;
/** Deliveries in a row that are being tried again are no accident any more. */
const MANY = 3;

/** Judges the webhooks that were created from here. Pure. */
export function judgeWebhooks(
  own: readonly OwnWebhook[],
  listed: readonly ListedWebhook[],
  log: readonly LoggedDelivery[],
  now: number,
): WebhookFinding[] {
  const byId = new Map(listed.map((webhook) => [webhook.id, webhook]));
  return own.map((webhook) => {
    const there = byId.get(webhook.id);
    // The log names no ids: a webhook is known in it by its mailbox and its address.
    const entries = log
      .filter(({ mailbox, url, at, attempts }) => {
        // What was never tried has not failed.
        if (attempts === 0) return false;
        const ours = mailbox === webhook.mailbox && isSameAddress(url, there?.url ?? webhook.url);
        return ours && now - at < RECENT_MS;
      })
      .sort((a, b) => b.at - a.at);
    const lastSuccess = entries.find(({ success }) => success);
    const failed =
      lastSuccess === undefined ? entries : entries.slice(0, entries.indexOf(lastSuccess));
    const givenUp = failed.some(({ attempts, mostAttempts }) => attempts >= mostAttempts);
    return {
      webhook,
      state: stateOf(there, givenUp || failed.length >= MANY),
      status: there?.status ?? null,
      failures: failed.length,
      lastSuccessAt: lastSuccess?.at ?? null,
    };
  });
}

function stateOf(there: ListedWebhook | undefined, failing: boolean): WebhookFinding['state'] {
  if (there === undefined) return 'missing';
  if (there.status !== 'active') return 'off';
  return failing ? 'failing' : 'well';
}
