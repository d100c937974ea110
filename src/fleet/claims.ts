import { sql } from 'kysely';
import {
  addEvent,
  fence,
  interval,
  type Lease,
  lockHeld,
  type Outcome,
  one,
  oneHeld,
  structural,
} from './outcomes.ts';
import type { Registry, Tx } from './postgres.ts';
import { TIMELINE } from './schema.ts';

/** What was shipped of a shard. */
interface ShippedState {
  /** Null if nothing was shipped yet. */
  readonly manifest: string | null;
  readonly manifestSha256: Buffer | null;
  readonly sequence: number;
  readonly commitNumber: number;
  /** Purges that the manifest is clean of. */
  readonly clean: number;
}

/** A purge that has not ended. */
export interface DecidedPurge {
  readonly number: number;
  readonly reason: 'forgotten' | 'pruned';
  readonly work: Buffer;
}

export interface ClaimedShard extends ShippedState {
  readonly lease: Lease;
  /** Entry of the node in the list of folders. */
  readonly entry: number;
  /**
   * The node was entered before. Otherwise a folder that it has counts as destroyed: forgets have not waited for it, so it
   * must not be continued.
   */
  readonly isKnown: boolean;
  /** Purges that have ended. They were carried out in every known folder. */
  readonly ended: number;
  /** Purges that have not ended, in order. */
  readonly purges: readonly DecidedPurge[];
}

const SHIPPED = sql`manifest, manifest_sha256 AS "manifestSha256", sequence,
  commit_number AS "commitNumber", clean`;

/**
 * Takes those of the shards that are free: nobody holds them, or their holder is dead. Each gets a new epoch, so that
 * late requests of earlier holders are refused, and the node is entered before it has a byte of them.
 *
 * The caller has the locks of the local folders of these shards.
 *
 * @throws outcome-unknown: the rows that changed tell what the session holds
 */
export async function claim(
  registry: Registry,
  session: string,
  shards: readonly number[],
): Promise<Outcome<{ claimed: readonly ClaimedShard[] }>> {
  return structural(registry, 'claim', async (tx, version) => {
    const node = await livingNode(tx, session, true);
    // EXISTS rather than a join: a waiting update evaluates it again.
    const { rows } = await sql<ShippedState & { id: number; epoch: number }>`
      UPDATE shard s SET epoch = epoch + 1, holder = ${session}, version = ${version},
        wanted_node = NULL
      WHERE id = ANY(${[...shards]}::bigint[]) AND timeline = ${TIMELINE}
        AND (holder IS NULL
          OR EXISTS (SELECT 1 FROM worker w WHERE w.session = s.holder AND w.dead))
        AND (wanted_node IS NULL OR wanted_node = ${node})
        AND coalesce((avoid -> ${node} ->> 'until')::timestamptz <= clock_timestamp(), true)
      RETURNING id, epoch, ${SHIPPED}`.execute(tx);
    const ids = rows.map(({ id }) => id);
    const { rows: known } = await sql<{ shard: number }>`
      SELECT shard FROM folder WHERE node = ${node} AND shard = ANY(${ids}::bigint[])`.execute(tx);
    await sql`INSERT INTO folder (shard, node, entry)
      SELECT unnest(${ids}::bigint[]), ${node}, ${version}
      ON CONFLICT (shard, node) DO UPDATE SET entry = excluded.entry`.execute(tx);
    const purges = await purgesOf(tx, ids);
    for (const { id, epoch, manifest, commitNumber } of rows) {
      const facts = { epoch, manifest, commitNumber, session };
      await addEvent(tx, { who: node, what: 'claim', shard: id, facts });
    }
    const claimed = rows.map(({ id, epoch, ...shipped }) => ({
      ...shipped,
      lease: { shard: id, epoch, session },
      entry: version,
      isKnown: known.some(({ shard }) => shard === id),
      ...purges(id),
    }));
    return { claimed };
  });
}

async function purgesOf(tx: Tx, shards: readonly number[]) {
  const { rows } = await sql<DecidedPurge & { shard: number }>`
    SELECT shard, number, reason, work FROM purge
    WHERE shard = ANY(${[...shards]}::bigint[]) AND ended_at IS NULL
    ORDER BY shard, number`.execute(tx);
  const { rows: over } = await sql<{ shard: number; ended: number }>`
    SELECT shard, max(number) AS ended FROM purge
    WHERE shard = ANY(${[...shards]}::bigint[]) AND ended_at IS NOT NULL GROUP BY shard`.execute(
    tx,
  );
  return (id: number) => ({
    ended: over.find(({ shard }) => shard === id)?.ended ?? 0,
    purges: rows
      .filter(({ shard }) => shard === id)
      .map(({ number, reason, work }) => ({ number, reason, work })),
  });
}

