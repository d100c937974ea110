import { type RawBuilder, sql } from 'kysely';
import {
  CONDEMNED,
  fencedBy,
  HEAD_COLUMNS,
  type Head,
  heldBy,
  type Lease,
  type Outcome,
  outcomeOf,
  Refusal,
} from './outcome.ts';
import type { Registry } from './registry.ts';

/** A batch as it is in generation 1 of its segment, and the place it is valid at: the checksums of its records hold there only. */
export interface TailBatch {
  /** Of the commit that closes it. */
  readonly number: number;
  readonly previousHash: Buffer;
  readonly hash: Buffer;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly segment: number;
  /** The offset in the segment. */
  readonly at: number;
  /** The ordinal of its first record in the segment. */
  readonly firstOrdinal: number;
  /** How many records it has before its commit. */
  readonly records: number;
  readonly rawBytes: number;
  /** How `bytes` are packed: 1 is deflated, 0 is as they are. The archive's format numbers them alike. */
  readonly codec: number;
  readonly bytes: Buffer;
}

/**
 * Appends a batch to the log: the head moves, and the bytes are in the tail. One statement, so that lease, head and place
 * are compared with the row that it writes, also if it had to wait for that row.
 *
 * @throws outcome-unknown: `resolve` says whether it happened
 */
export async function commit(registry: Registry, lease: Lease, batch: TailBatch): Promise<Outcome> {
  const rows = await registry.statement('commit', moveHead(lease, batch));
  return rows.length === 1 ? { outcome: 'committed' } : await fencedBy(registry, lease, 'head');
}

/** What PostgreSQL stores as it is given; a Map, for one, would be stored as an empty object. */
type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** What a purge removes, as a new holder reads it. */
export interface DecidedPurge {
  /** The commits that purged records are in. There are none only if `records` has none in its field of that name. */
  readonly commits: readonly number[];
  /** What a new holder needs to finish it. */
  readonly records: Json;
}

/**
 * Appends the batch that decides a purge, and with it what is left to do. What was made from older content goes in the same
 * transaction: snapshots and whatever is being uploaded are condemned, and what the archive remembers is deleted.
 *
 * @returns the number of the purge, which its uploads have to name
 * @throws outcome-unknown: `resolve` says whether it happened; registry-refused for a purge of records in no commit, which
 *   would end before their bytes are gone
 */
export async function decidePurge(
  registry: Registry,
  lease: Lease,
  batch: TailBatch,
  work: DecidedPurge,
): Promise<Outcome<{ purges: number }>> {
  const { archive } = lease;
  const result = await outcomeOf(registry, 'decide a purge', async (tx) => {
    const moved = await moveHead(lease, batch).execute(tx);
    if (moved.rows.length === 0) throw new Refusal({ by: 'head' });
    const { rows } = await sql<{ purges: number }>`
      UPDATE archive SET purges = purges + 1 WHERE id = ${archive} RETURNING purges`.execute(tx);
    const [{ purges } = { purges: 0 }] = rows;
    await sql`INSERT INTO purge (archive, purges, number, commits, records)
      VALUES (${archive}, ${purges}, ${batch.number}, ${[...work.commits]}::bigint[],
        ${JSON.stringify(work.records)}::jsonb)`.execute(tx);
    await sql`DELETE FROM snapshot WHERE archive = ${archive}`.execute(tx);
    await sql`DELETE FROM memory WHERE archive = ${archive}`.execute(tx);
    await sql`UPDATE object SET ${CONDEMNED} WHERE archive = ${archive}
      AND (state = 'uploading' OR (kind = 'snapshot' AND state = 'live'))`.execute(tx);
    return { purges };
  });
  return result.outcome === 'committed' ? result : await fencedBy(registry, lease, 'head');
}

/**
 * Begins the next segment. The one before is closed from here on: nothing can be appended to it, so its sealed form holds
 * all of it. Refused while the segment has no commit.
 */
export async function roll(
  registry: Registry,
  lease: Lease,
  from: { readonly segment: number; readonly headHash: Buffer },
): Promise<Outcome<{ head: Head }>> {
  const [head] = await registry.statement<Head>(
    'roll',
    sql`UPDATE archive SET hot_segment = hot_segment + 1, hot_offset = 64, hot_ordinal = 0,
        hot_previous = head_number, hot_previous_hash = head_hash
      WHERE ${heldBy(lease)} AND hot_segment = ${from.segment} AND head_hash = ${from.headHash}
        AND hot_ordinal > 0
      RETURNING ${HEAD_COLUMNS}`,
  );
  return head === undefined
    ? await fencedBy(registry, lease, 'head')
    : { outcome: 'committed', head };
}

function moveHead(lease: Lease, batch: TailBatch): RawBuilder<{ number: number }> {
  const { number, segment, at, firstOrdinal, records, rawBytes, hash, time, codec, bytes } = batch;
  return sql<{ number: number }>`
    WITH moved AS (
      UPDATE archive SET head_number = head_number + 1, head_hash = ${hash}, head_time = ${time},
        hot_offset = ${at + rawBytes}, hot_ordinal = ${firstOrdinal + records + 1},
        tail_bytes = tail_bytes + ${bytes.length}, tail_since = coalesce(tail_since, clock_timestamp())
      WHERE ${heldBy(lease)} AND head_number = ${number - 1} AND head_hash = ${batch.previousHash}
        AND hot_segment = ${segment} AND hot_offset = ${at} AND hot_ordinal = ${firstOrdinal}
      RETURNING id)
    INSERT INTO tail
      (archive, number, segment, at, first_ordinal, raw_bytes, hash, time, codec, bytes)
    SELECT id, ${number}::bigint, ${segment}::int, ${at}::int, ${firstOrdinal}::int, ${rawBytes}::int,
      ${hash}::bytea, ${time}::bigint, ${codec}::smallint, ${bytes}::bytea
    FROM moved RETURNING number`;
}
