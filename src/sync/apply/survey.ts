import { foldersMeant, type Selection, selects } from '../../mail/name-selection.ts';
import type { ListedFolder, MailboxKey } from '../../mail/words.ts';
import type { FolderListing, Origin, OriginMailbox } from './ports.ts';

/** Folders that people read first come first, so that an interrupted first sync has what matters most. */
const RANK_BY_USE: Readonly<Record<string, number>> = {
  '\\Sent': 1,
  '\\Flagged': 2,
  '\\Drafts': 3,
  '\\Archive': 5,
  '\\All': 6,
  '\\Junk': 8,
  '\\Trash': 9,
};
const ORDINARY_RANK = 4;

/** The mailboxes (by address) and folders (by path) that a pass covers. */
export interface Wanted {
  readonly mailboxes: Selection;
  readonly folders: Selection;
  /** Which of the two are the configuration's own, not narrowed for this pass; absent means narrowed. */
  readonly whole?: { readonly mailboxes: boolean; readonly folders: boolean };
}

interface SurveyDeps {
  readonly origin: Origin;
  readonly signal: AbortSignal;
}

/** Lists all mailboxes of an account, and those that are wanted: one request. */
export async function surveyAccount(
  deps: SurveyDeps,
  wanted: Wanted,
): Promise<{ readonly listed: readonly OriginMailbox[]; readonly mailboxes: OriginMailbox[] }> {
  const listed = await deps.origin.mailboxes(deps.signal);
  return { listed, mailboxes: listed.filter(({ address }) => selects(wanted.mailboxes, address)) };
}

/**
 * Returns the wanted folders of a mailbox, in the order of a pass, and the paths of those that the configuration
 * leaves out. It does not list what a command's own options leave out: the user has just asked for that. The `wanted`
 * it returns includes the paths that names such as `sent` stand for in this mailbox.
 */
export async function surveyMailbox(
  deps: SurveyDeps,
  mailbox: OriginMailbox,
  wanted: Wanted,
): Promise<{
  readonly key: MailboxKey;
  readonly all: FolderListing;
  readonly folders: readonly ListedFolder[];
  readonly excluded: readonly string[];
  readonly wanted: Wanted;
}> {
  const listing = await deps.origin.folders(mailbox.resourceId, deps.signal);
  const listed = inSyncOrder(listing.folders);
  const here = withPaths(wanted, listed);
  const isWanted = ({ path }: ListedFolder): boolean => selects(here.folders, path);
  return {
    key: { host: deps.origin.host, mailbox: mailbox.resourceId },
    all: { ...listing, folders: listed },
    folders: listed.filter(isWanted),
    excluded:
      wanted.whole?.folders === false
        ? []
        : listed.filter((folder) => !isWanted(folder)).map(({ path }) => path),
    wanted: here,
  };
}

/** Adds the paths that a command's folder names stand for in a mailbox. Patterns stay, for folders that are not listed. */
function withPaths(wanted: Wanted, listed: readonly ListedFolder[]): Wanted {
  const { only } = wanted.folders;
  if (only === undefined) return wanted;
  const paths = only.flatMap((name) => foldersMeant(name, listed).map(({ path }) => path));
  return { ...wanted, folders: { ...wanted.folders, only: [...only, ...paths] } };
}

/** Sorts folders: INBOX, Sent, Drafts, the user's own folders by path, then archives, junk and trash. */
export function inSyncOrder(folders: readonly ListedFolder[]): ListedFolder[] {
  const rank = (folder: ListedFolder): number =>
    folder.path.toUpperCase() === 'INBOX'
      ? 0
      : (RANK_BY_USE[folder.specialUse ?? ''] ?? ORDINARY_RANK);
  return [...folders].sort((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
}
