import { sql } from 'kysely';
import { addEvent, interval, type Outcome, Refusal, refusable, structural } from './outcomes.ts';
import type { Registry } from './postgres.ts';

/** One start of a worker process. */
interface NewSession {
  /** A random UUID, never used again. */
  readonly session: string;
  readonly node: string;
  /** Host and port at which other nodes reach it. */
  readonly address: string;
  readonly program: number;
  /** Number of accounts that it takes at most. */
  readonly room: number;
}

/** Starts a session that lives for `leaseMs` from now. Refused if there is one with this id. */
export async function beginSession(
  registry: Registry,
  { session, node, address, program, room }: NewSession,
  leaseMs: number,
): Promise<Outcome> {
  return structural(registry, 'begin a session', async (tx, version) => {
    const { rows } = await sql`
      INSERT INTO worker (session, node, address, program, room, lease_until, version)
      VALUES (${session}, ${node}, ${address}, ${program}, ${room},
        clock_timestamp() + ${interval(leaseMs)}, ${version})
      ON CONFLICT DO NOTHING RETURNING session`.execute(tx);
    if (rows.length === 0) throw new Refusal('session');
    await addEvent(tx, { who: node, what: 'session', facts: { session } });
    return {};
  });
}

/** Extends a session. Refused once it is dead: it then holds nothing, and the worker needs a new one. */
export async function renew(
  registry: Registry,
  session: string,
  leaseMs: number,
): Promise<Outcome<{ isDraining: boolean }>> {
  return refusable(registry, 'renew', async (tx) => {
    const { rows } = await sql<{ isDraining: boolean }>`
      UPDATE worker SET lease_until = clock_timestamp() + ${interval(leaseMs)}
      WHERE session = ${session} AND NOT dead RETURNING draining AS "isDraining"`.execute(tx);
    const [row] = rows;
    if (row === undefined) throw new Refusal('session');
    return row;
  });
}

/** Ends a session, so that its shards are free at once. */
export async function endSession(registry: Registry, session: string): Promise<Outcome> {
  return structural(registry, 'end a session', async (tx, version) => {
    const { rows } = await sql`UPDATE worker SET dead = true, version = ${version}
      WHERE session = ${session} AND NOT dead RETURNING session`.execute(tx);
    if (rows.length === 0) throw new Refusal('session');
    return {};
  });
}

/** Marks sessions dead whose lease has run out. Returns them. */
export async function markDead(registry: Registry): Promise<readonly string[]> {
  const expired = await registry.read(
    'look for expired sessions',
    sql`SELECT session FROM worker WHERE NOT dead AND lease_until < clock_timestamp() LIMIT 1`,
  );
  if (expired.length === 0) return [];
  const outcome = await structural(registry, 'mark sessions dead', async (tx, version) => {
    const { rows } = await sql<{ session: string; node: string }>`
      UPDATE worker SET dead = true, version = ${version}
      WHERE NOT dead AND lease_until < clock_timestamp() RETURNING session, node`.execute(tx);
    for (const { node, session } of rows) {
      await addEvent(tx, { who: node, what: 'session-lost', facts: { session } });
    }
    return { sessions: rows.map(({ session }) => session) };
  });
  return outcome.outcome === 'committed' ? outcome.sessions : [];
}

/**
 * Lets the living sessions of a node claim nothing more, or lets them claim again. Later sessions are not affected.
 *
 * @param node undefined for all nodes
 * @returns the sessions
 */
export async function setDraining(
  registry: Registry,
  node: string | undefined,
  isDraining: boolean,
): Promise<readonly string[]> {
  const outcome = await structural(registry, 'drain', async (tx, version) => {
    const { rows } = await sql<{ session: string }>`
      UPDATE worker SET draining = ${isDraining}, version = ${version}
      WHERE NOT dead AND (${node ?? null}::text IS NULL OR node = ${node ?? null})
      RETURNING session`.execute(tx);
    const what = isDraining ? 'drain' : 'undrain';
    await addEvent(tx, { who: 'operator', what, facts: { node: node ?? null } });
    return { sessions: rows.map(({ session }) => session) };
  });
  return outcome.outcome === 'committed' ? outcome.sessions : [];
}

/** Removes sessions that died at least `ageMs` ago and hold no shard. Returns their number. */
export async function removeSessions(registry: Registry, ageMs: number): Promise<number> {
  const rows = await registry.statement(
    'remove sessions',
    sql`DELETE FROM worker w WHERE dead AND lease_until < clock_timestamp() - ${interval(ageMs)}
      AND NOT EXISTS (SELECT 1 FROM shard s WHERE s.holder = w.session) RETURNING session`,
  );
  return rows.length;
}
