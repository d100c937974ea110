import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

const IN_FORCE = query<{ time: number }>()((db, p) =>
  db
    .selectFrom('commits')
    .select('number')
    .where('time', '<=', p.time)
    .orderBy('time', 'desc')
    .orderBy('number', 'desc')
    .limit((eb) => eb.lit(1)),
);
const BY_NUMBER = query<{ number: number }>()((db, p) =>
  db.selectFrom('commits').select('time').where('number', '=', p.number),
);
const LAST_NUMBER = query()((db) => db.selectFrom('meta').select('commit_number'));

/** The commit in force at a time (milliseconds since the epoch): the last one that is not later; 0 before the first. */
export function commitAt(connection: Connection, time: number): number {
  return connection.get(IN_FORCE, { time })?.number ?? 0;
}

/** The time of a commit, milliseconds since the epoch; undefined for one that was never folded. */
export function timeOf(connection: Connection, number: number): number | undefined {
  return connection.get(BY_NUMBER, { number })?.time;
}

/** The number of the reached commit; 0 before the first. */
export function reachedCommit(connection: Connection): number {
  return connection.get(LAST_NUMBER, {})?.commit_number ?? 0;
}

/** Returns when a message was received, by its docid: ISO 8601 in UTC. */
export function isoOfDocid(docid: number): string | null {
  return isoTime(Math.floor(docid / DOCIDS_PER_SECOND) * 1000);
}

/** ISO 8601 in UTC, as every time in JSON. Null stays null, and so does what no calendar has. */
export function isoTime(time: number | null): string | null {
  if (time === null) return null;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
