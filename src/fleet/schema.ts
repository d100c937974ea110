import { randomInt } from 'node:crypto';
import { sql } from 'kysely';
import { registryError } from './errors.ts';
import type { Registry, Tx } from './postgres.ts';

/** Version of the tables. Raised with each change of them. */
const TABLES_VERSION = 1;
/** "mkfl": no other program uses this number for its own lock. */
const CREATION_LOCK = 0x6d_6b_66_6c;

/**
 * The cluster and timeline of the server. A failover or a restore to an earlier time starts another timeline; a dump that
 * is loaded elsewhere has another cluster.
 */
export const TIMELINE = sql<string>`(SELECT system_identifier || '/' ||
  left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system())`;

const TABLES = [
  // One row. Transactions that change what others poll lock it first and take the next version. Shards and accounts are
  // numbered in the timeline.
  `CREATE TABLE fleet (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL,
    bucket text NOT NULL,
    min_program int NOT NULL,
    tables_version int NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    timeline text NOT NULL
  )`,
  // Disks of nodes. Two of one name would each count as wiped once the other is.
  `CREATE TABLE node (
    name text PRIMARY KEY,
    disk uuid NOT NULL
  )`,
  // Starts of worker processes. A dead one never lives again.
  `CREATE TABLE worker (
    session uuid PRIMARY KEY,
    node text NOT NULL,
    address text NOT NULL,
    program int NOT NULL,
    room int NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    lease_until timestamptz NOT NULL,
    dead boolean NOT NULL DEFAULT false,
    version bigint NOT NULL
  )`,
  // Epoch, holder (a session) and timeline are the fence of everything that is written about a shard. Purges are counted:
  // decided, removed from all that the manifest names (clean), and ended. Shipping moves rows in place (HOT updates).
  `CREATE TABLE shard (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    holder uuid,
    timeline text NOT NULL,
    wanted_node text,
    avoid jsonb NOT NULL DEFAULT '{}',
    failing jsonb,
    manifest text,
    manifest_sha256 bytea,
    sequence bigint NOT NULL DEFAULT -1,
    commit_number bigint NOT NULL DEFAULT 0,
    shipped_at timestamptz,
    purges int NOT NULL DEFAULT 0,
    clean int NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    catalog_bytes bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL,
    CHECK (clean <= purges)
  ) WITH (fillfactor = 70)`,
  'CREATE INDEX shard_by_holder ON shard (holder)',
  'CREATE INDEX shard_by_version ON shard (version)',
  `CREATE TABLE account (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    shard bigint NOT NULL REFERENCES shard,
    settings jsonb NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'removed')),
    last_error text,
    version bigint NOT NULL,
    UNIQUE (tenant, name)
  )`,
  'CREATE INDEX account_by_shard ON account (shard)',
  'CREATE INDEX account_by_version ON account (version)',
  // Credentials, encrypted by a key of the fleet. The nonce tells versions of a secret apart.
  `CREATE TABLE secret (
    account bigint NOT NULL REFERENCES account,
    purpose text NOT NULL,
    key_id text NOT NULL,
    nonce bytea NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (account, purpose)
  )`,
  // API tokens and browser sessions, found by a keyed hash. A revocation counts once its row is committed.
  `CREATE TABLE token (
    id uuid PRIMARY KEY,
    lookup bytea NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('api', 'web')),
    tenant text,
    name text NOT NULL,
    grants jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
  )`,
  // Objects in the bucket and uploads to it. Content is clean of the first \`purges\` purges. Rows of objects that are gone
  // are deleted; names are never used twice.
  `CREATE TABLE object (
    name text PRIMARY KEY,
    shard bigint NOT NULL REFERENCES shard,
    kind text NOT NULL CHECK (kind IN ('segment', 'tail', 'snapshot', 'state', 'manifest')),
    state text NOT NULL DEFAULT 'uploading'
      CHECK (state IN ('uploading', 'live', 'condemned', 'swept')),
    upload_id text NOT NULL,
    epoch bigint NOT NULL,
    purges int NOT NULL,
    bytes bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    condemned_at timestamptz,
    swept_at timestamptz
  )`,
  'CREATE INDEX object_by_shard ON object (shard, state, purges)',
  `CREATE INDEX object_condemned ON object (condemned_at) WHERE state = 'condemned'`,
  `CREATE INDEX object_waiting ON object (state, name) WHERE state <> 'live'`,
  // The work of a purge (messages, mailbox, query) is encrypted by a key of the fleet.
  `CREATE TABLE purge (
    shard bigint NOT NULL REFERENCES shard,
    number int NOT NULL,
    reason text NOT NULL CHECK (reason IN ('forgotten', 'pruned')),
    work bytea NOT NULL,
    asked_by text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    PRIMARY KEY (shard, number)
  )`,
  // Nodes whose disk may have bytes of a shard. Each claim makes a new entry of the node's row.
  `CREATE TABLE folder (
    shard bigint NOT NULL REFERENCES shard,
    node text NOT NULL,
    entry bigint NOT NULL,
    ahead boolean NOT NULL DEFAULT false,
    PRIMARY KEY (shard, node)
  )`,
  `CREATE TABLE event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    who text NOT NULL,
    what text NOT NULL,
    shard bigint,
    account bigint,
    facts jsonb NOT NULL
  )`,
];

