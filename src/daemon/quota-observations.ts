import type { Reader } from '../engine/archive/reader.ts';
import { type Quota, recalledQuota } from '../engine/status/archive-status.ts';
import { nearlyFull } from '../errors/mailbox.ts';
import { fullnessOf, percentOf } from '../health/fullness.ts';
import type { Observation } from '../notify/observation.ts';
import type { StateFile } from '../state/state-file.ts';
import { isUnwatchedMailbox } from '../sync/apply/memory/unwatched.ts';
import { sentenceOf } from '../wording/sentence-of.ts';

/** A mailbox is not nearly full any more when it is so many points below the threshold: what hovers is told once. */
const POINTS_BELOW = 2;

/** A mailbox that is watched, with what the service last said of its quotas. */
export interface MailboxQuota {
  readonly address: string;
  readonly quota: Quota;
}

/** The quotas that are remembered, of mailboxes that the configuration watches. */
export function rememberedQuotas(
  { folders }: Pick<Reader['catalog'], 'folders'>,
  state: StateFile,
): MailboxQuota[] {
  return folders.mailboxes().flatMap((mailbox) => {
    if (isUnwatchedMailbox(state, mailbox)) return [];
    const quota = recalledQuota(state, mailbox);
    return quota === null ? [] : [{ address: mailbox.address, quota }];
  });
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
  return mailboxes.flatMap(({ address, quota }): Observation[] => {
    const subject = { kind: 'quota' as const, name: address };
    const fullness = fullnessOf(quota.resources);
    const percent = fullness === null ? 0 : percentOf(fullness.share);
    if (warnPercent === null || fullness === null || percent < warnPercent - POINTS_BELOW) {
      return [{ subject, failure: null }];
    }
    // In between, what was found last holds.
    if (percent < warnPercent) return [];
    const error = nearlyFull({ address, quota: fullness.name, percent });
    const { family, code } = error;
    return [{ subject, failure: { family, code, message: sentenceOf(error).message } }];
  });
}
