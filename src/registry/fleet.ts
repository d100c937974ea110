import { type RawBuilder, sql } from 'kysely';
import { fencedByPurges, heldBy, type Lease, type Outcome } from './outcome.ts';
import type { Registry, Tx } from './registry.ts';
import { PROGRAM } from './schema.ts';

export interface Fleet {
  readonly id: string;
  /** Where its objects are. */
  readonly bucket: string;
  readonly archiveFormat: number;
  readonly catalogVersion: number;
}

/** The timeline of the server: each failover, and each restore to an earlier time, begins another. */
const TIMELINE = sql<number>`
  ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint`;

/** Makes the registry that of a fleet, unless it is one already; returns the fleet that it is. */
export async function initFleet(registry: Registry, fleet: Fleet): Promise<Fleet> {
  const { id, bucket, archiveFormat, catalogVersion } = fleet;
  await registry.statement(
    'init a fleet',
    sql`INSERT INTO fleet (id, bucket, min_program, archive_format, catalog_version, timeline)
      VALUES (${id}, ${bucket}, ${PROGRAM}, ${archiveFormat}, ${catalogVersion}, ${TIMELINE})
      ON CONFLICT DO NOTHING`,
  );
  // Not `read`: if this answer is lost, the row may be there.
  const [found] = await registry.statement<Fleet>(
    'look at the fleet',
    sql`SELECT id, bucket, archive_format AS "archiveFormat", catalog_version AS "catalogVersion" FROM fleet`,
  );
  return found ?? fleet;
}

/**
 * Notes a failover if there was one since the last look.
 *
 * @returns whether this was the look that found it
 */
export async function noteFailover(registry: Registry): Promise<boolean> {
  const rows = await registry.statement(
    'note a failover',
    sql`UPDATE fleet SET timeline = ${TIMELINE}, timeline_since = clock_timestamp()
      WHERE timeline <> ${TIMELINE} RETURNING id`,
  );
  return rows.length > 0;
}

/** Adds a tenant unless there is one of that name; returns its id. Its weight is its share of a node's time. */
export async function addTenant(
  registry: Registry,
  tenant: { readonly name: string; readonly weight: number },
): Promise<number> {
  const [row] = await registry.statement<{ id: number }>(
    'add a tenant',
    sql`INSERT INTO tenant (name, weight) VALUES (${tenant.name}, ${tenant.weight})
      ON CONFLICT (name) DO UPDATE SET weight = excluded.weight RETURNING id`,
  );
  return row?.id ?? 0;
}

/** A new tenant gets the same share of a node's time as any other. */
const WEIGHT = 1;

/** Returns the id of a tenant, which is added unless there is one of that name. */
export async function tenantOf(tx: Tx, name: string): Promise<number> {
  await sql`INSERT INTO tenant (name, weight) VALUES (${name}, ${WEIGHT})
    ON CONFLICT (name) DO NOTHING`.execute(tx);
  // A statement of its own: it sees what another transaction has added meanwhile.
  const { rows } = await sql<{ id: number }>`
    SELECT id FROM tenant WHERE name = ${name} FOR KEY SHARE`.execute(tx);
  return rows[0]?.id ?? 0;
}

export interface NewArchive {
  readonly tenant: number;
  readonly name: string;
  /** The id of its log, and the hash that its first commit follows. */
  readonly logId: Buffer;
  readonly genesis: Buffer;
  /** The account's settings, as JSON. */
  readonly settings: unknown;
}

/** Adds an archive without commits that anybody may claim; undefined if the tenant has one of that name. */
export async function addArchive(
  registry: Registry,
  archive: NewArchive,
): Promise<number | undefined> {
  const [row] = await registry.statement('add an archive', insertArchive(archive));
  return row?.id;
}

/** The statement that adds an archive; it returns no row if the tenant has one of that name. */
export function insertArchive(archive: NewArchive): RawBuilder<{ id: number }> {
  const { tenant, name, logId, genesis, settings } = archive;
  return sql<{ id: number }>`
    INSERT INTO archive (tenant, name, log_id, settings, head_hash, hot_previous_hash)
    VALUES (${tenant}, ${name}, ${logId}, ${JSON.stringify(settings)}::jsonb, ${genesis}, ${genesis})
    ON CONFLICT (tenant, name) DO NOTHING RETURNING id`;
}

/**
 * Saves what an archive remembers apart from its log; what is older than the saved one is left out. Names the number of
 * purges that it was made with: if more were decided since, it is refused.
 */
export async function saveMemory(
  registry: Registry,
  lease: Lease,
  memory: { readonly number: number; readonly bytes: Buffer; readonly purges: number },
): Promise<Outcome> {
  const { number, bytes, purges } = memory;
  const rows = await registry.statement(
    'save the memory',
    sql`INSERT INTO memory (archive, number, purges, bytes)
      SELECT id, ${number}::bigint, purges, ${bytes}::bytea FROM archive
      WHERE ${heldBy(lease)} AND head_number >= ${number} AND purges = ${purges} FOR UPDATE
      ON CONFLICT (archive) DO UPDATE
        SET number = excluded.number, purges = excluded.purges, bytes = excluded.bytes
        WHERE memory.number <= excluded.number
      RETURNING archive`,
  );
  return rows.length === 1
    ? { outcome: 'committed' }
    : await fencedByPurges(registry, lease, 'head', purges);
}

/** A credential of an archive, encrypted by a key that is not in the registry. */
export interface SealedSecret {
  readonly archive: number;
  readonly purpose: string;
  readonly keyId: string;
  readonly nonce: Buffer;
  readonly sealed: Buffer;
  /** What it is looked up by, if somebody is to be recognised by it: a hash by a key that is not in the registry. */
  readonly lookup?: Buffer | undefined;
}

/** The statement that adds a secret. */
export function insertSecret(secret: SealedSecret): RawBuilder<unknown> {
  const { archive, purpose, keyId, nonce, sealed, lookup = null } = secret;
  return sql`INSERT INTO secret (archive, purpose, key_id, nonce, sealed, lookup)
    VALUES (${archive}, ${purpose}, ${keyId}, ${nonce}, ${sealed}, ${lookup}::bytea)`;
}

/**
 * Stores a secret.
 *
 * @param replaces the nonce of the secret that it replaces, or null if there is none: of two that replace the same, the
 *   second is refused
 */
export async function putSecret(
  registry: Registry,
  secret: SealedSecret,
  replaces: Buffer | null,
): Promise<Outcome> {
  const { archive, purpose, keyId, nonce, sealed, lookup = null } = secret;
  const rows = await registry.statement(
    'put a secret',
    replaces === null
      ? sql`${insertSecret(secret)} ON CONFLICT DO NOTHING RETURNING archive`
      : sql`UPDATE secret
          SET key_id = ${keyId}, nonce = ${nonce}, sealed = ${sealed}, lookup = ${lookup}::bytea
          WHERE archive = ${archive} AND purpose = ${purpose} AND nonce = ${replaces} RETURNING archive`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'key' };
}
