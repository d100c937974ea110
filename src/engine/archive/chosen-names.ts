import { type FolderFilter, isMailbox, matchingFolders } from '../../catalog/folder-names.ts';
import type { UnknownName } from '../../catalog/search/resolve.ts';
import { usageError } from '../../errors/usage.ts';
import { nearestAddress, nearestFolder } from '../../names/nearest.ts';
import type { Reader } from './reader.ts';

/**
 * Refuses a query that names a folder, mailbox or account that never was: an empty answer would look like a finding.
 *
 * @throws usage-unknown-name
 */
export function refuseNeverNamed(unknown: readonly UnknownName[]): void {
  for (const { kind, found, suggestion, candidates, never } of unknown) {
    if (kind !== 'message' && never)
      throw usageError('usage-unknown-name', { kind, found, suggestion, candidates });
  }
}

/** A mailbox and a folder to read, and whether only what is at the service now counts. */
interface Choice extends FolderFilter {
  readonly deleted?: boolean | undefined;
  readonly asOf?: unknown;
}

/**
 * Refuses a mailbox or a folder that never was, and a folder that is gone where only what is at the service now is
 * asked for.
 *
 * @throws usage-unknown-name, usage-folder-gone
 */
export function refuseUnknownChoice(
  { catalog }: Pick<Reader, 'catalog'>,
  { mailbox, folder, deleted, asOf }: Choice,
): void {
  if (mailbox === undefined && folder === undefined) return;
  const { folders, mailboxes } = catalog.folders.everNamed();
  if (mailbox !== undefined && !mailboxes.some((box) => isMailbox(box, mailbox))) {
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(mailbox, candidates);
    const facts = { kind: 'mailbox', found: mailbox, suggestion, candidates } as const;
    throw usageError('usage-unknown-name', facts);
  }
  if (folder === undefined) return;
  const wanted = mailbox === undefined ? { folder } : { mailbox, folder };
  if (matchingFolders(folders, wanted).length === 0) {
    const near = folders.filter((name) => isMailbox(name, mailbox));
    const suggestion = nearestFolder(folder, near);
    const facts = { kind: 'folder', found: folder, suggestion, candidates: [] } as const;
    throw usageError('usage-unknown-name', facts);
  }
  if (deleted === true || asOf !== undefined) return;
  const live = catalog.folders.all().map((seen) => ({ ...seen, path: seen.folder }));
  if (matchingFolders(live, wanted).length === 0) throw usageError('usage-folder-gone', { folder });
}
