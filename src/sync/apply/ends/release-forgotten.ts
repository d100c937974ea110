import type { FolderKey } from '../../../mail/words.ts';
import type { PassContext } from '../pass-context.ts';

/**
 * Lets go of places at which the origin showed forgotten mail and does not any more: they are not counted on, nor asked
 * about again.
 */
export function releaseForgotten(
  ctx: PassContext,
  at: FolderKey,
  generation: number,
  reason: 'missing' | 'renumbered' | 'folder-gone',
  isGone: (uid: number) => boolean = () => true,
): void {
  const { host, mailbox, folder } = at;
  for (const uid of ctx.mirror.forgottenUids(at, generation)) {
    if (!isGone(uid)) continue;
    ctx.committer.addFact({ fact: 'ended', host, mailbox, folder, generation, uid, reason });
  }
}
