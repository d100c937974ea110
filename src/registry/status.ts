import { sql } from 'kysely';
import type { AccountState } from './accounts.ts';
import type { ObjectState } from './objects.ts';
import type { Registry, Tx } from './registry.ts';

/** A fleet as people ask for it, all of one moment. Ages are by the clock of the server, in milliseconds. */
export interface FleetStatus {
  /** Those that live, and dead ones that archives name. */
  readonly sessions: readonly SessionStatus[];
  readonly accounts: readonly AccountCount[];
  readonly commits: CommitStatus;
  readonly tail: TailStatus;
  /** Objects that are gone are left out. */
  readonly objects: readonly ObjectCount[];
  readonly purges: PurgeStatus;
  readonly struck: readonly StruckNode[];
}

export interface SessionStatus {
  readonly session: string;
  readonly node: string;
  readonly egress: string;
  readonly capacity: number;
  readonly isDraining: boolean;
  /** Marked dead, or out of time and not marked yet. */
  readonly isDead: boolean;
  /** Since its lease ended; negative before. */
  readonly overMs: number;
  readonly archives: number;
}

/** `held` by a session that lives, of a `dead` one, or `free`, as whatever is being imported. */
export interface AccountCount {
  readonly state: AccountState;
  readonly holding: 'held' | 'dead' | 'free';
  readonly count: number;
}

export interface NamedAccount {
  readonly tenant: string;
  readonly name: string;
}

/** Of accounts that are active. */
export interface CommitStatus {
  /** Accounts without a commit. */
  readonly none: number;
  /** Accounts whose last commit is older than was asked for, or that have none. */
  readonly stale: number;
  /** With the time of their last commits, in milliseconds since 1970. */
  readonly newest: (NamedAccount & { readonly headTime: number }) | undefined;
  readonly oldest: (NamedAccount & { readonly headTime: number }) | undefined;
}

/** Commits that are in PostgreSQL. */
export interface TailStatus {
  readonly archives: number;
  readonly bytes: number;
  readonly oldest: (NamedAccount & { readonly ageMs: number }) | undefined;
}

export interface ObjectCount {
  readonly state: ObjectState;
  readonly count: number;
  /** As far as it is known. */
  readonly bytes: number;
}

export interface UnfinishedPurge extends NamedAccount {
  readonly archive: number;
  /** The number of the purge; null for what was asked for and is not decided. */
  readonly purges: number | null;
  readonly state: AccountState;
  readonly holder: string | null;
  readonly ageMs: number;
}

export interface PurgeStatus {
  readonly unfinished: number;
  /** The oldest of them. */
  readonly oldest: readonly UnfinishedPurge[];
}

export interface StruckNode {
  readonly node: string;
  readonly archives: number;
  readonly ageMs: number;
}

export interface StatusOptions {
  /** Milliseconds since 1970: last commits before this are stale. */
  readonly staleBefore: number;
  /** How many unfinished purges, and struck nodes, are returned at most. */
  readonly most: number;
}

/** Of a row of `worker` called w. */
export const ALIVE = sql`coalesce(NOT w.dead AND w.lease_until >= clock_timestamp(), false)`;

/** Returns the state of a fleet. */
export async function fleetStatus(
  registry: Registry,
  { staleBefore, most }: StatusOptions,
): Promise<FleetStatus> {
  return registry.transaction(
    'look at the state of the fleet',
    async (tx) => ({
      sessions: await sessions(tx),
      accounts: await accounts(tx),
      commits: await commits(tx, staleBefore),
      tail: await tail(tx),
      objects: await objects(tx),
      purges: await unfinishedPurges(tx, most),
      struck: await struck(tx, most),
    }),
    'repeatable read',
  );
}

async function sessions(tx: Tx): Promise<readonly SessionStatus[]> {
  const { rows } = await sql<SessionStatus>`
    SELECT w.session, w.node, w.egress, w.capacity, w.draining AS "isDraining", NOT ${ALIVE} AS "isDead",
      (extract(epoch FROM clock_timestamp() - w.lease_until) * 1000)::bigint AS "overMs",
      coalesce(h.archives, 0) AS archives
    FROM worker w LEFT JOIN (
      SELECT holder, count(*) AS archives FROM archive WHERE holder IS NOT NULL GROUP BY holder) h
      ON h.holder = w.session
    WHERE NOT w.dead OR h.archives > 0 ORDER BY w.node, w.lease_until`.execute(tx);
  return rows;
}

