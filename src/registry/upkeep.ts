import { sql } from 'kysely';
import type { Registry } from './registry.ts';

/** What of a held archive's storage decides what is due for it. Times are ages in milliseconds, by the server's clock. */
export interface Upkeep {
  readonly archive: number;
  /** Bytes of commits in PostgreSQL, as they are stored, and how long the oldest are there; null if there are none. */
  readonly tailBytes: number;
  readonly tailAgeMs: number | null;
  /** The first segment that has commits there. */
  readonly tailSegment: number | null;
  /** The commit of the snapshot, and how old it is; null if there is none. */
  readonly snapshotNumber: number | null;
  readonly snapshotAgeMs: number | null;
  /** Requests to forget that are not settled. */
  readonly forgets: number;
}

/** Returns the upkeep of the archives that a session holds, in one look. */
export async function upkeepOf(registry: Registry, session: string): Promise<readonly Upkeep[]> {
  return registry.read<Upkeep>(
    'look at upkeep',
    sql`SELECT a.id AS archive, a.tail_bytes AS "tailBytes",
        (extract(epoch FROM clock_timestamp() - a.tail_since) * 1000)::bigint AS "tailAgeMs",
        (SELECT min(segment) FROM tail t WHERE t.archive = a.id) AS "tailSegment",
        s.number AS "snapshotNumber",
        (extract(epoch FROM clock_timestamp() - o.begun_at) * 1000)::bigint AS "snapshotAgeMs",
        (SELECT count(*) FROM forget f WHERE f.archive = a.id AND f.purges IS NULL) AS forgets
      FROM archive a LEFT JOIN snapshot s ON s.archive = a.id LEFT JOIN object o ON o.key = s.key
      WHERE a.holder = ${session} ORDER BY a.id`,
  );
}
