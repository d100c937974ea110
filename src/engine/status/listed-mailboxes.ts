import type { StateFile } from '../../state/state-file.ts';

/** Scope of the state in which each account's passes keep what the token listed. */
const LISTED = 'account-mailboxes';

/** A mailbox that a token reached when the account was synced last. */
export interface ListedMailbox {
  readonly account: string;
  readonly host: string;
  readonly resourceId: string;
  readonly address: string;
}

/** Returns the mailboxes that the accounts' tokens reach, as their last passes found; none where there is no state. */
export function listedMailboxes(state: Pick<StateFile, 'entries'> | undefined): ListedMailbox[] {
  return (state?.entries(LISTED) ?? []).flatMap(({ key, value }) => {
    const parts: unknown = JSON.parse(key);
    const [account, host]: unknown[] = Array.isArray(parts) ? parts : [];
    if (typeof account !== 'string' || typeof host !== 'string' || !Array.isArray(value)) return [];
    return value.flatMap((entry: unknown): ListedMailbox[] => {
      const { resourceId, address, unreachableSince } = Object(entry);
      const reached = unreachableSince === null && typeof resourceId === 'string';
      return reached && typeof address === 'string' ? [{ account, host, resourceId, address }] : [];
    });
  });
}
