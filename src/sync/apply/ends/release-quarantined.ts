import type { FolderKey } from '../../../mail/words.ts';
import { forgetTries } from '../memory/quarantine-retries.ts';
import type { PassContext } from '../pass-context.ts';

/** Lets go of what a generation has in quarantine and the origin does not have any more. */
export function releaseQuarantined(
  ctx: PassContext,
  at: FolderKey,
  generation: number,
  isGone: (uid: number) => boolean = () => true,
): void {
  const { host, mailbox, folder } = at;
  for (const uid of ctx.mirror.quarantined(at, generation)) {
    if (!isGone(uid)) continue;
    const place = { host, mailbox, folder, generation, uid };
    ctx.committer.addFact({ fact: 'released', ...place, reason: 'ended' });
    forgetTries(ctx, place);
  }
}
