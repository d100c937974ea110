import type { KnownMailbox } from '../catalog/folders.ts';

/** A mailbox as the mirror serves it. */
export interface MirroredMailbox extends KnownMailbox {
  /** What paths and clients call it. */
  readonly resourceId: string;
}

/**
 * Returns mailboxes with the resource ids that they are served under: their own, and with the name of their host where
 * another host's mailbox has the same one and was met before.
 *
 * @param mailboxes all of the archive's, in the order in which they were met
 */
export function mirroredMailboxes(mailboxes: readonly KnownMailbox[]): MirroredMailbox[] {
  const taken = new Set<string>();
  return mailboxes.map((mailbox) => {
    const resourceId = taken.has(mailbox.mailbox)
      ? `${mailbox.mailbox}~${mailbox.host}`
      : mailbox.mailbox;
    taken.add(resourceId);
    return { ...mailbox, resourceId };
  });
}
