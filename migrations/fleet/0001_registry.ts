import { type Kysely, sql } from 'kysely';

/** The tables of a fleet: who holds which archive, its head, its tail, and what covers the rest of its log. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

/** Vacuumed one by one. */
const TAIL_PARTITIONS = 16;

const STATEMENTS = [
  // One row: what the fleet is, the oldest program that may work in it, and the timeline of PostgreSQL that was seen last:
  // another one is a failover, since when `timeline_since` counts.
  `CREATE TABLE fleet (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL,
    bucket text NOT NULL,
    min_program int NOT NULL,
    archive_format int NOT NULL,
    catalog_version int NOT NULL,
    timeline bigint NOT NULL,
    timeline_since timestamptz
  )`,
  // Starts of worker processes. One that is dead stays so, and its row stays while an archive names it. Requests to the
  // origin come from the address `egress`.
  `CREATE TABLE worker (
    session uuid PRIMARY KEY,
    node text NOT NULL,
    address text NOT NULL,
    egress text NOT NULL,
    program int NOT NULL,
    capacity int NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    lease_until timestamptz NOT NULL,
    dead boolean NOT NULL DEFAULT false
  )`,
  `CREATE TABLE tenant (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text UNIQUE NOT NULL,
    weight int NOT NULL CHECK (weight > 0)
  )`,
  // Epoch and holder (a session) are the fence of all that is written about an archive. The head is its last commit; the
  // hot segment is the one that is appended to, and `hot_previous` the head that its header names.
  // Heads move in place: no index has a column that a commit changes, and pages keep room for new versions.
  `CREATE TABLE archive (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenant,
    name text NOT NULL,
    log_id bytea NOT NULL,
    settings jsonb NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'leaving')),
    epoch bigint NOT NULL DEFAULT 0,
    holder uuid,
    wanted_node text,
    head_number bigint NOT NULL DEFAULT 0,
    head_hash bytea NOT NULL,
    head_time bigint NOT NULL DEFAULT 0,
    hot_segment int NOT NULL DEFAULT 1,
    hot_offset int NOT NULL DEFAULT 64,
    hot_ordinal int NOT NULL DEFAULT 0,
    hot_previous bigint NOT NULL DEFAULT 0,
    hot_previous_hash bytea NOT NULL,
    tail_bytes bigint NOT NULL DEFAULT 0,
    tail_since timestamptz,
    purges int NOT NULL DEFAULT 0,
    UNIQUE (tenant, name)
  ) WITH (fillfactor = 70)`,
  'CREATE INDEX archive_by_holder ON archive (holder)',
  // The bytes of commits as they are in generation 1 of their segment, deflated unless that makes them no smaller.
  `CREATE TABLE tail (
    archive bigint NOT NULL,
    number bigint NOT NULL,
    segment int NOT NULL,
    at int NOT NULL,
    first_ordinal int NOT NULL,
    raw_bytes int NOT NULL,
    hash bytea NOT NULL,
    time bigint NOT NULL,
    codec smallint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (archive, number)
  ) PARTITION BY HASH (archive)`,
  ...Array.from(
    { length: TAIL_PARTITIONS },
    (_, at) =>
      `CREATE TABLE tail_${at} PARTITION OF tail FOR VALUES WITH (MODULUS ${TAIL_PARTITIONS}, REMAINDER ${at})`,
  ),
  // They are deflated already. PostgreSQL 15 has no STORAGE in CREATE TABLE, and partitions have settings of their own.
  ...Array.from(
    { length: TAIL_PARTITIONS },
    (_, at) => `ALTER TABLE tail_${at} ALTER COLUMN bytes SET STORAGE EXTERNAL`,
  ),
  'ALTER TABLE tail ALTER COLUMN bytes SET STORAGE EXTERNAL',
  // What each name in the object store is. `purges` is the number of purges that its content was made with.
  `CREATE TABLE object (
    key text PRIMARY KEY,
    archive bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('chunk', 'sealed', 'snapshot')),
    state text NOT NULL CHECK (state IN ('uploading', 'live', 'condemned', 'swept', 'gone')),
    upload_id text NOT NULL,
    epoch bigint NOT NULL,
    purges int NOT NULL,
    bytes bigint,
    sha256 bytea,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    condemned_at timestamptz,
    swept_at timestamptz,
    CHECK (condemned_at IS NOT NULL OR state IN ('uploading', 'live'))
  )`,
  `CREATE INDEX object_waiting ON object (state, begun_at)
    WHERE state IN ('uploading', 'condemned', 'swept')`,
  // What the end of a purge asks for; objects that are gone are many, and never asked for.
  `CREATE INDEX object_of_archive ON object (archive) WHERE state <> 'gone'`,
  // Which object holds a range of commits that is no longer in the tail.
  `CREATE TABLE cover (
    archive bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    key text NOT NULL REFERENCES object,
    segment int NOT NULL,
    generation int NOT NULL,
    at int NOT NULL,
    last_hash bytea NOT NULL,
    PRIMARY KEY (archive, first),
    CHECK (first > 0 AND last >= first)
  )`,
  // The catalog in the object store, and the commit it has reached.
  `CREATE TABLE snapshot (
    archive bigint PRIMARY KEY,
    key text NOT NULL REFERENCES object,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    catalog_version int NOT NULL
  )`,
  // What an archive remembers apart from its log, saved now and then. `purges` is the number of purges that it was saved
  // with.
  `CREATE TABLE memory (
    archive bigint PRIMARY KEY,
    number bigint NOT NULL,
    purges int NOT NULL,
    bytes bytea NOT NULL
  )`,
  // Purges that were decided, and what is left to do. The commits are in a column of their own, so that SQL decides when a purge ends without reading the records. A purge of records has commits, or it would end before their bytes are gone.
  `CREATE TABLE purge (
    archive bigint NOT NULL,
    purges int NOT NULL,
    number bigint NOT NULL,
    commits bigint[] NOT NULL,
    records jsonb NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (archive, purges),
    CONSTRAINT purge_of_commits CHECK
      (cardinality(commits) > 0 OR coalesce(records -> 'records' = '[]', false))
  )`,
  'CREATE INDEX purge_unfinished ON purge (archive) WHERE finished_at IS NULL',
  // Nodes that may have bytes of an archive on their disks. Each entry is another one: a node that wiped its copy takes back that entry only, never one made since.
  `CREATE TABLE cache (
    archive bigint NOT NULL,
    node text NOT NULL,
    entry uuid NOT NULL,
    PRIMARY KEY (archive, node)
  )`,
  'CREATE INDEX cache_by_node ON cache (node)',
  // Credentials, encrypted by a key that is not in the database.
  `CREATE TABLE secret (
    archive bigint NOT NULL,
    purpose text NOT NULL,
    key_id text NOT NULL,
    nonce bytea NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (archive, purpose)
  )`,
];
