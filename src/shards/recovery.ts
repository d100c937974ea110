import { sql } from 'kysely';
import { addEvent, type Outcome, Refusal, structural } from './outcomes.ts';
import type { Registry } from './postgres.ts';
import { TIMELINE } from './schema.ts';
import type { ObjectKind } from './ships.ts';

/** What the bucket has of a shard. */
export interface FoundShard {
  readonly shard: number;
  /** Highest epoch of any manifest, also of branches that were dropped. */
  readonly epoch: number;
  /** The manifest of the highest epoch, and of those with the highest sequence, whose objects are all there. */
  readonly manifest?:
    | {
        readonly name: string;
        readonly sha256: Buffer;
        readonly sequence: number;
        readonly commitNumber: number;
        readonly clean: number;
        readonly purges: number;
        readonly names: readonly string[];
      }
    | undefined;
  /** All objects of the shard, with the purges that their content is clean of; 0 if unknown. */
  readonly objects: readonly {
    readonly name: string;
    readonly kind: ObjectKind;
    readonly bytes: number;
    readonly purges: number;
  }[];
}

/**
 * Makes the row of a shard agree with the bucket, after PostgreSQL failed over, was restored or was lost. From then on
 * requests of the earlier timeline are refused for good.
 *
 * Uploads that the bucket listed as unfinished have been aborted, and deletions that were under way have ended.
 *
 * @param nodes all nodes that may have a folder of the shard
 * @param isForced also if the timeline is the same, unless somebody holds the shard
 */
export async function recoverShard(
  registry: Registry,
  { shard, epoch, manifest, objects }: FoundShard,
  nodes: readonly string[],
  isForced = false,
): Promise<Outcome> {
  return structural(registry, 'recover a shard', async (tx, version) => {
    const { rows } = await sql<{ epoch: number }>`
      UPDATE shard SET epoch = greatest(epoch, ${epoch}) + 1, holder = NULL, timeline = ${TIMELINE},
        wanted_node = NULL, version = ${version},
        manifest = ${manifest?.name ?? null}, manifest_sha256 = ${manifest?.sha256 ?? null}::bytea,
        sequence = ${manifest?.sequence ?? -1}, commit_number = ${manifest?.commitNumber ?? 0},
        clean = ${manifest?.clean ?? 0}, purges = greatest(purges, ${manifest?.purges ?? 0})
      WHERE id = ${shard} AND (timeline <> ${TIMELINE} OR (${isForced} AND NOT EXISTS (
        SELECT 1 FROM worker w WHERE w.session = shard.holder AND NOT w.dead)))
      RETURNING epoch`.execute(tx);
    const [row] = rows;
    if (row === undefined) throw new Refusal('state');
    const needed = new Set(manifest === undefined ? [] : [manifest.name, ...manifest.names]);
    const column = <T>(of: (object: FoundShard['objects'][number]) => T) => objects.map(of);
    await sql`DELETE FROM object WHERE shard = ${shard}
      AND name = ANY(${column(({ name }) => name)}::text[])`.execute(tx);
    // What has a row and is not in the bucket may be an upload: it stays, condemned, until it is collected.
    await sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp()
      WHERE shard = ${shard}`.execute(tx);
    await sql`INSERT INTO object
        (shard, epoch, upload_id, name, kind, bytes, purges, state, condemned_at)
      SELECT ${shard}, ${row.epoch}, '', *, clock_timestamp() FROM unnest(
        ${column(({ name }) => name)}::text[], ${column(({ kind }) => kind)}::text[],
        ${column(({ bytes }) => bytes)}::bigint[], ${column(({ purges }) => purges)}::int[],
        ${column(({ name }) => (needed.has(name) ? 'live' : 'condemned'))}::text[])`.execute(tx);
    await sql`INSERT INTO folder (shard, node, entry)
      SELECT ${shard}, unnest(${[...nodes]}::text[]), ${version}
      ON CONFLICT (shard, node) DO NOTHING`.execute(tx);
    const facts = { epoch: row.epoch, manifest: manifest?.name ?? null };
    await addEvent(tx, { who: 'operator', what: 'recovered', shard, facts });
    return {};
  });
}

/** Returns shards that have to be recovered before anyone claims them. @param all returns all shards */
export async function shardsToRecover(registry: Registry, all = false): Promise<readonly number[]> {
  const rows = await registry.read<{ id: number }>(
    'look for shards to recover',
    sql`SELECT id FROM shard WHERE ${all} OR timeline <> ${TIMELINE} ORDER BY id`,
  );
  return rows.map(({ id }) => id);
}
