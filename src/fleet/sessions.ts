import { sql } from 'kysely';
import { addEvent, interval, type Outcome, one, refusable, structural } from './outcomes.ts';
import type { WorkerRow } from './overview.ts';
import type { Registry, Tx } from './postgres.ts';
import { PROGRAM } from './schema.ts';

/** One start of a worker process. The session is a random UUID, never used again. */
type NewSession = Omit<WorkerRow, 'isDraining' | 'isDead'>;

/** Starts a session that lives for `leaseMs` from now. Refused if there is one with this id, or the node has another disk. */
export async function beginSession(
  registry: Registry,
  { disk, ...session }: NewSession & { readonly disk: string },
  leaseMs: number,
): Promise<Outcome> {
  return structural(registry, 'begin a session', async (tx, version) => {
    const known = sql`INSERT INTO node (name, disk) VALUES (${session.node}, ${disk})
      ON CONFLICT (name) DO UPDATE SET disk = node.disk WHERE node.disk = excluded.disk
      RETURNING disk`;
    await one(tx, known, 'disk');
    await insertSession(tx, { ...session, isDraining: false }, leaseMs, version);
    return {};
  });
}

/** Starts a session within a transaction. */
export async function insertSession(
  tx: Tx,
  { session, node, address, room, isDraining }: Omit<WorkerRow, 'isDead'>,
  leaseMs: number,
  version: number,
): Promise<void> {
  const added = sql`INSERT INTO worker
      (session, node, address, program, room, draining, lease_until, version)
    VALUES (${session}, ${node}, ${address}, ${PROGRAM}, ${room}, ${isDraining},
      clock_timestamp() + ${interval(leaseMs)}, ${version})
    ON CONFLICT DO NOTHING RETURNING session`;
  await one(tx, added, 'session');
  await addEvent(tx, { who: node, what: 'session', facts: { session } });
}

/** Returns milliseconds of a clock that the threads of a process share. */
export function sharedClockMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Extends a session. Refused once it is dead: it then holds nothing, and the worker needs a new one. */
export async function renew(
  registry: Registry,
  session: string,
  leaseMs: number,
): Promise<Outcome<{ isDraining: boolean }>> {
  const renewed = sql<{ isDraining: boolean }>`
    UPDATE worker SET lease_until = clock_timestamp() + ${interval(leaseMs)}
    WHERE session = ${session} AND NOT dead RETURNING draining AS "isDraining"`;
  return refusable(registry, 'renew', (tx) => one(tx, renewed, 'session'));
}

/** Ends a session, so that its shards are free at once. */
export async function endSession(registry: Registry, session: string): Promise<Outcome> {
  return structural(registry, 'end a session', async (tx, version) => {
    const ended = sql`UPDATE worker SET dead = true, version = ${version}
      WHERE session = ${session} AND NOT dead RETURNING session`;
    await one(tx, ended, 'session');
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

/** Removes tokens that have not been valid for `tokensMs`, and the oldest events once they have that age. */
export async function removeHistory(
  registry: Registry,
  { tokensMs, eventsMs }: { readonly tokensMs: number; readonly eventsMs: number },
): Promise<void> {
  await registry.statement(
    'remove tokens',
    sql`DELETE FROM token
      WHERE least(revoked_at, expires_at) < clock_timestamp() - ${interval(tokensMs)}`,
  );
  await registry.statement(
    'remove events',
    sql`DELETE FROM event WHERE at < clock_timestamp() - ${interval(eventsMs)}
      AND id IN (SELECT id FROM event ORDER BY id LIMIT ${EVENTS_AT_ONCE})`,
  );
}

const EVENTS_AT_ONCE = 10_000;

/** Removes sessions that died at least `ageMs` ago and hold no shard. Returns their number. */
export async function removeSessions(registry: Registry, ageMs: number): Promise<number> {
  const rows = await registry.statement(
    'remove sessions',
    sql`DELETE FROM worker w WHERE dead AND lease_until < clock_timestamp() - ${interval(ageMs)}
      AND NOT EXISTS (SELECT 1 FROM shard s WHERE s.holder = w.session) RETURNING session`,
  );
  return rows.length;
}
