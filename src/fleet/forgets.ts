import { archiveError } from '../archive/errors.ts';
import { isHash, isObject } from '../archive/format.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import { waitingForgets } from '../registry/forget-reading.ts';
import { settleForgets } from '../registry/forgets.ts';
import { type ForgetPlan, journalForget, planForget } from '../verify/purge.ts';
import { fleetArchiveError } from './errors.ts';
import type { HeldArchive } from './held-archive.ts';
import { underLease } from './under-lease.ts';

export interface DecideOptions {
  readonly signal: AbortSignal;
  /** Told what keeps requests waiting; mail is mirrored all the same. */
  readonly onUnforgotten: (error: MailkeepError) => void;
}

interface Asked {
  readonly id: string;
  readonly messages: readonly MessageId[];
}

/**
 * What is asked to be forgotten of an archive, for as long as it is being opened. Requests are decided by a purge like any
 * other, and settled once the log has nothing of them: killed between the two, the next holder finds nothing left, and
 * settles them.
 */
export class FleetForgets {
  /** Requests that a purge was decided for, whose bytes are gone from the log when the archive is opened next. */
  readonly #decided = new Set<string>();

  constructor(private readonly held: HeldArchive) {}

  /**
   * Decides the purge that requests ask for, or settles them. Nothing else commits meanwhile.
   *
   * @returns `decided`: the purge is to be carried out, and this called again; otherwise how many requests have to wait
   * @throws log-fenced, the errors of the registry, and of the disk once it is decided
   */
  async decide(
    writer: Writer,
    { signal, onUnforgotten }: DecideOptions,
  ): Promise<'decided' | number> {
    const { held } = this;
    const { archive } = held.lease;
    const asked: Asked[] = [];
    let left = 0;
    for (const { id, wanted } of await waitingForgets(held.registry, archive)) {
      const messages = messagesIn(wanted);
      if (messages !== undefined) asked.push({ id, messages });
      else {
        left += 1;
        onUnforgotten(fleetArchiveError('forget-damaged', { archive, request: id }));
      }
    }
    if (asked.length === 0) return left;
    const fresh = asked.filter(({ id }) => !this.#decided.has(id));
    if (fresh.length > 0) {
      const plan = await this.#plan(writer, fresh, { signal, onUnforgotten });
      if (plan === undefined) return left + asked.length;
      if (plan.facts.length > 0) return this.#journal(writer, fresh, plan);
    }
    await this.#settle(asked.map(({ id }) => id));
    return left;
  }

  /** Returns what is left to forget; undefined if that cannot be found out now, and mail is mirrored meanwhile. */
  async #plan(
    writer: Writer,
    fresh: readonly Asked[],
    { signal, onUnforgotten }: DecideOptions,
  ): Promise<ForgetPlan | undefined> {
    const messages = new Set(fresh.flatMap((one) => one.messages));
    try {
      return await planForget(
        writer,
        [...messages].map((message) => ({ message })),
        signal,
      );
    } catch (error) {
      // A segment is damaged, or cannot be fetched.
      if (!(error instanceof MailkeepError) || signal.aborted) throw error;
      onUnforgotten(error);
      return undefined;
    }
  }

  async #journal(writer: Writer, fresh: readonly Asked[], plan: ForgetPlan): Promise<'decided'> {
    await journalForget(writer, plan);
    for (const { id } of fresh) this.#decided.add(id);
    return 'decided';
  }

  async #settle(ids: readonly string[]): Promise<void> {
    const { held } = this;
    try {
      const outcome = await underLease(held, (lease) => settleForgets(held.registry, lease, ids));
      // Fenced by `purges`: an earlier call whose answer was lost has settled them.
      const isLost = outcome.outcome === 'fenced' && outcome.by === 'lease';
      if (isLost) throw archiveError('log-fenced', { commit: null, reason: 'refused' });
    } catch (error) {
      // If they were not settled, they are found again.
      if (!hasCode(error, 'outcome-unknown')) throw error;
    }
  }
}

/** Returns messages as a request names them. */
export function wantedOf(messages: readonly MessageId[]): readonly object[] {
  return messages.map((message) => ({ message }));
}

/** Returns the messages that a request names; undefined if it is something else than `wantedOf` returns. */
function messagesIn(wanted: unknown): readonly MessageId[] | undefined {
  if (!Array.isArray(wanted) || wanted.length === 0) return undefined;
  const messages: MessageId[] = [];
  for (const one of wanted) {
    if (!isObject(one) || !isHash(one.message) || Object.keys(one).length > 1) return undefined;
    messages.push(one.message);
  }
  return messages;
}
