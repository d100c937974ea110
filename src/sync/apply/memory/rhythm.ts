import type { FolderKey, ListedFolder } from '../../../mail/words.ts';
import type { PassContext } from '../pass-context.ts';
import { isDue } from './held-memory.ts';
import { recalledProof } from './proof.ts';
import { dueQuarantined } from './quarantine-retries.ts';

/**
 * True when a folder need not be asked in this pass: its counts are those of its last proof, that proof is
 * complete and recent enough, and nothing in it waits for another look. INBOX and sent mail are asked every time,
 * and a pass by hand asks everything.
 */
export function isQuiet(
  ctx: PassContext,
  at: FolderKey,
  listed: ListedFolder,
  generation: number,
): boolean {
  const { rhythm, full } = ctx.policy;
  if (rhythm === null || full) return false;
  if (listed.path.toUpperCase() === 'INBOX' || listed.specialUse === '\\Sent') return false;
  const proof = recalledProof(ctx.memory, at);
  if (proof === undefined || !proof.complete || proof.generation !== generation) return false;
  if (proof.originTotal !== listed.messageCount || proof.unread !== listed.unreadCount) {
    return false;
  }
  const age = ctx.startedAt - Date.parse(proof.at);
  if (!(age >= 0 && age < rhythm.folderMs)) return false;
  return !isDue(ctx, at) && dueQuarantined(ctx, at, generation).length === 0;
}
