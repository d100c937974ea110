import { foldersMeant } from '../../mail/folder-choice.ts';
import type { ListedFolder, MailboxKey } from '../../mail/words.ts';
import { inSyncOrder } from '../plan/folder-order.ts';
import { type Selection, selects } from '../plan/selection.ts';
import type { FolderListing, Origin, OriginMailbox } from './ports.ts';

/** Which mailboxes (by address) and folders (by path) a pass is about. */
export interface Wanted {
  readonly mailboxes: Selection;
  readonly folders: Selection;
  /** Which of the two are the configuration's own, and not narrowed for this pass; not known is narrowed. */
  readonly whole?: { readonly mailboxes: boolean; readonly folders: boolean };
}

interface SurveyDeps {
  readonly origin: Origin;
  readonly signal: AbortSignal;
}

/** All mailboxes of an account, and those that are wanted: one request. */
export async function surveyAccount(
  deps: SurveyDeps,
  wanted: Wanted,
): Promise<{ readonly listed: readonly OriginMailbox[]; readonly mailboxes: OriginMailbox[] }> {
  const listed = await deps.origin.mailboxes(deps.signal);
  return { listed, mailboxes: listed.filter(({ address }) => selects(wanted.mailboxes, address)) };
}

/**
 * Returns the folders of a mailbox that are wanted, in the order of a pass, and the paths of those that the
 * configuration leaves out. What a command's own options leave out is not named: the user has just said so. `wanted`
 * comes back with the paths that names such as `sent` stand for in this mailbox.
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

/** What a command asks for by name stands in a mailbox for paths. Patterns stay, for folders that are not listed. */
function withPaths(wanted: Wanted, listed: readonly ListedFolder[]): Wanted {
  const { only } = wanted.folders;
  if (only === undefined) return wanted;
  const paths = only.flatMap((name) => foldersMeant(name, listed).map(({ path }) => path));
  return { ...wanted, folders: { ...wanted.folders, only: [...only, ...paths] } };
}
