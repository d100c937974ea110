import { sql } from 'kysely';
import type { Registry } from './registry.ts';

/** The session that holds an archive now. */
export interface Holder {
  readonly archive: number;
  readonly session: string;
}

/** What is sent to a session: at most 7,999 bytes (NOTIFY, PostgreSQL 15). */
export interface Note {
  readonly session: string;
  readonly payload: string;
}

/** Returns the channel on which a session hears of hints. */
export function channelOf(session: string): string {
  return `w_${session}`;
}

/**
 * Sends hints to the holders of archives: one look for all of them, and the notes that are made of it, in one transaction.
 * Nobody waits for a disk or a replica, because a note that is lost costs only time.
 *
 * @param notesFor returns what is sent to the holders that live
 * @returns these holders
 * @throws the errors of the registry; after outcome-unknown they may have been sent
 */
export async function sendHints(
  registry: Registry,
  archives: readonly number[],
  notesFor: (holders: readonly Holder[]) => readonly Note[],
): Promise<readonly Holder[]> {
  return registry.transaction('send hints', async (tx) => {
    await sql`SET LOCAL synchronous_commit = off`.execute(tx);
    const { rows } = await sql<Holder>`
      SELECT a.id AS archive, w.session FROM archive a JOIN worker w ON w.session = a.holder
      WHERE a.id = ANY(${[...archives]}::bigint[]) AND NOT w.dead
        AND w.lease_until >= clock_timestamp()`.execute(tx);
    const notes = notesFor(rows);
    if (notes.length > 0) {
      const channels = notes.map(({ session }) => channelOf(session));
      const payloads = notes.map(({ payload }) => payload);
      await sql`SELECT pg_notify(channel, payload)
        FROM unnest(${channels}::text[], ${payloads}::text[]) AS n(channel, payload)`.execute(tx);
    }
    return rows;
  });
}
