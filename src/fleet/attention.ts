import type { Replication } from '../registry/reading.ts';
import type { FleetStatus } from '../registry/status.ts';
import type { Attention } from './fleet-attention.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Others take the archives of a dead session within a minute. */
const ORPHANED_MS = 5 * MINUTE_MS;
/** Commits leave PostgreSQL after a day at most. */
const TAIL_MS = 2 * DAY_MS;
const PURGE_MS = DAY_MS;
/** After a failover without a synchronous replica. */
const FAILOVER_MS = DAY_MS;

/** What of a fleet decides whether it needs a person. */
export type WatchedStatus = Pick<FleetStatus, 'sessions' | 'accounts' | 'tail' | 'purges'> &
  Partial<Pick<FleetStatus, 'commits'>>;

/**
 * Returns what is not as it should be, most dangerous first.
 *
 * @param isFreshnessAsked whether stale accounts count
 */
export function attentionOf(
  status: WatchedStatus,
  { isSynchronous, failedOverMs }: Replication,
  isFreshnessAsked: boolean,
): readonly Attention[] {
  const { commits, tail, purges } = status;
  const found: Attention[] = [];
  if (!isSynchronous) {
    found.push({ code: 'not-synchronous' });
    if (failedOverMs !== undefined && failedOverMs < FAILOVER_MS) {
      found.push({ code: 'failed-over', ageMs: failedOverMs });
    }
  }
  found.push(...ofSessions(status));
  if (tail.oldest !== undefined && tail.oldest.ageMs > TAIL_MS) {
    found.push({ code: 'tail-old', ...tail.oldest });
  }
  const [purge] = purges.oldest;
  if (purge !== undefined && purge.ageMs > PURGE_MS) {
    const { name, tenant, ageMs } = purge;
    found.push({ code: 'forget-old', name, tenant, ageMs });
  }
  if (isFreshnessAsked && commits !== undefined && commits.stale > 0) {
    found.push({ code: 'stale', accounts: commits.stale });
  }
  return found;
}

function ofSessions({ sessions, accounts }: WatchedStatus): Attention[] {
  const active = accounts
    .filter(({ state }) => state === 'active')
    .reduce((sum, { count }) => sum + count, 0);
  const taking = sessions.filter(({ isDead, isDraining }) => !isDead && !isDraining);
  const capacity = taking.reduce((sum, session) => sum + session.capacity, 0);
  const orphaned = sessions
    .filter(({ isDead, overMs, archives }) => isDead && archives > 0 && overMs > ORPHANED_MS)
    .map(
      ({ node, archives, overMs: ageMs }): Attention => ({
        ...{ code: 'orphaned', node, archives, ageMs },
      }),
    );
  if (active === 0) return orphaned;
  if (taking.length === 0) return [{ code: 'no-worker', accounts: active }, ...orphaned];
  if (capacity >= active) return orphaned;
  return [{ code: 'no-capacity', accounts: active, capacity }, ...orphaned];
}
