import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { namesWithin } from '../folder-names.ts';
import type { ChartFilter } from './chart-filter.ts';
import type { Received } from './received.ts';
import { plus, type Sums, term } from './rows.ts';

/** What a folder holds. */
export interface FolderBytes extends Sums {
  readonly address: string;
  readonly path: string;
  /** What finds exactly these messages; null where the language cannot name the folder. */
  readonly query: string | null;
}

/**
 * Returns what the folders hold, from the sums that are kept; those with the most bytes first. A message in two folders
 * counts in each. Undefined where the sums cannot tell: within a scope that a message left while it stayed elsewhere.
 */
export function folderBytes(
  connection: Connection,
  { scope }: ChartFilter,
  received: Received,
): FolderBytes[] | undefined {
  const known = archiveNames(connection, null).folders;
  const names = scope === null ? known : namesWithin(known, scope);
  if (scope !== null && hasUnplaced(received, new Set(names.keys()))) return undefined;
  const folders = new Map<string, FolderBytes>();
  const addresses = new Map<number, string>();
  for (const { mailboxId, address } of names.values()) addresses.set(mailboxId, address);
  const single =
    new Set([...addresses.values()].map((address) => address.toLowerCase())).size === 1;
  for (const { address, path } of names.values()) {
    if (path.toLowerCase() === 'anywhere') continue;
    const terms = [...(single ? [] : [term('mailbox', address)]), term('in', path)];
    const query = terms.includes(null) ? null : terms.join(' ');
    folders.set(keyOf(address, path), { address, path, query, messages: 0, bytes: 0, deleted: 0 });
  }
  // By the exact path and the mailboxes that a message ever was in, as `in:` and `mailbox:` find it.
  for (const [{ current, last, mailboxes }, sums] of received.bySet()) {
    const paths = new Set([...current, ...last].flatMap((id) => names.get(id)?.path ?? []));
    const boxes = new Set(mailboxes.flatMap((id) => addresses.get(id) ?? []));
    const keys = [...paths].flatMap((path) => [...boxes].map((address) => keyOf(address, path)));
    for (const key of new Set(keys)) {
      const known = folders.get(key);
      if (known !== undefined) folders.set(key, { ...known, ...plus(known, sums) });
    }
  }
  return [...folders.values()]
    .filter(({ messages }) => messages > 0)
    .sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1));
}

function keyOf(address: string, path: string): string {
  return `${address.toLowerCase()}\0${path}`;
}

/** Whether a message has no current place in these folders, and does not say which of them it was in last. */
function hasUnplaced(received: Received, folders: ReadonlySet<number>): boolean {
  const unplaced = received.all(
    ({ deleted, current, last }) =>
      deleted && (current.length > 0 || !last.some((id) => folders.has(id))),
  );
  return unplaced.messages > 0;
}
