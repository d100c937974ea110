import { isDeepStrictEqual } from 'node:util';
import { syncError } from '../../../errors/sync.ts';
import { selects } from '../../../mail/name-selection.ts';
import { accountIn, accountKey } from '../../../state/scopes.ts';
import type { StateFile } from '../../../state/state-file.ts';
import type { RememberedMailbox } from '../../../state/values.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent, type OriginMailbox } from '../ports.ts';
import type { Wanted } from '../survey.ts';
import { forgetSuspension } from '../walk/note-usages.ts';

/** Scope of memory: the mailboxes that each account has listed, and since when one is no longer listed. */
const MAILBOXES = 'account-mailboxes';

/** Scope of memory: when each account listed its mailboxes last, milliseconds since the epoch. */
const LISTED_AT = 'account-listed';

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
  const now = new Map<string, RememberedMailbox>();
  for (const { resourceId, address } of listed) {
    now.set(resourceId, { resourceId, address, unreachableSince: null });
  }
  for (const { resourceId, address, unreachableSince } of before.values()) {
    if (now.has(resourceId)) continue;
    // Once: another account of the same service may list it.
    if (unreachableSince === null) {
      forgetSuspension(ctx.memory, { host: ctx.origin.host, mailbox: resourceId });
    }
    const since = unreachableSince ?? ctx.startedAt;
    now.set(resourceId, { resourceId, address, unreachableSince: since });
    if (!selects(wanted.mailboxes, address)) continue;
    ctx.ledger.fail(
      syncError('sync.mailbox-unreachable', { address, since: new Date(since).toISOString() }),
      { mailbox: address },
    );
  }
  ctx.memory.set(LISTED_AT, memoryKey(ctx), ctx.startedAt);
  const kept = [...now.values()];
  if (!isDeepStrictEqual(kept, [...before.values()])) {
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
  if (rhythm === null || listedAt === undefined) return undefined;
  if (!isRecent(listedAt, ctx.startedAt, rhythm.mailboxesMs)) return undefined;
  return [...recall(ctx).values()]
    .filter(({ address, unreachableSince }) => {
      return unreachableSince === null && selects(wanted.mailboxes, address);
    })
    .map(({ resourceId, address }) => ({ resourceId, address }));
}

function memoryKey(ctx: PassContext): string {
  return accountKey(ctx.account, ctx.origin.host);
}

function recall(ctx: PassContext): Map<string, RememberedMailbox> {
  const kept = ctx.memory.get(MAILBOXES, memoryKey(ctx)) ?? [];
  return new Map(kept.map((mailbox) => [mailbox.resourceId, mailbox]));
}

/** A mailbox that a token reached when the account was synced last. */
export interface ListedMailbox extends OriginMailbox {
  readonly account: string;
  readonly host: string;
}

/** Returns the mailboxes that the accounts' tokens reach, as their last passes found; none where there is no state. */
export function listedMailboxes(state: Pick<StateFile, 'entries'> | undefined): ListedMailbox[] {
  return (state?.entries(MAILBOXES) ?? []).flatMap(({ key, value }) => {
    const { account, host } = accountIn(key);
    return value
      .filter(({ unreachableSince }) => unreachableSince === null)
      .map(({ resourceId, address }) => ({ account, host, resourceId, address }));
  });
}
