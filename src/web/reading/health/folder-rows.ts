import type { FolderStatus, MailboxStatus } from '../../../engine/status/archive-status.ts';
import { isImported } from '../../../mail/import-host.ts';
import { filterText } from '../query-text.ts';
import type { Linked, LinkedNumbers } from './linked-numbers.ts';
import { mailboxFilter } from './overview.ts';

/** A folder with its sum: at the service = stored + assumed + quarantined + held + forgotten, in places. */
export interface FolderRow
  extends Pick<
    FolderStatus,
    | 'folder'
    | 'unwatched'
    | 'assumed'
    | 'held'
    | 'quarantined'
    | 'forgotten'
    | 'provenAt'
    | 'complete'
    | 'flagsAt'
    | 'certifiedAt'
  > {
  /** Places with a message of their own that is at the service. */
  readonly stored: number;
  readonly kept: Linked;
  readonly unread: Linked;
  readonly deleted: Linked;
}

export interface FolderGroup {
  readonly address: string;
  readonly imported: boolean;
  readonly folders: readonly FolderRow[];
}

/** A page of folders by mailbox, those that were proven longest ago first where that is asked for. */
export interface FolderPages {
  readonly groups: readonly FolderGroup[];
  readonly sort: 'name' | 'age';
  readonly from: number;
  /** Folders of a page. */
  readonly step: number;
  readonly all: number;
}

const FOLDERS = 200;

export function folderPages(
  mailboxes: readonly MailboxStatus[],
  numbers: LinkedNumbers,
  { from, sort }: Pick<FolderPages, 'from' | 'sort'>,
): FolderPages {
  const all = mailboxes.flatMap((mailbox) =>
    mailbox.folders.map((folder) => ({ mailbox, folder })),
  );
  // The order of the mailboxes stays, whatever the order within them.
  const ordered =
    sort === 'name'
      ? all
      : all.toSorted((a, b) => ((a.folder.provenAt ?? '') < (b.folder.provenAt ?? '') ? -1 : 1));
  const shown = ordered.slice(from, from + FOLDERS);
  const groups: FolderGroup[] = [];
  let last: MailboxStatus | undefined;
  let folders: FolderRow[] = [];
  for (const { mailbox, folder } of shown) {
    if (mailbox !== last) {
      folders = [];
      groups.push({ address: mailbox.address, imported: isImported(mailbox), folders });
      last = mailbox;
    }
    const prefix = mailboxes.length === 1 ? '' : `${mailboxFilter(mailbox, mailboxes)} `;
    folders.push(rowOf(folder, `${prefix}${filterText('in', folder.folder)}`, numbers));
  }
  return { groups, sort, from, step: FOLDERS, all: all.length };
}

function rowOf(status: FolderStatus, within: string, numbers: LinkedNumbers): FolderRow {
  const { folder, unwatched, messages, assumed, held, quarantined, forgotten } = status;
  const { provenAt, complete, flagsAt, certifiedAt, unread, ended } = status;
  return {
    ...{ folder, unwatched, assumed, held, quarantined, forgotten },
    ...{ provenAt, complete, flagsAt, certifiedAt },
    stored: messages - assumed - held,
    kept: numbers.of(`${within} -is:deleted`, messages),
    unread: numbers.of(`${within} is:unread -is:deleted`, unread),
    deleted: numbers.of(`${within} is:deleted`, ended),
  };
}
