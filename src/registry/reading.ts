import { sql } from 'kysely';
import type { AccountState } from './accounts.ts';
import type { SealedSecret } from './fleet.ts';
import type { ObjectState } from './objects.ts';
import { HEAD_COLUMNS, type Head, interval } from './outcome.ts';
import type { Registry } from './registry.ts';

/** What a new holder builds its copy of an archive from, all of one moment. */
export interface StoredArchive {
  readonly head: Head;
  /** As its tenant calls it. */
  readonly name: string;
  readonly state: AccountState;
  readonly logId: Buffer;
  readonly settings: unknown;
  /** In the order of the log; together with the tail they are all its commits, each once. */
  readonly covers: readonly StoredCover[];
  readonly tail: readonly StoredBatch[];
  readonly snapshot: StoredSnapshot | undefined;
  readonly memory: { readonly number: number; readonly bytes: Buffer } | undefined;
  /** Purges that are not finished, oldest first. */
  readonly purges: readonly StoredPurge[];
}

export interface StoredCover {
  readonly first: number;
  readonly last: number;
  readonly lastHash: Buffer;
  readonly segment: number;
  readonly generation: number;
  readonly at: number;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: Buffer;
}

export interface StoredBatch {
  readonly number: number;
  readonly hash: Buffer;
  readonly time: number;
  readonly segment: number;
  readonly at: number;
  readonly firstOrdinal: number;
  readonly rawBytes: number;
  readonly codec: number;
  readonly bytes: Buffer;
}

export interface StoredSnapshot {
  readonly number: number;
  readonly hash: Buffer;
  readonly catalogVersion: number;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: Buffer;
}

export interface StoredPurge {
  readonly purges: number;
  readonly number: number;
  readonly commits: readonly number[];
  readonly records: unknown;
}

/** Returns what the registry has of an archive; undefined if there is none. */
export async function readArchive(
  registry: Registry,
  archive: number,
): Promise<StoredArchive | undefined> {
  return registry.transaction(
    'read an archive',
    async (tx) => {
      const [row] = (
        await sql<Head & Pick<StoredArchive, 'name' | 'state' | 'logId' | 'settings'>>`
          SELECT ${HEAD_COLUMNS}, name, state, log_id AS "logId", settings FROM archive WHERE id = ${archive}`.execute(
          tx,
        )
      ).rows;
      if (row === undefined) return undefined;
      const { name, state, logId, settings, ...head } = row;
      const covers = await sql<StoredCover>`
        SELECT c.first, c.last, c.last_hash AS "lastHash", c.segment, c.generation, c.at, c.key,
          o.bytes, o.sha256
        FROM cover c JOIN object o ON o.key = c.key WHERE c.archive = ${archive} ORDER BY c.first`.execute(
        tx,
      );
      const tail = await sql<StoredBatch>`
        SELECT number, hash, time, segment, at, first_ordinal AS "firstOrdinal",
          raw_bytes AS "rawBytes", codec, bytes
        FROM tail WHERE archive = ${archive} ORDER BY number`.execute(tx);
      const snapshot = await sql<StoredSnapshot>`
        SELECT s.number, s.hash, s.catalog_version AS "catalogVersion", s.key, o.bytes, o.sha256
        FROM snapshot s JOIN object o ON o.key = s.key WHERE s.archive = ${archive}`.execute(tx);
      const memory = await sql<{ number: number; bytes: Buffer }>`
        SELECT number, bytes FROM memory WHERE archive = ${archive}`.execute(tx);
      const purges = await sql<StoredPurge>`
        SELECT purges, number, commits, records FROM purge
        WHERE archive = ${archive} AND finished_at IS NULL ORDER BY purges`.execute(tx);
      return {
        head,
        name,
        state,
        logId,
        settings,
        covers: covers.rows,
        tail: tail.rows,
        snapshot: snapshot.rows[0],
        memory: memory.rows[0],
        purges: purges.rows,
      };
    },
    'repeatable read',
  );
}

/**
 * Returns the heads of the archives that a session holds: after a claim whose outcome is unknown, some of them are not known
 * to it. A claim that is still on its way may add others later, so a worker compares them again whenever it claims.
 */
export async function heldArchives(registry: Registry, session: string): Promise<readonly Head[]> {
  return registry.read<Head>(
    'look for held archives',
    sql`SELECT ${HEAD_COLUMNS} FROM archive WHERE holder = ${session} ORDER BY id`,
  );
}

/** An archive that its holder is to let go of. */
export interface UnwantedArchive {
  readonly archive: number;
  readonly epoch: number;
  /** It was paused, it leaves the fleet, or another node is to hold it. */
  readonly because: 'paused' | 'leaving' | 'moving';
}

