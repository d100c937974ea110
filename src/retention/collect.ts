import type { EndedQueries, StoodPlace } from '../catalog/ended.ts';
import { matches } from '../mail/name-selection.ts';
import type { MessageId } from '../mail/words.ts';
import type { PurgedFact } from './carry-out.ts';
import {
  type EndedPlace,
  type KeepReason,
  type Policy,
  PrunePlanner,
  type PruneReason,
} from './plan-prune.ts';

/** Messages that one run prunes: what decides about them is held in memory. */
export const MOST_MESSAGES = 100_000;

export interface PlannedMessage {
  readonly id: MessageId;
  readonly size: number;
  readonly subject: string | null;
  readonly reason: PruneReason;
  readonly places: readonly StoodPlace[];
}

/** Messages and the bytes of their sources. */
export interface Sum {
  messages: number;
  bytes: number;
}

export interface PrunePlan {
  readonly prune: readonly PlannedMessage[];
  readonly byReason: ReadonlyMap<PruneReason, Sum>;
  readonly kept: ReadonlyMap<KeepReason, Sum>;
  /** Messages that may go and are left for the next run. */
  readonly left: number;
}

export interface Known {
  readonly ended: EndedQueries;
  readonly now: number;
  /** Mailboxes on hold, by address or resource id. */
  readonly heldMailboxes: readonly string[];
  /** Docids on hold by queries. */
  readonly held: ReadonlySet<number>;
  /** Whether an account listed this mailbox when it was asked last. */
  readonly isReachable: (host: string, mailbox: string) => boolean;
}

/** Decides about every message that ended everywhere, and says why. */
export function planPrune(policy: Policy, known: Known): PrunePlan {
  const { ended, now, held, heldMailboxes } = known;
  const planner = new PrunePlanner(policy, now);
  const confirmations = new Confirmations(ended);
  const prune: PlannedMessage[] = [];
  const byReason = new Map<PruneReason, Sum>();
  const kept = new Map<KeepReason, Sum>();
  let left = 0;
  for (const { docid, id, size, subject, places } of ended.messages()) {
    const onHold =
      held.has(docid) ||
      places.some(({ address, mailbox }) =>
        heldMailboxes.some((name) => matches(name, address) || matches(name, mailbox)),
      );
    const verdict = planner.decide({
      onHold,
      places: places.map((place) => endedPlace(place, known, confirmations)),
    });
    if (!verdict.prune) add(kept, verdict.reason, size);
    else if (prune.length === MOST_MESSAGES) left += 1;
    else {
      add(byReason, verdict.reason, size);
      prune.push({ id, size, subject, reason: verdict.reason, places });
    }
  }
  return { prune, byReason, kept, left };
}

/** Returns the fact that records a message's removal in the log. */
export function purgedFact(
  message: MessageId,
  reason: PurgedFact['reason'],
  places: readonly StoodPlace[],
): PurgedFact {
  const named = places.map(({ host, mailbox, folder, generation, uid, ...known }) => ({
    at: { host, mailbox, folder, generation, uid },
    ...known,
  }));
  const open = named.filter(({ endedAt }) => endedAt === null).map(({ at }) => at);
  const ended = named
    .filter(({ endedAt, isNameable }) => endedAt !== null && isNameable)
    .map(({ at }) => at);
  return {
    fact: 'purged',
    message,
    reason,
    ...(open.length === 0 ? {} : { places: open }),
    ...(ended.length === 0 ? {} : { ended }),
  };
}

/** Since when a folder is known not to have what ended in it. */
class Confirmations {
  readonly #folders: ReadonlyMap<number, number>;
  /** The latest of each mailbox: who listed that listed a folder that is gone as well, by leaving it out. */
  readonly #mailboxes = new Map<string, number>();

  constructor(ended: EndedQueries) {
    this.#folders = ended.confirmed();
    for (const [folder, since] of this.#folders) {
      const mailbox = ended.mailboxOf(folder);
      this.#mailboxes.set(mailbox, Math.max(since, this.#mailboxes.get(mailbox) ?? since));
    }
  }

  of({ folderId, folderGone, host, mailbox }: StoodPlace): number | null {
    const since = folderGone
      ? this.#mailboxes.get(`${host}\0${mailbox}`)
      : this.#folders.get(folderId);
    return since ?? null;
  }
}

function endedPlace(
  place: StoodPlace,
  { isReachable }: Known,
  confirmations: Confirmations,
): EndedPlace {
  const { folderId, mailbox, address, folder, specialUse, endedAt, isNameable, host } = place;
  return {
    ...{ folderId, mailbox, address, folder, isNameable },
    isDrafts: specialUse === '\\Drafts',
    // Only a damaged log has an end without a time: it is as recent as can be.
    endedAt: endedAt ?? Number.POSITIVE_INFINITY,
    confirmedAt: confirmations.of(place),
    isReachable: isReachable(host, mailbox),
  };
}

function add<R>(sums: Map<R, Sum>, reason: R, bytes: number): void {
  const sum = sums.get(reason) ?? { messages: 0, bytes: 0 };
  sums.set(reason, { messages: sum.messages + 1, bytes: sum.bytes + bytes });
}
