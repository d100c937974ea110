import { covers } from '../../plan/uid-intervals.ts';
import type { FolderCertificate } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';

/**
 * States what the answers about a folder prove. It is complete only when every uid up to the newest was
 * answered for and the origin's count is what the archive accounts for.
 */
export function certify(ctx: PassContext, folder: FolderPass): FolderCertificate {
  const counts = ctx.mirror.counts(folder.at, folder.generation);
  const accounted =
    counts.stored + counts.assumed + counts.quarantined + counts.held + counts.forgotten;
  const answered =
    folder.highestUid === 0 || covers(folder.coverage.durable, { lo: 1, hi: folder.highestUid });
  return {
    mailbox: folder.address,
    folder: folder.at.folder,
    originTotal: folder.total,
    stored: counts.stored,
    assumed: counts.assumed,
    quarantined: counts.quarantined,
    held: counts.held,
    forgotten: counts.forgotten,
    complete: !folder.failed && answered && accounted === folder.total && folder.unresolved === 0,
  };
}
