import { selects } from '../../../mail/name-selection.ts';
import type { FolderKey, MailboxKey } from '../../../mail/words.ts';
import { folderKey, mailboxKey } from '../../../state/scopes.ts';
import type { PassContext } from '../pass-context.ts';
import type { Memory, OriginMailbox } from '../ports.ts';
import type { Wanted } from '../survey.ts';

/** Scope of memory: what the configuration of the last pass left out. It is compared with no answer, so it is never out of date. */
const UNWATCHED = 'unwatched';

type Noting = Pick<PassContext, 'memory' | 'mirror' | 'origin'>;

/**
 * Remembers which mailboxes of an account are left out, known ones or not. A pass that was narrowed by hand shows only
 * which are not.
 */
export function noteUnwatchedMailboxes(
  ctx: Noting,
  listed: readonly OriginMailbox[],
  { mailboxes, whole }: Wanted,
): void {
  for (const { resourceId, address } of listed) {
    const wanted = selects(mailboxes, address);
    // First: a pass over one of a thousand mailboxes knows nothing about the others.
    if (!wanted && whole?.mailboxes !== true) continue;
    note(ctx.memory, mailboxKey({ host: ctx.origin.host, mailbox: resourceId }), !wanted);
  }
}

/** Does the same for the known folders of a mailbox. An excluded folder is left out however a pass is narrowed. */
export function noteUnwatchedFolders(
  ctx: Noting,
  key: MailboxKey,
  { folders, whole }: Wanted,
): void {
  note(ctx.memory, mailboxKey(key), false);
  for (const { folder } of ctx.mirror.folders(key)) {
    const at = folderKey({ ...key, folder });
    const { exclude } = folders;
    if (selects(folders, folder)) note(ctx.memory, at, false);
    else if (whole?.folders === true || !selects({ include: ['*'], exclude }, folder)) {
      note(ctx.memory, at, true);
    }
  }
}

export function isUnwatchedMailbox(memory: Pick<Memory, 'get'> | undefined, key: MailboxKey) {
  return memory?.get(UNWATCHED, mailboxKey(key)) === true;
}

export function isUnwatchedFolder(memory: Pick<Memory, 'get'> | undefined, at: FolderKey): boolean {
  return memory?.get(UNWATCHED, folderKey(at)) === true;
}

function note(memory: Memory, key: string, unwatched: boolean): void {
  if ((memory.get(UNWATCHED, key) === true) !== unwatched) {
    memory.set(UNWATCHED, key, unwatched ? true : null);
  }
}
