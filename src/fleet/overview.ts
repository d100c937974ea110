import { type RawBuilder, sql } from 'kysely';
import type { AccountState } from './accounts.ts';
import type { Lease } from './outcomes.ts';
import type { Registry } from './postgres.ts';
import { TIMELINE } from './schema.ts';

export interface WorkerRow {
  readonly session: string;
  readonly node: string;
  readonly address: string;
  /** Number of accounts that it takes at most. */
  readonly room: number;
  readonly isDraining: boolean;
  readonly isDead: boolean;
}

export interface ShardRow {
  readonly shard: number;
  readonly epoch: number;
  readonly holder: string | null;
  readonly wantedNode: string | null;
  /** By node, until when it must not claim the shard, and the code of the error. */
  readonly avoid: Readonly<Record<string, { readonly until: string; readonly code: string }>>;
  readonly failing: { readonly code: string; readonly node: string; readonly since: string } | null;
  readonly purges: number;
  readonly messages: number;
  readonly catalogBytes: number;
  /** False until the shard has been recovered after a failover or a restore. */
  readonly isCurrent: boolean;
}

export interface AccountRow {
  readonly account: number;
  readonly tenant: string;
  readonly name: string;
  readonly shard: number;
  readonly settings: unknown;
  readonly state: AccountState;
  /** Raised with each change of the account and of its secrets. */
  readonly version: number;
}

export interface FleetRows {
  /** Of the last change that they contain. */
  readonly version: number;
  readonly workers: readonly WorkerRow[];
  readonly shards: readonly ShardRow[];
  readonly accounts: readonly AccountRow[];
}

/**
 * Returns the rows that changed after a version. Versions become visible in order, so nothing below the returned one can
 * appear later. Messages and bytes of shards move without a new version.
 *
 * @param version -1 for all rows. A lower version than before means that PostgreSQL was restored.
 */
export async function changesSince(registry: Registry, version: number): Promise<FleetRows> {
  return registry.transaction(
    'look for changes',
    async (tx) => {
      const now = await sql<{ version: number }>`SELECT version FROM fleet`.execute(tx);
      const latest = now.rows[0]?.version ?? 0;
      if (latest === version) return { version, workers: [], shards: [], accounts: [] };
      const workers = await sql<WorkerRow>`
        SELECT session, node, address, room, draining AS "isDraining", dead AS "isDead"
        FROM worker WHERE version > ${version} ORDER BY session`.execute(tx);
      const shards = await sql<ShardRow>`
        SELECT id AS shard, epoch, holder, wanted_node AS "wantedNode", avoid, failing, purges,
          messages, catalog_bytes AS "catalogBytes", timeline = ${TIMELINE} AS "isCurrent"
        FROM shard WHERE version > ${version} ORDER BY id`.execute(tx);
      const accounts = await sql<AccountRow>`
        SELECT id AS account, tenant, name, shard, settings, state, version
        FROM account WHERE version > ${version} ORDER BY id`.execute(tx);
      return {
        version: latest,
        workers: workers.rows,
        shards: shards.rows,
        accounts: accounts.rows,
      };
    },
    'repeatable read',
  );
}

interface NodeStatus extends WorkerRow {
  readonly shards: number;
  readonly accounts: number;
}

type ShownOfShard = 'shard' | 'epoch' | 'failing' | 'messages' | 'catalogBytes' | 'isCurrent';

interface ShardStatus extends Pick<ShardRow, ShownOfShard> {
  /** Node of the living session that holds it, or null. */
  readonly node: string | null;
  /** Milliseconds since its last holder died; null if it has one, or never had any. */
  readonly freeMs: number | null;
  readonly accounts: number;
  /** Milliseconds since the last ship, or null. */
  readonly shippedMs: number | null;
}

export interface WaitingPurge {
  readonly shard: number;
  readonly number: number;
  readonly askedBy: string;
  readonly ageMs: number;
  /** Node that holds the shard, and carries it out; null if nobody does. */
  readonly holder: string | null;
  readonly isShipped: boolean;
  /** Other nodes whose folder may have the bytes. */
  readonly nodes: readonly string[];
  /** Older objects of the bucket that are not gone. */
  readonly objects: number;
  readonly hasEnded: boolean;
}

