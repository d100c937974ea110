import type { WebhookFinding } from '../delivery-watch/own-webhooks.ts';
import type { Reader } from '../engine/archive/reader.ts';
import { type Quota, recalledQuota } from '../engine/status/archive-status.ts';
import { copiesError } from '../errors/copies.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { webhookError } from '../errors/small-families.ts';
import { nearlyFull } from '../errors/sync.ts';
import { type CopyFacts, isStale } from '../health/copies.ts';
import { fullnessOf, percentOf } from '../health/facts.ts';
import type { MailboxKey } from '../mail/words.ts';
import { copySubject, type Observation } from '../notify/observation.ts';
import { mailboxKey } from '../state/scopes.ts';
import type { StateFile } from '../state/state-file.ts';
import { isUnwatchedMailbox } from '../sync/apply/memory/unwatched.ts';
import { failureOf } from './run-reports.ts';

/** A mailbox is no longer nearly full this many points below the threshold, so that one that hovers is reported once. */
const POINTS_BELOW = 2;

/** A mailbox that is watched, with what the service last said of its quotas. */
export interface MailboxQuota extends MailboxKey {
  /** Its address; with its host or its resource id where another watched mailbox has the same address. */
  readonly name: string;
  readonly quota: Quota;
}

/** The quotas that are remembered, of mailboxes that the configuration watches. */
export function rememberedQuotas(
  { folders }: { readonly folders: Pick<Reader['catalog']['folders'], 'mailboxes'> },
  state: StateFile,
): MailboxQuota[] {
  const watched = folders.mailboxes().filter((mailbox) => !isUnwatchedMailbox(state, mailbox));
  const byAddress = Map.groupBy(watched, ({ address }) => address);
  return watched.flatMap((known) => {
    const { host, mailbox, address } = known;
    const quota = recalledQuota(state, known);
    if (quota === null) return [];
    const others = (byAddress.get(address) ?? []).filter((other) => other !== known);
    return [{ host, mailbox, name: nameAmong(known, others), quota }];
  });
}

/** @param others mailboxes with the same address: at other services, or at this one before it was created again */
function nameAmong(
  { host, mailbox, address }: MailboxKey & { readonly address: string },
  others: readonly MailboxKey[],
): string {
  if (others.length === 0) return address;
  return `${address} (${others.some((other) => other.host === host) ? mailbox : host})`;
}

/**
 * Which mailboxes are nearly full, for those who are to be notified.
 *
 * @param warnPercent null warns of none, and ends warnings
 */
export function quotaObservations(
  mailboxes: readonly MailboxQuota[],
  warnPercent: number | null,
): Observation[] {
  return mailboxes.flatMap(({ name, quota, ...key }): Observation[] => {
    const subject = { kind: 'quota' as const, name, id: mailboxKey(key) };
    const fullness = fullnessOf(quota.resources);
    const percent = fullness === null ? 0 : percentOf(fullness.share);
    if (warnPercent === null || fullness === null || percent < warnPercent - POINTS_BELOW) {
      return [{ subject, failure: null }];
    }
    // In between, what was found last holds.
    if (percent < warnPercent) return [];
    const error = nearlyFull({ address: name, quota: fullness.name, percent });
    return [{ subject, failure: failureOf(error) }];
  });
}

/** What findings about webhooks mean for those who are to be notified. */
export function webhookObservations(findings: readonly WebhookFinding[]): Observation[] {
  return findings.map((finding) => {
    const error = errorOf(finding);
    const subject = { kind: 'webhook' as const, name: finding.webhook.id };
    return { subject, failure: error === null ? null : failureOf(error) };
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

/** Returns for each copy whether it is stale. */
export function copyObservations(copies: readonly CopyFacts[], now: number): Observation[] {
  return copies.map((copy) => {
    const { to, behind, made } = copy;
    const copiedAt = made === null ? null : new Date(made.at).toISOString();
    return {
      subject: copySubject(to, 'stale'),
      failure: isStale(copy, now)
        ? failureOf(copiesError('offsite-stale', { to, behind, copiedAt }))
        : null,
    };
  });
}