/** Returns the node of a living session, and keeps it from being marked dead meanwhile. */
export async function livingNode(tx: Tx, session: string, isClaiming = false): Promise<string> {
  const living = sql<{ node: string }>`
    SELECT node FROM worker WHERE session = ${session} AND NOT dead
      AND NOT (${isClaiming} AND draining) FOR SHARE`;
  return (await one(tx, living, 'session')).node;
}

/**
 * Returns what is shipped, after the answer to a ship was lost. Refused if the lease is lost. If the manifest is not the
 * one that was sent, the holder ships again: of requests that follow the same manifest, one is accepted.
 */
export async function shippedState(
  registry: Registry,
  lease: Lease,
): Promise<Outcome<{ shipped: ShippedState }>> {
  const [row] = await registry.read<ShippedState>(
    'look at a shard',
    sql`SELECT ${SHIPPED} FROM shard WHERE ${fence(lease)}`,
  );
  return row === undefined
    ? { outcome: 'refused', by: 'lease' }
    : { outcome: 'committed', shipped: row };
}

/** Gives a shard back, so that others may claim it at once. The node stays entered until it has wiped its folder. */
export async function release(registry: Registry, lease: Lease): Promise<Outcome> {
  return structural(registry, 'release', async (tx, version) => {
    const released = sql`UPDATE shard SET holder = NULL, version = ${version}
      WHERE ${fence(lease)} RETURNING id`;
    await oneHeld(tx, lease, released);
    return {};
  });
}

/**
 * Asks for a shard to move: its holder ships and releases it, and only this node claims it.
 *
 * @param node null lets any node claim it
 */
export async function moveShard(
  registry: Registry,
  shard: number,
  node: string | null,
): Promise<Outcome> {
  return structural(registry, 'move a shard', async (tx, version) => {
    const wanted = sql`UPDATE shard SET wanted_node = ${node}, version = ${version}
      WHERE id = ${shard} AND wanted_node IS DISTINCT FROM ${node} RETURNING id`;
    await one(tx, wanted, 'state');
    await addEvent(tx, { who: 'operator', what: 'move', shard, facts: { node } });
    return {};
  });
}

/**
 * Reports that a holder cannot work on a shard for a local reason. The shard is released and avoids the node for a
 * while. If another node is avoided for the same reason, the shard stays where it is, as failing.
 *
 * @param code of the error
 */
export async function reportFailure(
  registry: Registry,
  lease: Lease,
  code: string,
  avoidMs: number,
): Promise<Outcome<{ isReleased: boolean }>> {
  return structural(registry, 'report a failure', async (tx, version) => {
    await lockHeld(tx, lease);
    const node = await livingNode(tx, lease.session);
    const { rows } = await sql<{ isElsewhere: boolean }>`
      SELECT EXISTS (SELECT 1 FROM jsonb_each(avoid) AS one (node, facts)
        WHERE node <> ${node} AND facts ->> 'code' = ${code}
          AND (facts ->> 'until')::timestamptz > clock_timestamp()) AS "isElsewhere"
      FROM shard WHERE id = ${lease.shard}`.execute(tx);
    const isReleased = rows[0]?.isElsewhere !== true;
    await sql`UPDATE shard SET version = ${version},
        holder = CASE WHEN ${isReleased} THEN NULL ELSE holder END,
        wanted_node = NULL,
        failing = jsonb_build_object('code', ${code}::text, 'node', ${node}::text,
          'since', coalesce(failing ->> 'since', clock_timestamp()::text)),
        avoid = avoid || jsonb_build_object(${node}::text, jsonb_build_object(
          'code', ${code}::text, 'until', clock_timestamp() + ${interval(avoidMs)}))
      WHERE id = ${lease.shard}`.execute(tx);
    await addEvent(tx, { who: node, what: 'failure', shard: lease.shard, facts: { code } });
    return { isReleased };
  });
}

/** Reports that a shard that failed works again. */
export async function reportRecovery(registry: Registry, lease: Lease): Promise<Outcome> {
  return structural(registry, 'report a recovery', async (tx, version) => {
    const works = sql`UPDATE shard SET failing = NULL, avoid = '{}', version = ${version}
      WHERE ${fence(lease)} AND failing IS NOT NULL RETURNING id`;
    await oneHeld(tx, lease, works, 'state');
    return {};
  });
}
