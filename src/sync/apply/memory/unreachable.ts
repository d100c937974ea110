import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { selects } from '../../plan/selection.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent, type OriginMailbox } from '../ports.ts';
import type { Wanted } from '../survey.ts';
import { forgetSuspension } from '../walk/note-usages.ts';

/** Scope of memory: the mailboxes that each account has listed, and since when one is no longer listed. */
const MAILBOXES = 'account-mailboxes';

/** Scope of memory: when each account listed its mailboxes last, milliseconds since the epoch. */
const LISTED_AT = 'account-listed';

interface Remembered {
  readonly address: string;
  /** Milliseconds since the epoch; null while the account lists the mailbox. */
  readonly unreachableSince: number | null;
}

/**
 * Compares the account's mailboxes with those it listed before. One that it no longer lists is unreachable: that is
 * reported, and nothing in it counts as deleted. Syncing continues when it is back.
 */
export function noteMailboxes(
  ctx: PassContext,
  wanted: Wanted,
  listed: readonly OriginMailbox[],
): void {
  const before = recall(ctx);
  const now = new Map<string, Remembered>();
  for (const { resourceId, address } of listed) {
    now.set(resourceId, { address, unreachableSince: null });
  }
  for (const [resourceId, { address, unreachableSince }] of before) {
    if (now.has(resourceId)) continue;
    // Once: another account of the same service may list it.
    if (unreachableSince === null) {
      forgetSuspension(ctx.memory, { host: ctx.origin.host, mailbox: resourceId });
    }
    const since = unreachableSince ?? ctx.startedAt;
    now.set(resourceId, { address, unreachableSince: since });
    if (!selects(wanted.mailboxes, address)) continue;
    ctx.ledger.fail(
      new MailkeepError('origin', 'sync.mailbox-unreachable', {
        address,
        since: new Date(since).toISOString(),
      }),
      { mailbox: address },
    );
  }
  ctx.memory.set(LISTED_AT, memoryKey(ctx), ctx.startedAt);
  const kept = [...now].map(([resourceId, entry]) => ({ resourceId, ...entry }));
  const earlier = [...before].map(([resourceId, entry]) => ({ resourceId, ...entry }));
  if (JSON.stringify(kept) !== JSON.stringify(earlier)) {
    ctx.memory.set(MAILBOXES, memoryKey(ctx), kept);
  }
}

/**
 * Returns the wanted mailboxes as an earlier pass listed them, if that is recent enough for this one; undefined if
 * the origin has to be asked.
 */
export function recentMailboxes(ctx: PassContext, wanted: Wanted): OriginMailbox[] | undefined {
  const { rhythm } = ctx.policy;
  const listedAt = ctx.memory.get(LISTED_AT, memoryKey(ctx));
  if (rhythm === null || typeof listedAt !== 'number') return undefined;
  if (!isRecent(listedAt, ctx.startedAt, rhythm.mailboxesMs)) return undefined;
  return [...recall(ctx)]
    .filter(([, { address, unreachableSince }]) => {
      return unreachableSince === null && selects(wanted.mailboxes, address);
    })
    .map(([resourceId, { address }]) => ({ resourceId, address }));
}

function memoryKey(ctx: PassContext): string {
  return JSON.stringify([ctx.account, ctx.origin.host]);
}

function recall(ctx: PassContext): Map<string, Remembered> {
  const kept = ctx.memory.get(MAILBOXES, memoryKey(ctx));
  const mailboxes = new Map<string, Remembered>();
  if (!Array.isArray(kept)) return mailboxes;
  for (const entry of kept) {
    if (typeof entry?.resourceId !== 'string' || typeof entry.address !== 'string') continue;
    const since = typeof entry.unreachableSince === 'number' ? entry.unreachableSince : null;
    mailboxes.set(entry.resourceId, { address: entry.address, unreachableSince: since });
  }
  return mailboxes;
}
