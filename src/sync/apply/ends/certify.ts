import { accountedFor } from '../../plan/folder-sums.ts';
import { covers } from '../../plan/uid-intervals.ts';
import type { FolderCertificate } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';

/**
 * States what the answers about a folder prove. It is complete only when every uid up to the newest was
 * answered for and the origin's count is what the archive accounts for.
 */
export function certify(ctx: PassContext, folder: FolderPass): FolderCertificate {
  const sums = ctx.mirror.sumsOf(folder.at);
  const answered =
    folder.highestUid === 0 || covers(folder.coverage.durable, { lo: 1, hi: folder.highestUid });
  return {
    mailbox: folder.address,
    folder: folder.at.folder,
    originTotal: folder.total,
    ...sums,
    complete:
      !folder.failed && answered && accountedFor(sums) === folder.total && folder.unresolved === 0,
  };
}