async function accounts(tx: Tx): Promise<readonly AccountCount[]> {
  const { rows } = await sql<AccountCount>`
    SELECT a.state, CASE WHEN a.holder IS NULL OR a.state = 'importing' THEN 'free' WHEN ${ALIVE} THEN 'held' ELSE 'dead' END AS holding,
      count(*) AS count
    FROM archive a LEFT JOIN worker w ON w.session = a.holder GROUP BY 1, 2 ORDER BY 1, 2`.execute(
    tx,
  );
  return rows;
}

async function commits(tx: Tx, staleBefore: number): Promise<CommitStatus> {
  const { rows } = await sql<{ none: number; stale: number }>`
    SELECT count(*) FILTER (WHERE head_number = 0) AS none,
      count(*) FILTER (WHERE head_number = 0 OR head_time < ${staleBefore}) AS stale
    FROM archive WHERE state = 'active'`.execute(tx);
  const one = async (order: 'asc' | 'desc') => {
    const { rows: found } = await sql<NamedAccount & { headTime: number }>`
      SELECT t.name AS tenant, a.name, a.head_time AS "headTime"
      FROM archive a JOIN tenant t ON t.id = a.tenant
      WHERE a.state = 'active' AND a.head_number > 0
      ORDER BY a.head_time ${sql.raw(order)}, a.id LIMIT 1`.execute(tx);
    return found[0];
  };
  const [counts = { none: 0, stale: 0 }] = rows;
  return { ...counts, newest: await one('desc'), oldest: await one('asc') };
}

async function tail(tx: Tx): Promise<TailStatus> {
  const { rows } = await sql<{ archives: number; bytes: number }>`
    SELECT count(*) AS archives, coalesce(sum(tail_bytes), 0)::bigint AS bytes
    FROM archive WHERE tail_since IS NOT NULL`.execute(tx);
  return { ...(rows[0] ?? { archives: 0, bytes: 0 }), oldest: await oldestTail(tx) };
}

/** Returns the account whose commits are in PostgreSQL for longest. */
export async function oldestTail(tx: Tx): Promise<TailStatus['oldest']> {
  const { rows } = await sql<NamedAccount & { ageMs: number }>`
    SELECT t.name AS tenant, a.name,
      (extract(epoch FROM clock_timestamp() - a.tail_since) * 1000)::bigint AS "ageMs"
    FROM archive a JOIN tenant t ON t.id = a.tenant
    WHERE a.tail_since IS NOT NULL ORDER BY a.tail_since, a.id LIMIT 1`.execute(tx);
  return rows[0];
}

async function objects(tx: Tx): Promise<readonly ObjectCount[]> {
  const { rows } = await sql<ObjectCount>`
    SELECT state, count(*) AS count, coalesce(sum(bytes), 0)::bigint AS bytes
    FROM object WHERE state <> 'gone' GROUP BY state ORDER BY state`.execute(tx);
  return rows;
}

/** Returns how many forgets have not ended, those that nobody has decided yet among them, and the oldest. */
export async function unfinishedPurges(tx: Tx, most: number): Promise<PurgeStatus> {
  const unfinished = sql`
    SELECT archive, purges, decided_at AS since FROM purge WHERE finished_at IS NULL
    UNION ALL SELECT archive, NULL, asked_at FROM forget WHERE purges IS NULL`;
  const { rows } = await sql<{ unfinished: number }>`
    SELECT count(*) AS unfinished FROM (${unfinished}) u`.execute(tx);
  const { rows: oldest } = await sql<UnfinishedPurge>`
    SELECT u.archive, u.purges, t.name AS tenant, a.name, a.state, a.holder,
      (extract(epoch FROM clock_timestamp() - u.since) * 1000)::bigint AS "ageMs"
    FROM (${unfinished}) u JOIN archive a ON a.id = u.archive JOIN tenant t ON t.id = a.tenant
    ORDER BY u.since, u.archive, u.purges LIMIT ${most}`.execute(tx);
  return { unfinished: rows[0]?.unfinished ?? 0, oldest };
}

async function struck(tx: Tx, most: number): Promise<readonly StruckNode[]> {
  const { rows } = await sql<StruckNode>`
    SELECT node, archives, (extract(epoch FROM clock_timestamp() - struck_at) * 1000)::bigint AS "ageMs"
    FROM struck_node ORDER BY struck_at DESC LIMIT ${most}`.execute(tx);
  return rows;
}
