import type { FolderKey } from '../../mail/words.ts';
import type { PassContext } from './pass-context.ts';
import { forgetTries } from './quarantine-retries.ts';

/** Lets go of what a generation has in quarantine, because its uids mean nothing any more. */
export function releaseQuarantined(ctx: PassContext, at: FolderKey, generation: number): void {
  const { host, mailbox, folder } = at;
  for (const uid of ctx.mirror.quarantined(at, generation)) {
    const place = { host, mailbox, folder, generation, uid };
    ctx.committer.addFact({ fact: 'released', ...place, reason: 'ended' });
    forgetTries(ctx, place);
  }
}
