import type { Connection } from '../connection.ts';
import { reachedCommit } from '../moments.ts';
import { numberList } from '../number-list.ts';

/** What was received in one set of places. The arrays have an entry for each of its days. */
export interface SetDays {
  /** The number of the set. */
  readonly id: number;
  /** Positions in `ReceivedDays.days`, ascending. */
  readonly at: Uint32Array;
  readonly messages: Float64Array;
  readonly bytes: Float64Array;
}

/** The sums that the fold keeps: messages and bytes by UTC day and set of places. */
export interface ReceivedDays {
  /** Days on which anything was received, in days since the epoch, ascending. */
  readonly days: Float64Array;
  readonly sets: readonly SetDays[];
}

/** Sums change with commits only. */
const KEPT = new WeakMap<
  Connection,
  { readonly commit: number; readonly received: ReceivedDays }
>();

/** Sums that are kept from one question to the next, each of 20 bytes; more are read again. */
const MOST_KEPT = 200_000;

interface Row {
  readonly id: number;
  readonly days: string;
  readonly messages: string;
  readonly bytes: string;
}

/**
 * Returns the sums of the reached commit. There may be a hundred thousand, which as rows are 10 MB and take 100 ms: each
 * question reads them as columns, which are made once for a commit.
 *
 * @throws catalog-damaged
 */
export function receivedDays(connection: Connection): ReceivedDays {
  return connection.snapshot(() => {
    const commit = reachedCommit(connection);
    const kept = KEPT.get(connection);
    if (kept?.commit === commit) return kept.received;
    const received = read(connection);
    const sums = received.sets.reduce((sum, { at }) => sum + at.length, 0);
    if (sums <= MOST_KEPT) KEPT.set(connection, { commit, received });
    else KEPT.delete(connection);
    return received;
  });
}

function read(connection: Connection): ReceivedDays {
  const { file } = connection;
  // A text for each column of a set: rows by themselves take twice as long, and become garbage.
  const rows = connection.text<Row>(
    `SELECT place_set AS id, json_group_array(day) AS days, json_group_array(messages) AS messages,
       json_group_array(bytes) AS bytes
     FROM received_days GROUP BY place_set`,
    [],
  );
  const read = [...rows].map(({ id, days, messages, bytes }) => ({
    id,
    days: Float64Array.from(numberList(days, file)),
    messages: Float64Array.from(numberList(messages, file)),
    bytes: Float64Array.from(numberList(bytes, file)),
  }));
  const days = Float64Array.from(new Set(read.flatMap((set) => [...set.days]))).sort();
  const positions = new Map([...days].map((day, position) => [day, position]));
  const sets = read.map(({ id, days, messages, bytes }) => {
    const at = Uint32Array.from(days, (day) => positions.get(day) ?? 0);
    return { id, at, messages, bytes };
  });
  return { days, sets };
}
