import { isInbox } from '../../../mail/name-selection.ts';
import type { FolderKey, ListedFolder, MailboxKey } from '../../../mail/words.ts';
import { folderKey } from '../../../state/scopes.ts';
import type { Proof } from '../../../state/values.ts';
import { type FolderCertificate, isHeldOnly } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { isRecent, type Memory, type Mirror } from '../ports.ts';
import { dueQuarantined, isHeldDue } from './second-looks.ts';

const SCOPE = 'proof';

/**
 * Remembers what a pass proved of a folder, and writes the certificate to the log: once a day, and when the folder
 * is complete again. Returns how many passes in a row its sums did not add up.
 */
export function noteProof(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): number {
  const before = recalledProof(ctx.memory, folder.at);
  // A failed folder proves nothing: the earlier proof stays, with its age.
  if (folder.failed) return 0;
  const since = new Date(folder.evidence.askedAt).toISOString();
  const day = since.slice(0, 10);
  const { complete } = certificate;
  const due = complete && !(before?.complete === true && before.certifiedOn === day);
  const incomplete = complete || isHeldOnly(certificate) ? 0 : (before?.incomplete ?? 0) + 1;
  const proof: Proof = {
    at: since,
    complete,
    generation: folder.generation,
    originTotal: folder.evidence.total,
    unread: folder.listed.unreadCount,
    flagsAt: folder.evidence.everyFlagAnswered ? flagsSince(ctx) : (before?.flagsAt ?? null),
    certifiedOn: due ? day : (before?.certifiedOn ?? null),
    incomplete,
  };
  const remember = (): void => ctx.memory.set(SCOPE, folderKey(folder.at), proof);
  if (due) {
    const { mailbox: _address, ...sums } = certificate;
    const { generation } = folder;
    const fact = { fact: 'certificate', ...sums, ...folder.at, generation, since } as const;
    ctx.committer.addFact(fact, remember);
  } else {
    remember();
  }
  return incomplete;
}

function flagsSince({ policy, startedAt }: PassContext): string {
  return new Date(policy.full ? (policy.sweptSince ?? startedAt) : startedAt).toISOString();
}

/**
 * Returns whether a folder need not be asked in this pass: its counts are those of its last proof, that proof is
 * complete and recent enough, and nothing in the folder waits for a second look. INBOX and sent mail are asked every
 * time, and a pass by hand asks everything.
 */
export function isQuiet(
  ctx: PassContext,
  at: FolderKey,
  listed: ListedFolder,
  generation: number,
): boolean {
  const { rhythm, full } = ctx.policy;
  if (rhythm === null || full) return false;
  if (isInbox(listed.path) || listed.specialUse === '\\Sent') return false;
  const proof = recalledProof(ctx.memory, at);
  if (proof === undefined || !proof.complete || proof.generation !== generation) return false;
  if (proof.originTotal !== listed.messageCount || proof.unread !== listed.unreadCount) {
    return false;
  }
  if (!isRecent(Date.parse(proof.at), ctx.startedAt, rhythm.folderMs)) return false;
  return !isHeldDue(ctx, at) && dueQuarantined(ctx, at, generation).length === 0;
}

/** Returns the last proof of a folder; undefined where none is remembered. */
export function recalledProof(
  memory: Pick<Memory, 'get'> | undefined,
  at: FolderKey,
): Proof | undefined {
  return memory?.get(SCOPE, folderKey(at));
}

export interface LastCompared {
  /** When the newest page of INBOX was requested, which every pass does: milliseconds since the epoch, 0 for never. */
  readonly at: number;
  /** Messages that the origin listed in all folders when each was last compared. */
  readonly messages: number;
}

/** Returns what the last passes over a mailbox saw. */
export function lastCompared(
  mirror: Pick<Mirror, 'folders'>,
  memory: Pick<Memory, 'get'>,
  mailbox: MailboxKey,
): LastCompared {
  let at = 0;
  let messages = 0;
  for (const { folder } of mirror.folders(mailbox)) {
    const proof = recalledProof(memory, { ...mailbox, folder });
    messages += proof?.originTotal ?? 0;
    if (isInbox(folder)) at = Date.parse(proof?.at ?? '') || 0;
  }
  return { at, messages };
}
