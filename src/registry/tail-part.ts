import { sql } from 'kysely';
import type { StoredBatch } from './reading.ts';
import type { Registry } from './registry.ts';

/** Consecutive commits of one segment that are in the tail, and the commit that they follow. */
export interface TailPart {
  readonly logId: Buffer;
  /** How many purges were decided. */
  readonly purges: number;
  /** Undefined before the first commit of the log. */
  readonly previousHash: Buffer | undefined;
  readonly batches: readonly StoredBatch[];
}

/**
 * Returns the first commits of a segment that are in the tail, up to a commit with purged records. There are none if it has
 * none there, and at least one otherwise.
 *
 * @param mostRawBytes of all of them, before they were packed
 */
export async function readTailPart(
  registry: Registry,
  archive: number,
  segment: number,
  mostRawBytes: number,
): Promise<TailPart | undefined> {
  return registry.transaction(
    'read a part of the tail',
    async (tx) => {
      const [row] = (
        await sql<{ logId: Buffer; purges: number }>`
          SELECT log_id AS "logId", purges FROM archive WHERE id = ${archive}`.execute(tx)
      ).rows;
      if (row === undefined) return undefined;
      // `run` is the same for all numbers that follow each other.
      const { rows: batches } = await sql<StoredBatch>`
        SELECT number, hash, time, segment, at, first_ordinal AS "firstOrdinal",
          raw_bytes AS "rawBytes", codec, bytes
        FROM tail JOIN (
          SELECT number, number - row_number() OVER place AS run,
            min(number) OVER () - 1 AS before, sum(raw_bytes) OVER place AS sum
          FROM tail WHERE archive = ${archive} AND segment = ${segment}
          WINDOW place AS (ORDER BY number)) AS part USING (number)
        WHERE archive = ${archive} AND run = before
          AND (number = before + 1 OR sum <= ${mostRawBytes})
          AND NOT EXISTS (SELECT 1 FROM purge p, unnest(p.commits) AS purged
            WHERE p.archive = ${archive} AND purged > before AND purged <= tail.number)
        ORDER BY number`.execute(tx);
      const before = (batches[0]?.number ?? 0) - 1;
      const { rows: previous } = await sql<{ hash: Buffer }>`
        SELECT hash FROM tail WHERE archive = ${archive} AND number = ${before}
        UNION ALL SELECT last_hash FROM cover WHERE archive = ${archive} AND last = ${before}`.execute(
        tx,
      );
      return { ...row, previousHash: previous[0]?.hash, batches };
    },
    'repeatable read',
  );
}