export interface FleetStatus {
  readonly nodes: readonly NodeStatus[];
  readonly shards: readonly ShardStatus[];
  readonly accounts: Readonly<Record<AccountState | 'withErrors', number>>;
  /** Oldest first, at most a hundred. */
  readonly purges: readonly WaitingPurge[];
}

const HELD_BY = sql`LEFT JOIN worker w ON w.session = s.holder`;
/** It is dead, or will be marked so unless it is renewed soon. */
const DEAD = sql`(w.dead OR w.lease_until < clock_timestamp())`;
const AGE_MS = (of: RawBuilder<unknown>) =>
  sql<number>`(extract(epoch FROM clock_timestamp() - ${of}) * 1000)::float8`;

/** Returns the state of a fleet: living sessions, and dead ones that still hold a shard. */
export async function fleetStatus(registry: Registry): Promise<FleetStatus> {
  const nodes = await registry.read<NodeStatus>(
    'look at nodes',
    sql`SELECT w.node, w.session, w.address, w.room, w.draining AS "isDraining", ${DEAD} AS "isDead",
        count(s.id) AS shards, coalesce(sum((SELECT count(*) FROM account a
          WHERE a.shard = s.id AND a.state <> 'removed')), 0)::int AS accounts
      FROM worker w LEFT JOIN shard s ON s.holder = w.session
      GROUP BY w.session HAVING NOT w.dead OR count(s.id) > 0 ORDER BY w.node, w.session`,
  );
  const shards = await registry.read<ShardStatus>(
    'look at shards',
    sql`SELECT s.id AS shard, s.epoch, CASE WHEN NOT ${DEAD} THEN w.node END AS node,
        CASE WHEN ${DEAD} THEN ${AGE_MS(sql`w.lease_until`)} END AS "freeMs",
        (SELECT count(*) FROM account a WHERE a.shard = s.id AND a.state <> 'removed') AS accounts,
        s.messages, s.catalog_bytes AS "catalogBytes", s.failing,
        ${AGE_MS(sql`s.shipped_at`)} AS "shippedMs", s.timeline = ${TIMELINE} AS "isCurrent"
      FROM shard s ${HELD_BY} ORDER BY s.id`,
  );
  const [accounts] = await registry.read<FleetStatus['accounts']>(
    'count accounts',
    sql`SELECT count(*) FILTER (WHERE state = 'active') AS active,
        count(*) FILTER (WHERE state = 'paused') AS paused,
        count(*) FILTER (WHERE state = 'removed') AS removed,
        count(*) FILTER (WHERE state = 'active' AND last_error IS NOT NULL) AS "withErrors"
      FROM account`,
  );
  const purges = await purgesWhere(registry, sql`p.ended_at IS NULL`);
  const none = { active: 0, paused: 0, removed: 0, withErrors: 0 };
  return { nodes, shards, accounts: accounts ?? none, purges };
}

/** What metrics count in the registry, in addition to the rows that workers know. */
export interface WaitingWork {
  /** Purges that have not ended, and milliseconds since the oldest of them. */
  readonly purges: number;
  readonly purgeAgeMs: number | null;
  readonly accountsWithErrors: number;
  /** Objects that are not live, by state. */
  readonly objects: Readonly<Record<string, number>>;
}

export async function waitingWork(registry: Registry): Promise<WaitingWork> {
  const [row] = await registry.read<WaitingWork>(
    'count what waits',
    sql`SELECT count(*)::int AS purges, ${AGE_MS(sql`min(decided_at)`)} AS "purgeAgeMs",
        (SELECT count(*)::int FROM account WHERE state = 'active' AND last_error IS NOT NULL)
          AS "accountsWithErrors",
        (SELECT jsonb_object_agg(state, coalesce(n, 0))
          FROM unnest(ARRAY['uploading', 'condemned', 'swept']) AS state
          LEFT JOIN (SELECT state, count(*) AS n FROM object WHERE state <> 'live' GROUP BY state)
            AS waiting USING (state)) AS objects
      FROM purge WHERE ended_at IS NULL`,
  );
  return row ?? { purges: 0, purgeAgeMs: null, accountsWithErrors: 0, objects: {} };
}

