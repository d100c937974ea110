import { sql } from 'kysely';
import type { AccountState } from './accounts.ts';
import type { ObjectState } from './objects.ts';
import type { Registry, Tx } from './registry.ts';
import {
  type AccountCount,
  ALIVE,
  type FleetStatus,
  type ObjectCount,
  oldestTail,
  type SessionStatus,
  type TailStatus,
  unfinishedPurges,
} from './status.ts';

/** What of the state of a fleet is cheap enough to be asked every minute by every node. */
export interface FleetNumbers extends Pick<FleetStatus, 'sessions' | 'accounts'> {
  readonly tail: TailStatus & { readonly ageMs: number | null };
  readonly objects: readonly Omit<ObjectCount, 'bytes'>[];
  /** With the oldest only. */
  readonly purges: FleetStatus['purges'];
}

/** Commits leave PostgreSQL after a day: before, nobody asks whose they are. In milliseconds. */
const NAMED_AFTER_MS = 86_400_000;

/** What one look at all archives says, by holder and state. */
interface Share {
  readonly holder: string | null;
  readonly state: AccountState;
  readonly count: number;
  readonly tailArchives: number;
  readonly tailBytes: number;
  readonly tailAgeMs: number | null;
}

/** Returns the numbers of a fleet. All archives are read once, and of objects two small indexes. */
export async function fleetNumbers(registry: Registry): Promise<FleetNumbers> {
  return registry.transaction(
    'look at the numbers of the fleet',
    async (tx) => {
      const all = await shares(tx);
      const sessions = await sessionsOf(tx, all);
      const ages = all.flatMap(({ tailAgeMs }) => tailAgeMs ?? []);
      const ageMs = ages.length === 0 ? null : Math.max(...ages);
      return {
        sessions,
        accounts: accountsOf(all, sessions),
        tail: {
          archives: all.reduce((sum, { tailArchives }) => sum + tailArchives, 0),
          bytes: all.reduce((sum, { tailBytes }) => sum + tailBytes, 0),
          ageMs,
          oldest: ageMs !== null && ageMs > NAMED_AFTER_MS ? await oldestTail(tx) : undefined,
        },
        objects: await objectCounts(tx),
        purges: await unfinishedPurges(tx, 1),
      };
    },
    'repeatable read',
  );
}

async function shares(tx: Tx): Promise<readonly Share[]> {
  const { rows } = await sql<Share>`
    SELECT holder, state, count(*) AS count, count(tail_since) AS "tailArchives",
      coalesce(sum(tail_bytes), 0)::bigint AS "tailBytes",
      (extract(epoch FROM clock_timestamp() - min(tail_since)) * 1000)::bigint AS "tailAgeMs"
    FROM archive GROUP BY holder, state`.execute(tx);
  return rows;
}

async function sessionsOf(tx: Tx, all: readonly Share[]): Promise<readonly SessionStatus[]> {
  const held = new Map<string, number>();
  for (const { holder, count } of all) {
    if (holder !== null) held.set(holder, (held.get(holder) ?? 0) + count);
  }
  const { rows } = await sql<Omit<SessionStatus, 'archives'>>`
    SELECT w.session, w.node, w.egress, w.capacity, w.draining AS "isDraining",
      NOT ${ALIVE} AS "isDead",
      (extract(epoch FROM clock_timestamp() - w.lease_until) * 1000)::bigint AS "overMs"
    FROM worker w WHERE NOT w.dead OR w.session = ANY(${[...held.keys()]}::uuid[])
    ORDER BY w.node, w.lease_until`.execute(tx);
  return rows.map((row) => ({ ...row, archives: held.get(row.session) ?? 0 }));
}

function accountsOf(
  all: readonly Share[],
  sessions: readonly SessionStatus[],
): readonly AccountCount[] {
  const alive = new Set(sessions.filter(({ isDead }) => !isDead).map(({ session }) => session));
  return all.map(({ holder, state, count }) => {
    // An importer has no row of a worker.
    const isFree = holder === null || state === 'importing';
    const holding = isFree ? 'free' : alive.has(holder) ? 'held' : 'dead';
    return { state, holding, count };
  });
}

async function objectCounts(tx: Tx): Promise<FleetNumbers['objects']> {
  const { rows } = await sql<{ state: ObjectState; count: number }>`
    WITH waiting AS (
      SELECT state, count(*) AS count FROM object
      WHERE state IN ('uploading', 'condemned', 'swept') GROUP BY state)
    SELECT state, count FROM waiting UNION ALL
    SELECT 'live', (SELECT count(*) FROM object WHERE state <> 'gone')
      - coalesce((SELECT sum(count) FROM waiting), 0)::bigint`.execute(tx);
  return rows;
}