/**
 * Returns what a session holds and is to let go of. It asks at each heartbeat, ends what it does for these archives, and
 * releases them: nobody claims them meanwhile, and nobody else ends that.
 */
export async function unwantedArchives(
  registry: Registry,
  session: string,
): Promise<readonly UnwantedArchive[]> {
  return registry.read<UnwantedArchive>(
    'look for unwanted archives',
    sql`SELECT a.id AS archive, a.epoch,
        CASE WHEN a.state = 'active' THEN 'moving' ELSE a.state END AS because
      FROM archive a JOIN worker w ON w.session = a.holder
      WHERE a.holder = ${session} AND (a.state <> 'active' OR a.wanted_node <> w.node)
      ORDER BY a.id`,
  );
}

/** A copy on a disk, by its entry in the cache. */
export interface CachedCopy {
  readonly archive: number;
  readonly node: string;
  readonly entry: string;
}

/** Returns the copies of a node that a purge waits for: of archives that no living session of the node holds. */
export async function copiesToWipe(
  registry: Registry,
  node: string,
): Promise<readonly CachedCopy[]> {
  return registry.read<CachedCopy>(
    'look for copies to wipe',
    sql`SELECT c.archive, c.node, c.entry FROM cache c JOIN archive a ON a.id = c.archive
      WHERE c.node = ${node}
        AND EXISTS (SELECT 1 FROM purge p WHERE p.archive = c.archive AND p.finished_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM worker w
          WHERE w.session = a.holder AND w.node = ${node} AND NOT w.dead)
      ORDER BY c.archive`,
  );
}

/** An object that a collector has to do something about. */
export interface WaitingObject {
  readonly key: string;
  readonly uploadId: string;
  readonly state: ObjectState;
  /** Of the sweep that is to be confirmed; null before the first one. */
  readonly sweptAt: string | null;
  /** As the server writes it: a date has milliseconds only. */
  readonly begunAt: string;
}

/** How long a collector waits, in milliseconds. */
export interface CollectionWaits {
  /** Before it deletes what was condemned: a server without replicas may take a condemnation back. */
  readonly graceMs: number;
  /** Before it looks again for what it has deleted. */
  readonly settleMs: number;
}

/**
 * Returns objects that were condemned, or swept, long enough ago: at most `most` of them, oldest first.
 *
 * @param after the last object of the page before. Some cannot be deleted for years, so that the first page alone may never
 *   have the others
 */
export async function objectsToCollect(
  registry: Registry,
  { graceMs, settleMs }: CollectionWaits,
  most: number,
  after?: Pick<WaitingObject, 'begunAt' | 'key'>,
): Promise<readonly WaitingObject[]> {
  const { begunAt, key } = after ?? { begunAt: '-infinity', key: '' };
  return registry.read<WaitingObject>(
    'look for objects to collect',
    sql`SELECT key, upload_id AS "uploadId", state, swept_at::text AS "sweptAt",
        begun_at::text AS "begunAt"
      FROM object
      WHERE ((state = 'condemned' AND condemned_at <= clock_timestamp() - ${interval(graceMs)})
          OR (state = 'swept' AND swept_at < clock_timestamp() - ${interval(settleMs)}))
        AND (begun_at, key) > (${begunAt}::timestamptz, ${key}::text)
      ORDER BY begun_at, key LIMIT ${most}`,
  );
}

/** Returns the secrets of an archive, as they are sealed. */
export async function readSecrets(
  registry: Registry,
  archive: number,
): Promise<readonly SealedSecret[]> {
  return registry.read<SealedSecret>(
    'read secrets',
    sql`SELECT archive, purpose, key_id AS "keyId", nonce, sealed FROM secret
      WHERE archive = ${archive} ORDER BY purpose`,
  );
}

/** What the server promises for what it has acknowledged. */
export interface Replication {
  /** True where it acknowledges only what another server has as well, so that a failover takes nothing back. */
  readonly isSynchronous: boolean;
  /** Milliseconds since the fleet saw that there was a failover; undefined if there was none. */
  readonly failedOverMs: number | undefined;
}

/** Returns what acknowledgements of the server are worth. */
export async function replicationOf(registry: Registry): Promise<Replication> {
  const [row] = await registry.read<{ standbys: string; commit: string; ms: number | null }>(
    'look at the replication',
    sql`SELECT current_setting('synchronous_standby_names') AS standbys,
        current_setting('synchronous_commit') AS commit,
        (SELECT extract(epoch FROM clock_timestamp() - timeline_since) * 1000 FROM fleet)::bigint AS ms`,
  );
  const replicated = ['on', 'remote_apply', 'remote_write'];
  return {
    isSynchronous:
      row !== undefined && row.standbys.trim() !== '' && replicated.includes(row.commit),
    failedOverMs: row?.ms ?? undefined,
  };
}