export interface FleetRow {
  readonly id: string;
  /** Address of the bucket and prefix with its objects. */
  readonly bucket: string;
}

/**
 * Creates the tables and the row of the fleet, unless they exist. Returns the fleet that is there.
 *
 * @throws registry-schema-newer
 */
export async function createFleet(
  registry: Registry,
  { id, bucket }: FleetRow,
): Promise<FleetRow & { readonly isNew: boolean }> {
  return registry.transaction('create the fleet', async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${CREATION_LOCK})`.execute(tx);
    const before = await findFleet(tx);
    if (before !== undefined) {
      refuseOtherTables(registry, before.tablesVersion);
      return { id: before.id, bucket: before.bucket, isNew: false };
    }
    for (const statement of TABLES) await sql.raw(statement).execute(tx);
    await sql`INSERT INTO fleet (id, bucket, min_program, tables_version, timeline)
      VALUES (${id}, ${bucket}, ${PROGRAM}, ${TABLES_VERSION}, ${TIMELINE})`.execute(tx);
    return { id, bucket, isNew: true };
  });
}

/** Of the random gap between numbers: no two histories of a registry come close. */
const NUMBERS_SKIPPED = 2 ** 32;

/**
 * Continues the numbers of shards and accounts far away, if PostgreSQL has another timeline than when the last was given. A
 * shard or an account that the registry has lost still has objects in the bucket and mail on disks, under its number.
 *
 * @param isForced also in the same timeline
 */
export async function skipNumbers(tx: Tx, isForced = false): Promise<void> {
  const { rows } = await sql`UPDATE fleet SET timeline = ${TIMELINE}
    WHERE ${isForced} OR timeline <> ${TIMELINE} RETURNING id`.execute(tx);
  if (rows.length === 0) return;
  for (const table of ['shard', 'account'] as const) {
    await sql`SELECT setval(pg_get_serial_sequence(${table}, 'id'),
      (SELECT coalesce(max(id), 0) FROM ${sql.table(table)}) + ${randomInt(NUMBERS_SKIPPED)} + 1)
      `.execute(tx);
  }
}

/** Version of the protocol. Raised when workers of two versions must not work in one fleet. */
export const PROGRAM = 2;

/** @throws registry-schema-newer, registry-schema-older, registry-program-old */
export async function requireFleet(registry: Registry): Promise<FleetRow> {
  const found = await registry.transaction('find the fleet', findFleet, 'repeatable read');
  if (found === undefined) {
    const facts = { registry: registry.label, found: null, needed: String(TABLES_VERSION) };
    throw registryError('registry-schema-older', facts);
  }
  refuseOtherTables(registry, found.tablesVersion);
  if (found.minProgram > PROGRAM) {
    const facts = { registry: registry.label, own: PROGRAM, needed: found.minProgram };
    throw registryError('registry-program-old', facts);
  }
  return { id: found.id, bucket: found.bucket };
}

async function findFleet(tx: Tx) {
  const { rows: tables } = await sql<{ found: string | null }>`
    SELECT to_regclass('fleet') AS found`.execute(tx);
  if (tables[0]?.found === null) return undefined;
  const { rows } = await sql<FleetRow & { tablesVersion: number; minProgram: number }>`
    SELECT id, bucket, tables_version AS "tablesVersion", min_program AS "minProgram"
    FROM fleet`.execute(tx);
  return rows[0];
}

function refuseOtherTables({ label: registry }: Registry, found: number): void {
  if (found === TABLES_VERSION) return;
  const known = String(TABLES_VERSION);
  if (found > TABLES_VERSION) {
    throw registryError('registry-schema-newer', { registry, found: String(found), known });
  }
  throw registryError('registry-schema-older', { registry, found: String(found), needed: known });
}
