import { sql } from 'kysely';
import type { AccountState } from './accounts.ts';
import type { Registry } from './registry.ts';

/** Returns the requests of an archive that are not settled, oldest first. */
export async function waitingForgets(
  registry: Registry,
  archive: number,
): Promise<readonly { readonly id: string; readonly wanted: unknown }[]> {
  return registry.read<{ id: string; wanted: unknown }>(
    'look for forgets',
    sql`SELECT id, wanted FROM forget WHERE archive = ${archive} AND purges IS NULL
      ORDER BY asked_at, id`,
  );
}

/** A request, and how far it has come. */
export interface ForgetState {
  readonly id: string;
  /** Where it was asked for, and how long ago in milliseconds. */
  readonly node: string;
  readonly ageMs: number;
  /** How many messages it names. */
  readonly messages: number;
  readonly isSettled: boolean;
  /** The first purge that it waits for; null before it is settled, and once it has ended. */
  readonly purge: number | null;
  readonly state: AccountState;
  /** The session that holds the archive; null if nobody does. */
  readonly holder: string | null;
}

/**
 * Returns the requests of an archive, newest first.
 *
 * @param which how many at most, or the one of an id
 */
export async function forgetsOf(
  registry: Registry,
  archive: number,
  which: { readonly most: number } | { readonly id: string },
): Promise<readonly ForgetState[]> {
  const { id, most } = { id: null, most: 1, ...which };
  return registry.read<ForgetState>(
    'look at forgets',
    sql`SELECT f.id, f.node, (extract(epoch FROM clock_timestamp() - f.asked_at) * 1000)::bigint AS "ageMs",
        jsonb_array_length(f.wanted) AS messages, f.purges IS NOT NULL AS "isSettled",
        (SELECT min(p.purges) FROM purge p WHERE p.archive = f.archive AND p.purges <= f.purges
          AND p.finished_at IS NULL) AS purge,
        a.state, a.holder
      FROM forget f JOIN archive a ON a.id = f.archive
      WHERE f.archive = ${archive} AND (${id}::uuid IS NULL OR f.id = ${id}::uuid)
      ORDER BY f.asked_at DESC, f.id LIMIT ${most}`,
  );
}