export const MOST_PURGES = 100;

function purgesWhere(
  registry: Registry,
  condition: RawBuilder<unknown>,
): Promise<readonly WaitingPurge[]> {
  return registry.read<WaitingPurge>(
    'look at purges',
    sql`SELECT p.shard, p.number, p.asked_by AS "askedBy", ${AGE_MS(sql`p.decided_at`)} AS "ageMs",
        CASE WHEN NOT w.dead THEN w.node END AS holder, p.number <= s.clean AS "isShipped",
        ARRAY(SELECT f.node FROM folder f WHERE f.shard = p.shard
          AND f.node IS DISTINCT FROM w.node ORDER BY f.node) AS nodes,
        (SELECT count(*) FROM object o WHERE o.shard = p.shard
          AND o.state <> 'live' AND o.purges < p.number) AS objects,
        p.ended_at IS NOT NULL AS "hasEnded"
      FROM purge p JOIN shard s ON s.id = p.shard ${HELD_BY}
      WHERE ${condition} ORDER BY p.ended_at IS NOT NULL, p.decided_at LIMIT ${MOST_PURGES}`,
  );
}

/** Returns the purges of a shard that somebody asked for, unfinished ones first, at most a hundred. */
export async function purgesAskedBy(registry: Registry, shard: number, askedBy: string) {
  return purgesWhere(registry, sql`p.shard = ${shard} AND p.asked_by = ${askedBy}`);
}

/** Returns one purge. */
export async function findPurge(registry: Registry, shard: number, number: number) {
  const [found] = await purgesWhere(registry, sql`p.shard = ${shard} AND p.number = ${number}`);
  return found;
}

/** Returns the lease of a shard as it is now, for what any node may decide; undefined if nobody holds it. */
export async function currentLease(registry: Registry, shard: number): Promise<Lease | undefined> {
  const [found] = await registry.read<Lease>(
    'find the holder of a shard',
    sql`SELECT s.id AS shard, s.epoch, s.holder AS session FROM shard s ${HELD_BY}
      WHERE s.id = ${shard} AND NOT w.dead`,
  );
  return found;
}

export interface ListedAccount
  extends Pick<AccountRow, 'account' | 'tenant' | 'name' | 'state' | 'shard'>,
    Pick<ShardStatus, 'node' | 'shippedMs'> {
  readonly lastError: string | null;
}

/** Returns accounts by tenant and name. @param after the last one of the previous page */
export async function listAccounts(
  registry: Registry,
  { tenant, name }: { readonly tenant?: string | undefined; readonly name?: string | undefined },
  most: number,
  after?: Pick<ListedAccount, 'tenant' | 'name'>,
): Promise<readonly ListedAccount[]> {
  return registry.read<ListedAccount>(
    'list accounts',
    sql`SELECT a.id AS account, a.tenant, a.name, a.state, a.shard, a.last_error AS "lastError",
        CASE WHEN NOT w.dead THEN w.node END AS node, ${AGE_MS(sql`s.shipped_at`)} AS "shippedMs"
      FROM account a JOIN shard s ON s.id = a.shard ${HELD_BY}
      WHERE (a.tenant, a.name) > (${after?.tenant ?? ''}, ${after?.name ?? ''})
        AND (${tenant ?? null}::text IS NULL OR a.tenant = ${tenant ?? null})
        AND (${name ?? null}::text IS NULL OR a.name = ${name ?? null})
      ORDER BY a.tenant, a.name LIMIT ${most}`,
  );
}

/** Names of nodes that have or had a session or a folder, with the shards whose bytes they may have. */
export async function knownNodes(
  registry: Registry,
): Promise<
  readonly { readonly node: string; readonly folders: number; readonly purges: number }[]
> {
  return registry.read(
    'look at known nodes',
    sql`SELECT node, (SELECT count(*) FROM folder f WHERE f.node = n.node) AS folders,
        (SELECT count(*) FROM folder f JOIN purge p ON p.shard = f.shard
          WHERE f.node = n.node AND p.ended_at IS NULL) AS purges
      FROM (SELECT node FROM worker UNION SELECT node FROM folder) n ORDER BY node`,
  );
}
