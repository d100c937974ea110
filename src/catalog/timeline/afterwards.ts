import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import type { FolderName } from '../folder-names.ts';
import { foldersIn } from '../scope.ts';
import type { View } from '../search/conditions.ts';

/** What became of a message that the service had at a moment: it was deleted since, or is in another folder. */
export type Afterwards =
  /** Milliseconds since the epoch. */
  | { readonly kind: 'deleted'; readonly at: number }
  | { readonly kind: 'moved'; readonly mailbox: string; readonly folder: string };

interface Interval {
  readonly docid: number;
  readonly folder: number;
}

interface LastPlace extends Interval {
  /** When it ended; null for a current place. */
  readonly ended: number | null;
}

/**
 * Returns what became of messages since the moment of a view, for those of which anything did: with all of them in two
 * statements. A message moved where none of the folders that it was in then has it now; folders have the names of now.
 */
export function afterwards(
  connection: Connection,
  docids: readonly number[],
  { asOf, scope }: View,
): ReadonlyMap<number, Afterwards> {
  const found = new Map<number, Afterwards>();
  if (asOf === null || docids.length === 0) return found;
  const list = JSON.stringify(docids);
  const chosen = `docid IN (SELECT value FROM json_each(?))${
    scope === null ? '' : ` AND folder_id IN ${foldersIn(scope)}`
  }`;
  const then = Map.groupBy(
    connection.text<Interval>(
      `SELECT docid, folder_id AS folder FROM places
       WHERE ${chosen} AND from_commit <= ${asOf} AND (to_commit IS NULL OR to_commit > ${asOf})
       UNION SELECT docid, folder_id FROM spans
       WHERE ${chosen} AND from_commit <= ${asOf} AND to_commit > ${asOf}`,
      [list, list],
    ),
    ({ docid }) => docid,
  );
  const now = Map.groupBy(
    connection.text<LastPlace>(
      `SELECT p.docid, p.folder_id AS folder, c.time AS ended
       FROM (SELECT * FROM places WHERE ${chosen}) p LEFT JOIN commits c ON c.number = p.to_commit
       ORDER BY p.docid, p.id`,
      [list],
    ),
    ({ docid }) => docid,
  );
  const names = archiveNames(connection, null).folders;
  for (const [docid, intervals] of then) {
    const became = becameOf(intervals, now.get(docid) ?? [], names);
    if (became !== undefined) found.set(docid, became);
  }
  return found;
}

function becameOf(
  then: readonly Interval[],
  places: readonly LastPlace[],
  names: ReadonlyMap<number, FolderName>,
): Afterwards | undefined {
  const current = places.filter(({ ended }) => ended === null);
  const [first] = current;
  if (first === undefined) {
    const ends = places.flatMap(({ ended }) => ended ?? []);
    return ends.length === 0 ? undefined : { kind: 'deleted', at: Math.max(...ends) };
  }
  const stayed = current.some(({ folder }) => then.some((before) => before.folder === folder));
  const name = names.get(first.folder);
  if (stayed || name === undefined) return undefined;
  return { kind: 'moved', mailbox: name.address, folder: name.path };
}
