import { archiveError } from '../archive/errors.ts';
import { MailkeepError } from '../core/errors.ts';
import { resolve } from '../registry/leases.ts';
import type { Head, Outcome } from '../registry/outcome.ts';
import type { HeldArchive } from './held-archive.ts';

/** How long it is tried to settle what is unknown. */
export interface Patience {
  /** Milliseconds after which no further request begins. One that is under way has the limits of the connection. */
  readonly forMs: number;
  /** Milliseconds of a clock that does not jump. */
  readonly now: () => number;
  readonly wait: (ms: number) => Promise<void>;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Returns the end of a log after a request whose outcome is unknown: from now on that request cannot be accepted, and the end
 * shows for good whether it was.
 *
 * A request to resolve can get lost like any other, and arrive later. Further ones name the same epoch until one is refused
 * because the registry has this session in a later one: an earlier request was accepted. What was seen then settles nothing
 * (it may not have reached the replicas), so that epoch is resolved in turn, until a request is accepted.
 *
 * @param commit the commit in question; null where a segment was closed
 * @throws `log-fenced`: the archive is lost, or the registry gave no answer for too long
 */
export async function settledHead(
  held: HeldArchive,
  patience: Patience,
  commit: number | null,
  cause: unknown,
): Promise<Head> {
  const until = patience.now() + patience.forMs;
  for (let pauseMs = FIRST_PAUSE_MS; held.lostBy === undefined; pauseMs *= 2) {
    const outcome = await resolved(held);
    const head = outcome?.head;
    if (outcome?.outcome === 'committed') return outcome.head;
    if (head !== undefined && !isOfEarlierRequest(held, head)) held.lose('lease');
    else if (patience.now() >= until) held.lose('unknown');
    else if (head !== undefined) held.moved({ epoch: head.epoch });
    else await patience.wait(Math.min(pauseMs, LONGEST_PAUSE_MS));
  }
  throw archiveError(
    'log-fenced',
    { commit, reason: held.lostBy === 'unknown' ? 'unknown' : 'refused' },
    cause,
  );
}

/**
 * Returns whether an epoch is one that this session's own request raised. Nobody else raises it as long as the archive is not
 * given back: a claim by anybody names another session.
 */
function isOfEarlierRequest({ session, lease }: HeldArchive, { holder, epoch }: Head): boolean {
  return holder === session && epoch > lease.epoch;
}

/** Returns what became of a request to resolve; undefined if that is not known either. */
async function resolved(held: HeldArchive): Promise<Outcome<{ head: Head }> | undefined> {
  try {
    return await resolve(held.registry, held.lease);
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}
