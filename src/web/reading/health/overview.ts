import type { ArchiveStatus, MailboxStatus } from '../../../engine/status/archive-status.ts';
import { isImported } from '../../../mail/import-host.ts';
import type { Matter } from '../matter.ts';
import { filterText } from '../query-text.ts';
import type { Linked, LinkedNumbers } from './linked-numbers.ts';

export interface Overview {
  readonly matters: readonly Matter[];
  readonly facts: Pick<
    ArchiveStatus,
    'messages' | 'bytes' | 'logBytes' | 'catalogBytes' | 'attachments' | 'commit' | 'verification'
  >;
  readonly mailboxes: readonly MailboxRow[];
  /** Mailboxes that are left out here. */
  readonly more: number;
}

export interface MailboxRow {
  readonly address: string;
  readonly imported: boolean;
  readonly unwatched: boolean;
  readonly folders: number;
  readonly kept: Linked;
  readonly deleted: Linked;
  readonly provenAt: string | null;
  readonly complete: boolean;
}

const MOST_MAILBOXES = 200;

/** What needs a person, and what the archive holds. */
export function overviewOf(
  status: ArchiveStatus,
  matters: readonly Matter[],
  numbers: LinkedNumbers,
): Overview {
  const { messages, bytes, logBytes, catalogBytes, attachments, commit, verification } = status;
  const { mailboxes } = status;
  return {
    matters,
    facts: { messages, bytes, logBytes, catalogBytes, attachments, commit, verification },
    mailboxes: mailboxes.slice(0, MOST_MAILBOXES).map((mailbox) => {
      const inBox = mailboxFilter(mailbox, mailboxes);
      const { address, unwatched, folders, provenAt, complete } = mailbox;
      return {
        ...{ address, unwatched, provenAt, complete },
        imported: isImported(mailbox),
        folders: folders.length,
        kept: numbers.of(`${inBox} -is:deleted`, mailbox.messages),
        deleted: numbers.of(`${inBox} is:deleted`, mailbox.ended),
      };
    }),
    more: Math.max(0, mailboxes.length - MOST_MAILBOXES),
  };
}

/** Returns the filter that finds a mailbox: by its address, or by its resource id where others have the address too. */
export function mailboxFilter(
  { address, resourceId }: Pick<MailboxStatus, 'address' | 'resourceId'>,
  all: readonly Pick<MailboxStatus, 'address'>[],
): string {
  const others = all.filter((other) => other.address === address);
  return filterText('mailbox', others.length > 1 ? resourceId : address);
}
