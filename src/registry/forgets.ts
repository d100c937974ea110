import { sql } from 'kysely';
import { type Lease, lockHeld, type Outcome, outcomeOf, Refusal } from './outcome.ts';
import type { Registry } from './registry.ts';

/** A request to forget messages of an archive. */
export interface ForgetRequest {
  /** A UUID: the same request may come twice, and counts once. */
  readonly id: string;
  readonly archive: number;
  /** The node at which somebody asked. */
  readonly node: string;
  /** What is to be forgotten, as JSON: a list that is not empty, and has nothing that mail says. */
  readonly wanted: readonly object[];
}

/**
 * Records a request to forget messages: whoever holds the archive, now or later, carries it out. Refused for an account that
 * is not one of the fleet, or not yet.
 *
 * @throws outcome-unknown: it may be recorded, and can be sent again
 */
export async function askForget(
  registry: Registry,
  { id, archive, node, wanted }: ForgetRequest,
): Promise<Outcome> {
  const rows = await registry.statement(
    'ask for a forget',
    sql`INSERT INTO forget (id, archive, node, wanted)
      SELECT ${id}::uuid, a.id, ${node}, ${JSON.stringify(wanted)}::jsonb FROM archive a
      WHERE a.id = ${archive} AND a.state IN ('active', 'paused') FOR SHARE
      ON CONFLICT (id) DO UPDATE SET node = forget.node RETURNING id`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'state' };
}

/**
 * Notes that nothing of some requests is left in the log, as the holder knows it: they end with the purges that were decided
 * until now, those of other requests among them. Under the lease, because an earlier holder may not know of a message.
 */
export async function settleForgets(
  registry: Registry,
  lease: Lease,
  ids: readonly string[],
): Promise<Outcome> {
  return outcomeOf(registry, 'settle forgets', async (tx) => {
    const head = await lockHeld(tx, lease);
    const { rows } = await sql`
      UPDATE forget SET purges = ${head.purges} WHERE archive = ${lease.archive}
        AND id = ANY(${[...ids]}::uuid[]) AND purges IS NULL RETURNING id`.execute(tx);
    if (rows.length === 0) throw new Refusal({ by: 'purges', head });
    return {};
  });
}
