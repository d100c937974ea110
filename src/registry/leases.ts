import { sql } from 'kysely';
import {
  fencedBy,
  HEAD_COLUMNS,
  type Head,
  heldBy,
  type Lease,
  lockHeld,
  type Outcome,
  outcomeOf,
  Refusal,
} from './outcome.ts';
import type { Registry, Tx } from './registry.ts';

export interface ClaimOptions {
  readonly session: string;
  /** How many archives are taken at most. */
  readonly most: number;
  /** The newest version of the catalog that this program reads: archives with a newer one are left to others. */
  readonly catalogVersion: number;
  /** The one archive to take; any, if undefined. */
  readonly archive?: number;
  /** Also one that is paused, to be read. Its holder begins no pass, and gives it back once nobody reads. */
  readonly paused?: boolean;
}

/** An archive that was claimed, and the entry of this node in the cache. */
export interface Claimed {
  readonly head: Head;
  readonly entry: string;
}

/**
 * Takes archives that nobody holds, or whose holder is dead: those whose tail waits longest come first. Each gets a new
 * epoch, so that whatever an earlier holder still sends is refused, and the node enters the cache before it has a byte of
 * them. Refused if the session is dead or draining.
 *
 * @throws outcome-unknown: the session may hold archives that it does not know. `heldArchives` finds them; it takes each by
 *   `resolve` and `enterCache`, or gives it back by `release`
 */
export async function claim(
  registry: Registry,
  options: ClaimOptions,
): Promise<Outcome<{ claimed: readonly Claimed[] }>> {
  const { session, most, catalogVersion, archive, paused = false } = options;
  const states = paused ? ['active', 'paused'] : ['active'];
  const outcome = await outcomeOf(registry, 'claim', async (tx) => {
    // The lock keeps the session from being marked dead until the claim is there.
    const { rows: workers } = await sql<{ node: string }>`
      SELECT node FROM worker WHERE session = ${session} AND NOT dead AND NOT draining FOR SHARE`.execute(
      tx,
    );
    const [worker] = workers;
    if (worker === undefined) throw new Refusal({ by: 'session' });
    // EXISTS, and no join: a row that was claimed meanwhile is then checked again as it is now.
    const { rows: heads } = await sql<Head>`
      WITH pick AS (
        SELECT a.id FROM archive a
        WHERE a.state = ANY(${states}::text[])
          AND (a.holder IS NULL
            OR EXISTS (SELECT 1 FROM worker w WHERE w.session = a.holder AND w.dead))
          AND (a.wanted_node IS NULL OR a.wanted_node = ${worker.node})
          AND NOT EXISTS (SELECT 1 FROM snapshot s
            WHERE s.archive = a.id AND s.catalog_version > ${catalogVersion})
          AND (${archive ?? null}::bigint IS NULL OR a.id = ${archive ?? null}::bigint)
        ORDER BY a.tail_since NULLS LAST, a.id LIMIT ${most} FOR UPDATE OF a SKIP LOCKED)
      UPDATE archive SET epoch = epoch + 1, holder = ${session} WHERE id IN (SELECT id FROM pick)
      RETURNING ${HEAD_COLUMNS}`.execute(tx);
    const ids = heads.map((head) => head.archive);
    const entries = await enter(tx, ids, worker.node);
    return {
      claimed: heads.map((head) => ({ head, entry: entries.get(head.archive) ?? '' })),
    };
  });
  if (outcome.outcome === 'committed') {
    registry.observe({ event: 'epochs-raised', archives: outcome.claimed.length });
  }
  return outcome;
}

/**
 * Raises the epoch of an archive whose last outcome is unknown, and returns the head: from then on the lost request can
 * never be accepted, and the head has it or not for good. Looking alone would prove nothing, since the request may still be
 * on its way. Refused if the lease is lost.
 */
export async function resolve(registry: Registry, lease: Lease): Promise<Outcome<{ head: Head }>> {
  const [head] = await registry.statement<Head>(
    'resolve',
    sql`UPDATE archive SET epoch = epoch + 1 WHERE ${heldBy(lease)} RETURNING ${HEAD_COLUMNS}`,
  );
  if (head === undefined) return fencedBy(registry, lease, 'lease');
  registry.observe({ event: 'epochs-raised', archives: 1 });
  return { outcome: 'committed', head };
}

/** Gives an archive back, so that others may claim it at once. The node stays in the cache until it has wiped its copy. */
export async function release(registry: Registry, lease: Lease): Promise<Outcome> {
  const rows = await registry.statement(
    'release',
    sql`UPDATE archive SET holder = NULL WHERE ${heldBy(lease)} RETURNING id`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : await fencedBy(registry, lease, 'lease');
}

/** Enters the node of a holder into the cache again, before it writes a byte of a copy that it had wiped. */
export async function enterCache(
  registry: Registry,
  lease: Lease,
): Promise<Outcome<{ entry: string }>> {
  return outcomeOf(registry, 'enter the cache', async (tx) => {
    await lockHeld(tx, lease);
    const { rows } = await sql<{ node: string }>`
      SELECT node FROM worker WHERE session = ${lease.session} AND NOT dead`.execute(tx);
    const [worker] = rows;
    if (worker === undefined) throw new Refusal({ by: 'session' });
    const entries = await enter(tx, [lease.archive], worker.node);
    return { entry: entries.get(lease.archive) ?? '' };
  });
}

/**
 * Takes a node out of the cache, after it wiped its copy. Names the entry that was there before the wiping: if the node
 * claimed the archive again meanwhile, that is another entry, which stays however late this arrives.
 */
export async function leaveCache(
  registry: Registry,
  copy: { readonly archive: number; readonly node: string; readonly entry: string },
): Promise<Outcome> {
  const rows = await registry.statement(
    'leave the cache',
    sql`DELETE FROM cache WHERE archive = ${copy.archive} AND node = ${copy.node}
      AND entry = ${copy.entry} RETURNING archive`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'entry' };
}

/** Returns the new entry of each archive. */
async function enter(
  tx: Tx,
  archives: readonly number[],
  node: string,
): Promise<ReadonlyMap<number, string>> {
  const { rows } = await sql<{ archive: number; entry: string }>`
    INSERT INTO cache (archive, node, entry)
    SELECT id, ${node}, gen_random_uuid() FROM unnest(${archives}::bigint[]) AS id
    ON CONFLICT (archive, node) DO UPDATE SET entry = excluded.entry
    RETURNING archive, entry`.execute(tx);
  return new Map(rows.map(({ archive, entry }) => [archive, entry]));
}
