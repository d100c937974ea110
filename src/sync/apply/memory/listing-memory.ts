import { syncError } from '../../../errors/sync.ts';
import { isInbox, selects } from '../../../mail/name-selection.ts';
import type { MailboxKey } from '../../../mail/words.ts';
import { folderKey } from '../../../state/scopes.ts';
import type { EndingFolder } from '../ends/endings.ts';
import type { PassContext } from '../pass-context.ts';
import type { FolderListing } from '../ports.ts';
import type { Wanted } from '../survey.ts';

/** Scope of memory: known folders that an earlier listing lacked. */
const UNLISTED = 'unlisted';

/** A known folder that the listing of this pass lacks. */
export interface UnlistedFolder extends EndingFolder {
  /** True when an earlier pass's listing lacked it too: then it is gone. */
  readonly isGone: boolean;
}

/**
 * Returns the known folders that this listing lacks. Folders that the configuration leaves out stay as they are. A
 * listing that shows fewer folders than it counts proves nothing about those it lacks.
 *
 * @throws MailkeepError `sync.no-inbox` for a listing without INBOX: every mailbox has one, so it is not complete
 */
export function unlistedFolders(
  ctx: PassContext,
  key: MailboxKey,
  { folders: listed, complete }: FolderListing,
  wanted: Wanted,
): UnlistedFolder[] {
  const known = ctx.mirror.folders(key);
  const paths = new Set(listed.map(({ path }) => path));
  if (known.length > 0 && !listed.some(({ path }) => isInbox(path))) {
    throw syncError('sync.no-inbox', { listed: listed.length });
  }
  if (!complete) return [];
  return known
    .filter(({ folder }) => !paths.has(folder) && selects(wanted.folders, folder))
    .map((folder) => ({ ...folder, at: { ...key, folder: folder.folder } }))
    .map(({ at, specialUse, generation }) => ({
      at,
      specialUse,
      open: ctx.mirror.openUids(at, generation).length,
      pass: undefined,
      generation,
      renumbered: undefined,
      isGone: ctx.memory.get(UNLISTED, folderKey(at)) !== undefined,
    }));
}

/** Remembers which known folders this listing lacks, and forgets those that are back. */
export function noteListing(
  ctx: PassContext,
  key: MailboxKey,
  { folders: listed, complete }: FolderListing,
): void {
  const paths = new Set(listed.map(({ path }) => path));
  for (const { folder } of ctx.mirror.folders(key)) {
    const name = folderKey({ ...key, folder });
    const known = ctx.memory.get(UNLISTED, name);
    if (paths.has(folder)) {
      if (known !== undefined) ctx.memory.set(UNLISTED, name, null);
    } else if (known === undefined && complete) {
      ctx.memory.set(UNLISTED, name, { since: ctx.startedAt });
    }
  }
}
