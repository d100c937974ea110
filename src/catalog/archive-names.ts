import type { Connection } from './connection.ts';
import { type FlagSetRow, flagSetRows } from './flag-sets.ts';
import { type FolderName, folderNames } from './folder-names.ts';
import { reachedCommit } from './moments.ts';

/** What names in a query can stand for. */
export interface ArchiveNames {
  readonly folders: ReadonlyMap<number, FolderName>;
  flagSets(): readonly FlagSetRow[];
}

/** The names of each connection at the commit it last saw: they change with commits only. */
const KNOWN = new WeakMap<Connection, { readonly commit: number; readonly names: ArchiveNames }>();

/** Folders and flag sets as they are now, read once a commit; or with the folders' names at a commit. */
export function archiveNames(connection: Connection, asOf: number | null): ArchiveNames {
  if (asOf !== null) return read(connection, asOf);
  const commit = reachedCommit(connection);
  const known = KNOWN.get(connection);
  if (known?.commit === commit) return known.names;
  const names = read(connection, null);
  KNOWN.set(connection, { commit, names });
  return names;
}

function read(connection: Connection, asOf: number | null): ArchiveNames {
  let flagSets: readonly FlagSetRow[] | undefined;
  return {
    folders: folderNames(connection, asOf ?? undefined),
    flagSets() {
      flagSets ??= flagSetRows(connection);
      return flagSets;
    },
  };
}
