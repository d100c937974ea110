import type { FolderKey } from '../../../mail/words.ts';
import { covers } from '../../plan/uid-intervals.ts';
import { type FolderCertificate, isHeldOnly } from '../../result.ts';
import type { FolderPass } from '../folder-pass.ts';
import type { PassContext } from '../pass-context.ts';
import { folderKey, type Memory } from '../ports.ts';

/** When a folder was last compared with the origin, and what that showed. Times in ISO 8601 UTC. */
export interface Proof {
  /** When its newest page was asked for. What arrived later is not spoken of. */
  readonly at: string;
  readonly complete: boolean;
  readonly generation: number;
  /** The origin's own counts: all messages, and those it calls unread. */
  readonly originTotal: number;
  readonly unread: number;
  /** Since when every flag of the folder was answered for; null when that never was. */
  readonly flagsAt: string | null;
  /** The UTC day whose certificate the log has; null when it has none. */
  readonly certifiedOn: string | null;
  /** How many passes in a row the sums did not add up. */
  readonly incomplete: number;
}

const SCOPE = 'proof';

/**
 * Remembers what a pass proved of a folder, and puts the certificate into the log: once a day, and when a folder
 * is complete again after it was not. Returns how many passes in a row its sums did not add up.
 */
export function noteProof(
  ctx: PassContext,
  folder: FolderPass,
  certificate: FolderCertificate,
): number {
  const before = recalledProof(ctx.memory, folder.at);
  // What could not be asked proves nothing: the earlier proof stands, with its age.
  if (folder.failed) return 0;
  const since = new Date(folder.lookedAt).toISOString();
  const day = since.slice(0, 10);
  const { complete } = certificate;
  const due = complete && !(before?.complete === true && before.certifiedOn === day);
  const incomplete = complete || isHeldOnly(certificate) ? 0 : (before?.incomplete ?? 0) + 1;
  const proof: Proof = {
    at: since,
    complete,
    generation: folder.generation,
    originTotal: folder.total,
    unread: folder.listed.unreadCount,
    flagsAt: flagsAnswered(folder) ? flagsSince(ctx) : (before?.flagsAt ?? null),
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

/** True when the pages of this pass, and those it could take over, have shown the flags of every message. */
function flagsAnswered(folder: FolderPass): boolean {
  return folder.highestUid === 0 || covers(folder.answered, { lo: 1, hi: folder.highestUid });
}

function flagsSince({ policy, startedAt }: PassContext): string {
  return new Date(policy.full ? (policy.sweptSince ?? startedAt) : startedAt).toISOString();
}

/** The last proof of a folder; undefined where none is remembered. */
export function recalledProof(
  memory: Pick<Memory, 'get'> | undefined,
  at: FolderKey,
): Proof | undefined {
  const value = memory?.get(SCOPE, folderKey(at));
  // By hand: the schema library would double the time that reading commands take to start.
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

/** Takes what is remembered of a folder over to the path it was renamed to. */
export function moveProof(memory: Memory, at: FolderKey, to: string): void {
  const kept = memory.get(SCOPE, folderKey(at));
  if (kept === undefined) return;
  memory.set(SCOPE, folderKey({ ...at, folder: to }), kept);
  memory.set(SCOPE, folderKey(at), null);
}

function numberIn(value: object, field: string, otherwise: number): number {
  const found: unknown = Reflect.get(value, field);
  return typeof found === 'number' ? found : otherwise;
}

function textIn(value: object, field: string): string | null {
  const found: unknown = Reflect.get(value, field);
  return typeof found === 'string' ? found : null;
}
