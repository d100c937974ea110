import { nearestAddress, nearestFolder } from '../catalog/near-names.ts';
import type { Reader } from './compose/reader.ts';
import { unknownText } from './search-report.ts';

/** A sentence for each name of the command line that no mailbox, or no folder ever seen, goes by. */
export function unknownNames(
  reader: Reader,
  { mailbox, folder }: { readonly mailbox?: string; readonly folder?: string },
): string[] {
  const unknown: string[] = [];
  const mailboxes = reader.catalog.folders.mailboxes();
  const wanted = mailbox?.toLowerCase();
  const known = mailboxes.some((box) =>
    [box.address.toLowerCase(), box.mailbox.toLowerCase()].some((name) => name === wanted),
  );
  if (mailbox !== undefined && !known) {
    const addresses = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(mailbox, addresses);
    unknown.push(unknownText({ kind: 'mailbox', found: mailbox, suggestion }));
  }
  const folders = reader.catalog.folders.all({ gone: true });
  const path = folder?.toUpperCase() === 'INBOX' ? 'INBOX' : folder;
  if (folder !== undefined && !folders.some((seen) => seen.folder === path)) {
    const named = folders.map((seen) => ({ path: seen.folder, name: seen.name }));
    const suggestion = nearestFolder(folder, named);
    unknown.push(unknownText({ kind: 'folder', found: folder, suggestion }));
  }
  return unknown;
}
