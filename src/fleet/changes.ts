import { sql } from 'kysely';
import type { AccountState } from './accounts.ts';
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
