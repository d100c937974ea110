import type { Hint, WatchedMailbox } from './ports.ts';
import { mailboxKey } from './work.ts';

/** Waits before a message that is announced and not there yet is looked for again: about a minute in all. */
export const HINT_RETRIES_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000] as const;

/** How many are waited for in a mailbox. Beyond, a pass is all there is: whoever announces so many may make them up. */
const MOST_AWAITED = 1_000;

/** The mailbox that a hint is about: by resource id where it names one, else by address. */
export function hintedMailbox(
  { resourceId, address }: Hint,
  mailboxes: readonly WatchedMailbox[],
): WatchedMailbox | undefined {
  return mailboxes.find((mailbox) =>
    resourceId === undefined ? mailbox.address === address : mailbox.resourceId === resourceId,
  );
}

interface Awaited {
  readonly mailbox: WatchedMailbox;
  /** Tries made, by uid. */
  readonly uids: Map<number, number>;
}

/** Messages that were announced and are not archived yet. */
export class AwaitedMessages {
  readonly #mailboxes = new Map<string, Awaited>();

  /** Waits for one more message, if not for 1,000 of the mailbox already. */
  add(mailbox: WatchedMailbox, uid: number): void {
    const key = mailboxKey(mailbox);
    const awaited = this.#mailboxes.get(key) ?? { mailbox, uids: new Map<number, number>() };
    if (!awaited.uids.has(uid) && awaited.uids.size < MOST_AWAITED) awaited.uids.set(uid, 0);
    this.#mailboxes.set(key, awaited);
  }

  /**
   * After a pass over the mailbox: forgets what has come, and what was waited for long enough.
   *
   * @returns milliseconds until it is worth looking again (null when nothing is awaited), and how many were given up
   */
  settle(
    mailbox: WatchedMailbox,
    has: (uid: number) => boolean,
  ): { readonly againMs: number | null; readonly unseen: number } {
    const awaited = this.#mailboxes.get(mailboxKey(mailbox));
    if (awaited === undefined) return { againMs: null, unseen: 0 };
    let againMs: number | null = null;
    let unseen = 0;
    for (const [uid, tries] of awaited.uids) {
      const wait = HINT_RETRIES_MS[tries];
      if (has(uid)) {
        awaited.uids.delete(uid);
      } else if (wait === undefined) {
        awaited.uids.delete(uid);
        unseen += 1;
      } else {
        awaited.uids.set(uid, tries + 1);
        againMs = Math.min(againMs ?? wait, wait);
      }
    }
    if (awaited.uids.size === 0) this.#mailboxes.delete(mailboxKey(mailbox));
    return { againMs, unseen };
  }
}
