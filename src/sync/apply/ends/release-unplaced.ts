import type { FolderKey } from '../../../mail/words.ts';
import { forgetTries } from '../memory/second-looks.ts';
import type { PassContext } from '../pass-context.ts';

/**
 * Releases the uids without an open place, quarantined and forgotten ones, that the origin no longer shows: they are
 * neither counted nor asked about again.
 *
 * @param isGone all of the generation when left out
 */
export function releaseUnplaced(
  ctx: PassContext,
  at: FolderKey,
  generation: number,
  reason: 'missing' | 'renumbered' | 'folder-gone',
  isGone: (uid: number) => boolean = () => true,
): void {
  const { host, mailbox, folder } = at;
  for (const uid of ctx.mirror.quarantined(at, generation).filter(isGone)) {
    const place = { host, mailbox, folder, generation, uid };
    ctx.committer.addFact({ fact: 'released', ...place, reason: 'ended' });
    forgetTries(ctx, place);
  }
  for (const uid of ctx.mirror.forgottenUids(at, generation).filter(isGone)) {
    ctx.committer.addFact({ fact: 'ended', host, mailbox, folder, generation, uid, reason });
  }
}
