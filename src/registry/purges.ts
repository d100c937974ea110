import { sql } from 'kysely';
import { type Lease, lockHeld, type Outcome, outcomeOf, Refusal } from './outcome.ts';
import type { Registry, Tx } from './registry.ts';

/** Where bytes of what was purged may still be. */
export interface Remaining {
  /** Commits with purged records that are in the tail. */
  readonly tail: number;
  /** Objects that hold such commits as they were before. */
  readonly covers: number;
  readonly snapshots: number;
  /** 1 if what the archive remembers is from before the purge. */
  readonly memory: number;
  /** Objects from before the purge that are not known to be gone from the store. */
  readonly objects: number;
  /** Other nodes that may have a copy. */
  readonly nodes: readonly string[];
}

/**
 * Ends a purge, if nothing that the registry knows of can have the purged bytes. Counted while the row of the archive is
 * locked, so that nothing is registered, covered or claimed meanwhile. Whoever calls it has wiped them from its own disk.
 */
export async function endPurge(registry: Registry, lease: Lease, purges: number): Promise<Outcome> {
  return outcomeOf(registry, 'end a purge', async (tx) => {
    const head = await lockHeld(tx, lease);
    const { rows } = await sql<{ commits: readonly number[] }>`
      SELECT commits FROM purge WHERE archive = ${lease.archive} AND purges = ${purges}
        AND finished_at IS NULL FOR UPDATE`.execute(tx);
    const [purge] = rows;
    if (purge === undefined) throw new Refusal({ by: 'purges', head });
    const left = await remaining(tx, lease.archive, purges, lease.session);
    const isClean =
      left.tail + left.covers + left.snapshots + left.memory + left.objects + left.nodes.length ===
      0;
    if (!isClean) throw new Refusal({ by: 'bytes', head });
    await sql`UPDATE purge SET finished_at = clock_timestamp()
      WHERE archive = ${lease.archive} AND purges = ${purges}`.execute(tx);
    return {};
  });
}

/**
 * Returns what a purge waits for.
 *
 * @param session the holder, whose own copy does not count; null if nobody is
 */
export async function purgeRemaining(
  registry: Registry,
  archive: number,
  purges: number,
  session: string | null,
): Promise<Remaining> {
  return registry.transaction(
    'look at a purge',
    (tx) => remaining(tx, archive, purges, session),
    'repeatable read',
  );
}

async function remaining(
  tx: Tx,
  archive: number,
  purges: number,
  session: string | null,
): Promise<Remaining> {
  const { rows } = await sql<Remaining>`
    WITH purged AS (
      SELECT unnest(commits) AS number FROM purge WHERE archive = ${archive} AND purges = ${purges})
    SELECT
      (SELECT count(*) FROM tail WHERE archive = ${archive} AND number IN (SELECT number FROM purged)) AS tail,
      (SELECT count(*) FROM cover c JOIN object o ON o.key = c.key
        WHERE c.archive = ${archive} AND o.purges < ${purges} AND EXISTS
          (SELECT 1 FROM purged p WHERE p.number BETWEEN c.first AND c.last)) AS covers,
      (SELECT count(*) FROM snapshot s JOIN object o ON o.key = s.key
        WHERE s.archive = ${archive} AND o.purges < ${purges}) AS snapshots,
      (SELECT count(*) FROM memory WHERE archive = ${archive} AND purges < ${purges}) AS memory,
      (SELECT count(*) FROM object WHERE archive = ${archive} AND purges < ${purges}
        AND state IN ('uploading', 'condemned', 'swept')) AS objects,
      coalesce((SELECT array_agg(node ORDER BY node) FROM cache WHERE archive = ${archive}
        AND node IS DISTINCT FROM (SELECT node FROM worker WHERE session = ${session}::uuid)), '{}') AS nodes`.execute(
    tx,
  );
  const [row] = rows;
  if (row === undefined) throw new Error('a statement without FROM returned no row');
  return row;
}
