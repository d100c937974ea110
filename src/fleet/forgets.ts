import { isHash, isObject } from '../archive/format/json-shape.ts';
import type { Writer } from '../engine/archive/writer.ts';
import { type Forgetting, journalForget, planForget } from '../engine/forget.ts';
import { logFenced } from '../errors/archive.ts';
import { fleetArchiveError } from '../errors/fleet-archive.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Place } from '../mail/words.ts';
import { waitingForgets } from '../registry/forget-reading.ts';
import { settleForgets } from '../registry/forgets.ts';
import type { HeldArchive } from './held-archive.ts';
import { underLease } from './under-lease.ts';

export interface DecideOptions {
  readonly signal: AbortSignal;
  /** Told what keeps requests waiting; mail is mirrored all the same. */
  readonly onUnforgotten: (error: MailkeepError) => void;
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
   * @throws log-fenced, the errors of the registry and the disk
   */
  async decide(
    writer: Writer,
    { signal, onUnforgotten }: DecideOptions,
  ): Promise<'decided' | number> {
    const { held } = this;
    const { archive } = held.lease;
    const asked: { readonly id: string; readonly chosen: readonly Forgetting[] }[] = [];
    let left = 0;
    for (const { id, wanted } of await waitingForgets(held.registry, archive)) {
      const chosen = forgettingOf(wanted);
      if (chosen !== undefined) asked.push({ id, chosen });
      else {
        left += 1;
        onUnforgotten(fleetArchiveError('forget-damaged', { archive, request: id }));
      }
    }
    if (asked.length === 0) return left;
    const fresh = asked.filter(({ id }) => !this.#decided.has(id));
    try {
      if (fresh.length > 0 && (await this.#journal(writer, fresh, signal))) return 'decided';
    } catch (error) {
      // What is damaged cannot be surveyed. It is repaired first, and new mail does not wait for that.
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      onUnforgotten(error);
      return left + asked.length;
    }
    await this.#settle(asked.map(({ id }) => id));
    return left;
  }

  async #journal(
    writer: Writer,
    fresh: readonly { readonly id: string; readonly chosen: readonly Forgetting[] }[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const chosen = new Map(fresh.flatMap((one) => one.chosen).map((one) => [one.message, one]));
    const plan = await planForget(writer, [...chosen.values()], signal);
    if (plan.facts.length === 0) return false;
    await journalForget(writer, plan);
    for (const { id } of fresh) this.#decided.add(id);
    return true;
  }

  async #settle(ids: readonly string[]): Promise<void> {
    const { held } = this;
    try {
      const outcome = await underLease(held, (lease) => settleForgets(held.registry, lease, ids));
      // Fenced by `purges`: an earlier call whose answer was lost has settled them.
      const isLost = outcome.outcome === 'fenced' && outcome.by === 'lease';
      if (isLost) throw logFenced(null, 'refused');
    } catch (error) {
      // If they were not settled, they are found again.
      if (!hasCode(error, 'outcome-unknown')) throw error;
    }
  }
}

/** Returns what is to be forgotten as a request has it: one entry a message. */
export function wantedOf(chosen: readonly Forgetting[]): readonly object[] {
  return chosen.map(({ message, place }) =>
    place === undefined ? { message } : { message, place },
  );
}

/** Returns what a request names; undefined if it is something else than `wantedOf` returns. */
export function forgettingOf(wanted: unknown): readonly Forgetting[] | undefined {
  if (!Array.isArray(wanted) || wanted.length === 0) return undefined;
  const chosen: Forgetting[] = [];
  for (const one of wanted) {
    if (!isObject(one) || !isHash(one.message)) return undefined;
    const { message, place } = one;
    if (place === undefined) chosen.push({ message });
    else if (isPlace(place)) chosen.push({ message, place });
    else return undefined;
  }
  return chosen;
}

function isPlace(value: unknown): value is Place {
  return (
    isObject(value) &&
    [value.host, value.mailbox, value.folder].every((part) => typeof part === 'string') &&
    [value.generation, value.uid].every(Number.isSafeInteger)
  );
}
