import {
  type FolderFilter,
  isMailbox,
  matchingFolders,
  namesIn,
} from '../../catalog/folder-names.ts';
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

/** Mailboxes and folders to read, and whether only what is at the service now counts. */
interface Choice extends FolderFilter {
  readonly deleted?: boolean | undefined;
  readonly asOf?: unknown;
}

/**
 * Refuses a mailbox or a folder that never was, and a folder that is gone where only what is at the service now is
 * asked for. With several mailboxes, a folder that one of them has is enough.
 *
 * @throws usage-unknown-name, usage-folder-gone
 */
export function refuseUnknownChoice(
  { catalog }: Pick<Reader, 'catalog'>,
  { mailbox, folder, deleted, asOf }: Choice,
): void {
  if (mailbox === undefined && folder === undefined) return;
  const { folders, mailboxes } = catalog.folders.everNamed();
  for (const found of namesIn(mailbox)) {
    if (mailboxes.some((box) => isMailbox(box, found))) continue;
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(found, candidates);
    throw usageError('usage-unknown-name', { kind: 'mailbox', found, suggestion, candidates });
  }
  const live = catalog.folders.all().map((seen) => ({ ...seen, path: seen.folder }));
  for (const found of namesIn(folder)) {
    const wanted = { mailbox, folder: found };
    if (matchingFolders(folders, wanted).length === 0) {
      const near = folders.filter((name) => isMailbox(name, mailbox));
      const suggestion = nearestFolder(found, near);
      throw usageError('usage-unknown-name', { kind: 'folder', found, suggestion, candidates: [] });
    }
    if (deleted !== true && asOf === undefined && matchingFolders(live, wanted).length === 0)
      throw usageError('usage-folder-gone', { folder: found });
  }
}
