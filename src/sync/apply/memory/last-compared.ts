import type { MailboxKey } from '../../../mail/words.ts';
import type { Memory, Mirror } from '../ports.ts';
import { recalledProof } from './proof.ts';

export interface LastCompared {
  /** When the newest page of INBOX was requested, which every pass does: milliseconds since the epoch, 0 for never. */
  readonly at: number;
  /** Messages that the origin listed in all folders when each was last compared. */
  readonly messages: number;
}

/** Returns what the last passes over a mailbox saw. */
export function lastCompared(
  mirror: Pick<Mirror, 'folders'>,
  memory: Pick<Memory, 'get'>,
  mailbox: MailboxKey,
): LastCompared {
  let at = 0;
  let messages = 0;
  for (const { folder } of mirror.folders(mailbox)) {
    const proof = recalledProof(memory, { ...mailbox, folder });
    messages += proof?.originTotal ?? 0;
    if (folder.toUpperCase() === 'INBOX') at = Date.parse(proof?.at ?? '') || 0;
  }
  return { at, messages };
}
