import { syncError } from '../../../errors/sync.ts';
import type { FolderKey } from '../../../mail/words.ts';
import { openPlaces } from '../../plan/folder-sums.ts';
import type { FolderCertificate } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import { noteProof } from '../memory/proof.ts';
import { drain, type PassContext } from '../pass-context.ts';

/** When a walk ends, a newest page older than this is requested again: one minute. */
const LONG_WALK_MS = 60_000;
/** Mail that arrives during a long walk is looked for this often before the pass ends. */
const CERTIFYING_ROUNDS = 3;

/** Certifies each folder; what arrived during a long walk is fetched first. */
export async function certifyAll(ctx: PassContext, folders: readonly FolderPass[]): Promise<void> {
  let open = folders;
  for (let round = 1; open.length > 0; round += 1) {
    await drain(ctx);
    const again: FolderPass[] = [];
    for (const folder of open) {
      folder.saveCoverage();
      const certificate = certify(folder);
      if (round < CERTIFYING_ROUNDS && isWorthAnotherLook(ctx, folder, certificate)) {
        again.push(folder);
      } else {
        ctx.ledger.certificates.push(certificate);
        if (!folder.failed) ctx.ledger.count(folder.address, 'compared', 1);
        warnIfIncomplete(ctx, folder, noteProof(ctx, folder, certificate));
      }
    }
    for (const folder of again) {
      await folder.guarded(async () => {
        folder.forgetHead();
        await folder.readHead();
        await folder.walkBacklog();
      });
    }
    open = again;
  }
}

/** States what the archive still has of folders that the listing lacks: pending deletions, until they are confirmed. */
export function certifyUnlisted(
  { ledger, mirror }: PassContext,
  mailbox: string,
  folders: readonly { readonly at: FolderKey }[],
): void {
  for (const { at } of folders) {
    const sums = mirror.sumsOf(at);
    if (openPlaces(sums) === 0) continue;
    ledger.certificates.push({
      mailbox,
      folder: at.folder,
      originTotal: 0,
      ...sums,
      complete: false,
    });
  }
}

/** States what the answers about a folder prove. */
function certify(folder: FolderPass): FolderCertificate {
  const { evidence, sums } = folder;
  return {
    mailbox: folder.address,
    folder: folder.at.folder,
    originTotal: evidence.total,
    ...sums,
    complete: !folder.failed && evidence.isComplete(sums),
  };
}

/** Sums that do not add up once mean that the folder changed during the pass; twice in a row, something is wrong. */
function warnIfIncomplete(ctx: PassContext, folder: FolderPass, times: number): void {
  if (times < 2) return;
  const { total } = folder.evidence;
  const error = syncError('sync.does-not-add-up', { total, times });
  ctx.ledger.fail(error, { mailbox: folder.address, folder: folder.at.folder });
}

/** Returns whether the newest page is too old after a long walk, or counts changed during the first one. */
function isWorthAnotherLook(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): boolean {
  if (folder.failed || folder.isEmpty) return false;
  if (ctx.now() - folder.evidence.askedAt > LONG_WALK_MS) return true;
  return !certificate.complete && folder.evidence.isFirst;
}
