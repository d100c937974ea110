import { sql } from 'kysely';
import { interval, type Outcome, outcomeOf, Refusal } from './outcome.ts';
import type { Registry } from './registry.ts';

/** One start of a worker process. */
export interface Session {
  /** A random UUID that is never used again. */
  readonly session: string;
  readonly node: string;
  /** Where other nodes reach it. */
  readonly address: string;
  /** The address that its requests to the origin come from. */
  readonly egress: string;
  readonly program: number;
  /** How many archives it takes. */
  readonly capacity: number;
}

/** Begins a session, which lives for `leaseMs` unless it is renewed. Refused if the UUID was used before. */
export async function beginSession(
  registry: Registry,
  session: Session,
  leaseMs: number,
): Promise<Outcome> {
  const { node, address, egress, program, capacity } = session;
  const rows = await registry.statement(
    'begin a session',
    sql`INSERT INTO worker (session, node, address, egress, program, capacity, lease_until)
      VALUES (${session.session}, ${node}, ${address}, ${egress}, ${program}, ${capacity},
        clock_timestamp() + ${interval(leaseMs)})
      ON CONFLICT DO NOTHING RETURNING session`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'session' };
}

/**
 * Renews the lease of a session, and with it of all its archives. Refused if the session is dead: then it drops everything
 * and begins another.
 */
export async function renew(
  registry: Registry,
  session: string,
  leaseMs: number,
): Promise<Outcome<{ egress: string; draining: boolean }>> {
  const [row] = await registry.statement<{ egress: string; draining: boolean }>(
    'renew a session',
    sql`UPDATE worker SET lease_until = clock_timestamp() + ${interval(leaseMs)}
      WHERE session = ${session} AND NOT dead RETURNING egress, draining`,
  );
  if (row !== undefined) return { outcome: 'committed', ...row };
  registry.observe({ event: 'refused', by: 'session' });
  return { outcome: 'fenced', by: 'session' };
}

/**
 * Marks the sessions dead whose lease ran out, so that their archives are free. Any worker does this before it claims. A
 * dead session never lives again.
 *
 * @returns the sessions that were marked
 */
export async function markDead(registry: Registry): Promise<readonly string[]> {
  // Rows that another worker marks at the same moment are left to it: two that wait for each other would be a deadlock.
  const rows = await registry.statement<{ session: string }>(
    'mark sessions dead',
    sql`UPDATE worker SET dead = true WHERE session IN (
        SELECT session FROM worker WHERE NOT dead AND lease_until < clock_timestamp()
        ORDER BY session FOR UPDATE SKIP LOCKED)
      RETURNING session`,
  );
  return rows.map(({ session }) => session);
}

/** Ends a session at once, so that nobody waits for its lease to run out. */
export async function endSession(registry: Registry, session: string): Promise<Outcome> {
  const rows = await registry.statement(
    'end a session',
    sql`UPDATE worker SET dead = true WHERE session = ${session} AND NOT dead RETURNING session`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'session' };
}

/** Lets a session claim nothing more; `renew` reports it to the worker. */
export async function drainSession(registry: Registry, session: string): Promise<Outcome> {
  const rows = await registry.statement(
    'drain a session',
    sql`UPDATE worker SET draining = true WHERE session = ${session} AND NOT dead RETURNING session`,
  );
  return rows.length === 1 ? { outcome: 'committed' } : { outcome: 'fenced', by: 'session' };
}

/** A session that lives, and how many archives it holds. */
export interface DrainedSession {
  readonly session: string;
  readonly node: string;
  readonly archives: number;
}

/**
 * Lets the living sessions of a node, or of all nodes, claim nothing more; `renew` reports it to each worker. Sessions that
 * begin later are not concerned.
 *
 * @param node undefined for all nodes
 */
export async function drainNode(
  registry: Registry,
  node: string | undefined,
): Promise<readonly DrainedSession[]> {
  // In one order, so that two who drain do not wait for each other.
  return registry.statement<DrainedSession>(
    'drain sessions',
    sql`UPDATE worker w SET draining = true WHERE session IN (
        SELECT session FROM worker WHERE NOT dead AND (node = ${node ?? null} OR ${node ?? null}::text IS NULL)
        ORDER BY session FOR UPDATE)
      RETURNING session, node, (SELECT count(*) FROM archive a WHERE a.holder = w.session) AS archives`,
  );
}

/**
 * Removes the rows of sessions that ended at least `ageMs` ago. Those that an archive names stay: without its row, nobody
 * could see that a holder is dead.
 */
export async function removeSessions(
  registry: Registry,
  ageMs: number,
): Promise<readonly string[]> {
  const rows = await registry.statement<{ session: string }>(
    'remove sessions',
    sql`DELETE FROM worker w WHERE w.dead AND w.lease_until < clock_timestamp() - ${interval(ageMs)}
      AND NOT EXISTS (SELECT 1 FROM archive a WHERE a.holder = w.session) RETURNING w.session`,
  );
  return rows.map(({ session }) => session);
}

/**
 * Removes a node whose disk was destroyed from the cache, by hand: purges no longer wait for it. That it was done is noted.
 * Refused while a session of the node lives.
 *
 * @returns the archives that the node may have had bytes of
 */
export async function strikeNode(
  registry: Registry,
  node: string,
): Promise<Outcome<{ archives: readonly number[] }>> {
  return outcomeOf(registry, 'strike a node', async (tx) => {
    // In this order: what a session enters that begins after the second statement is another entry.
    const { rows: entries } = await sql<{ archive: number; entry: string }>`
      SELECT archive, entry FROM cache WHERE node = ${node}`.execute(tx);
    const { rows: living } = await sql`
      SELECT session FROM worker WHERE node = ${node} AND NOT dead`.execute(tx);
    if (living.length > 0) throw new Refusal({ by: 'session' });
    const { rows } = await sql<{ archive: number }>`
      DELETE FROM cache WHERE node = ${node} AND entry = ANY(${entries.map(({ entry }) => entry)}::uuid[])
      RETURNING archive`.execute(tx);
    await sql`INSERT INTO struck_node (node, archives) VALUES (${node}, ${rows.length})`.execute(
      tx,
    );
    return { archives: rows.map(({ archive }) => archive) };
  });
}
