import type { Catalog } from '../catalog/catalog.ts';
import { isMailbox, matchingFolders } from '../catalog/folder-names.ts';
import type { QuarantineEntry } from '../catalog/quarantine.ts';

/** What the options of a command line choose among what is in quarantine. */
export interface QuarantineChoice {
  /** Address or resource id. */
  readonly mailbox?: string;
  /** As for `list`: a path, a pattern or a special use. */
  readonly folder?: string;
  readonly uid?: number;
}

/** Returns what is in quarantine and chosen. */
export function chosenEntries(
  { quarantine, folders }: Pick<Catalog, 'quarantine' | 'folders'>,
  { mailbox, folder, uid }: QuarantineChoice,
): QuarantineEntry[] {
  const keyOf = (one: { host: string; mailbox: string }, path: string): string =>
    JSON.stringify([one.host, one.mailbox, path]);
  const paths =
    folder === undefined
      ? undefined
      : new Set(
          // An entry may be of a folder that went.
          matchingFolders(folders.everNamed().folders, { folder }).map((one) =>
            keyOf(one, one.path),
          ),
        );
  return quarantine
    .open()
    .filter(
      (entry) =>
        isMailbox(entry, mailbox) &&
        (paths === undefined || paths.has(keyOf(entry, entry.folder))) &&
        (uid === undefined || uid === entry.uid),
    );
}
