import { DOCIDS_PER_SECOND } from '../../mail/docid.ts';
import type { Connection } from '../connection.ts';
import { type ChartFilter, countedSets, isCounted } from './chart-filter.ts';

/** Zones differ by quarters of an hour. */
const QUARTER_MS = 900_000;
const DOCIDS_PER_QUARTER = (DOCIDS_PER_SECOND * QUARTER_MS) / 1000;

/** Messages that are read: in 50 ms or less. */
const MOST = 50_000;

/** How many messages were received in each quarter of an hour. */
export interface Quarters {
  /** By the beginning of the quarter, milliseconds since the epoch. */
  readonly counts: ReadonlyMap<number, number>;
  /** The time of the oldest message that was read, where there are more than are read; null otherwise. */
  readonly since: number | null;
}

/**
 * Counts when messages were received, the newest fifty thousand at most.
 *
 * @param low docid of the first message; `high` is behind the last
 */
export function quartersBetween(
  connection: Connection,
  filter: ChartFilter,
  low: number,
  high: number,
): Quarters {
  const sets = countedSets(connection, filter);
  // Negative where it does not count: what is read is limited, not what is counted.
  const docid = `iif(${isCounted(sets, filter)}, docid, -docid)`;
  const docids = connection.column<number>(
    `SELECT ${docid} FROM messages WHERE docid >= ${low} AND docid < ${high}
     ORDER BY messages.docid DESC LIMIT ${MOST}`,
    [],
  );
  const counts = new Map<number, number>();
  for (const one of docids) {
    if (one < 0) continue;
    const quarter = Math.floor(one / DOCIDS_PER_QUARTER) * QUARTER_MS;
    counts.set(quarter, (counts.get(quarter) ?? 0) + 1);
  }
  const oldest = docids.length < MOST ? undefined : docids.at(-1);
  return {
    counts,
    since: oldest === undefined ? null : Math.floor(Math.abs(oldest) / DOCIDS_PER_SECOND) * 1000,
  };
}
