import type { FolderKey, ListedFolder } from '../../../mail/words.ts';
import { type FolderCertificate, isHeldOnly } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { folderKey, isRecent, type Memory } from '../ports.ts';
import { dueQuarantined, isHeldDue } from './second-looks.ts';

/** When a folder was last compared with the origin, and what that showed. Times in ISO 8601 UTC. */
export interface Proof {
  /** When its newest page was requested. The proof says nothing about later mail. */
  readonly at: string;
  readonly complete: boolean;
  readonly generation: number;
  /** The origin's own counts: all messages, and those it calls unread. */
  readonly originTotal: number;
  readonly unread: number;
  /** Since when every flag of the folder was answered for; null for never. */
  readonly flagsAt: string | null;
  /** The UTC day whose certificate the log has; null when it has none. */
  readonly certifiedOn: string | null;
  /** Passes in a row whose sums did not add up. */
  readonly incomplete: number;
}

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
  if (listed.path.toUpperCase() === 'INBOX' || listed.specialUse === '\\Sent') return false;
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
  const value = memory?.get(SCOPE, folderKey(at));
  // Checked by hand: the schema library would double the time that reading commands take to start.
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'complete' in value && 'originTotal' in value)) return undefined;
  const { at: moment, complete, originTotal } = value;
  if (typeof moment !== 'string' || typeof complete !== 'boolean') return undefined;
  if (typeof originTotal !== 'number') return undefined;
  return {
    at: moment,
    complete,
    originTotal,
    generation: numberIn(value, 'generation', 1),
    unread: numberIn(value, 'unread', -1),
    flagsAt: textIn(value, 'flagsAt'),
    certifiedOn: textIn(value, 'certifiedOn'),
    incomplete: numberIn(value, 'incomplete', 0),
  };
}

function numberIn(value: object, field: string, otherwise: number): number {
  const found: unknown = Reflect.get(value, field);
  return typeof found === 'number' ? found : otherwise;
}

function textIn(value: object, field: string): string | null {
  const found: unknown = Reflect.get(value, field);
  return typeof found === 'string' ? found : null;
}
