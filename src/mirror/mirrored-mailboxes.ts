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
 * @param mailboxes those that a token reaches, in the order in which they were met: what it does not reach must not show
 */
export function mirroredMailboxes(mailboxes: readonly KnownMailbox[]): MirroredMailbox[] {
  const taken = new Set<string>();
  return mailboxes.map((mailbox) => {
    let resourceId = mailbox.mailbox;
    // A host may call its mailbox as if it were another's.
    while (taken.has(resourceId)) resourceId += `~${mailbox.host}`;
    taken.add(resourceId);
    return { ...mailbox, resourceId };
  });
}
