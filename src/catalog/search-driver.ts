import type { Connection } from './connection.ts';
import type { Conjunct } from './search-formula.ts';
import { type AsOf, counting, type Driver, needsMatch, type Sql } from './search-sql.ts';

/** A conjunct with what its walk follows, and its bounds drawn in to where hits can be. */
export interface Drive {
  readonly conjunct: Conjunct;
  readonly driver: Driver;
}

/** Asking the full-text index about one message costs as much as walking this many of its hits (measured: 16 to 80 against 1). */
const MATCH_ONE = 24;
/** A source of more candidates than this is not the selective side, whatever the other one is. */
const SELECTIVE = 2_000;
/** Folders of one filter that are walked side by side. */
const FOLDERS = 16;

/**
 * Chooses the side that drives. Text drives unless a folder, a flag or the end of messages leaves far fewer
 * candidates; both are counted no further than the answer needs, so that choosing costs less than it saves.
 * Only the present has indexes for flags and folders: a search as of a commit is driven by text, or by all.
 */
export function chooseDriver(connection: Connection, conjunct: Conjunct, asOf: AsOf): Drive {
  const match = needsMatch(conjunct);
  const fallback: Driver = match ? { by: 'match' } : { by: 'all' };
  const rivals = asOf === null ? rivalsOf(conjunct) : [];
  const [only] = rivals;
  if (only !== undefined && rivals.length === 1 && !match) return { conjunct, driver: only };
  let best: { readonly driver: Driver; readonly count: number } | undefined;
  for (const driver of rivals) {
    const count = counted(connection, counting(conjunct, driver, SELECTIVE + 1));
    if (best === undefined || count < best.count) best = { driver, count };
  }
  if (best === undefined) return { conjunct, driver: fallback };
  if (!match) return { conjunct, driver: best.driver };
  if (best.count <= SELECTIVE) {
    const worth = best.count * MATCH_ONE;
    const hits = counted(connection, counting(conjunct, { by: 'match' }, worth + 1));
    if (hits > worth) return { conjunct, driver: best.driver };
  }
  return { conjunct: drawnIn(connection, conjunct, rivals), driver: fallback };
}

function rivalsOf({ places, deleted }: Conjunct): Driver[] {
  const rivals: Driver[] = deleted === true ? [{ by: 'ended' }] : [];
  for (const { folders, indexed } of places) {
    if (folders !== null && folders.length <= FOLDERS) rivals.push({ by: 'folders', folders });
    if (indexed !== null) rivals.push({ by: indexed });
  }
  return rivals;
}

/**
 * Bounds of the docids that a folder has at all: the folder of a year long past is reached at once, not by
 * walking every hit that came since.
 */
function drawnIn(connection: Connection, conjunct: Conjunct, rivals: readonly Driver[]): Conjunct {
  let { low, high } = conjunct;
  for (const driver of rivals) {
    if (driver.by !== 'folders') continue;
    const ends = (['min', 'max'] as const).map((end) =>
      driver.folders.flatMap((folder) =>
        ['IS NULL', 'IS NOT NULL'].map((open) => endOf(connection, end, folder, open)),
      ),
    );
    const [lows = [], highs = []] = ends.map((found) => found.filter((docid) => docid !== null));
    low = Math.max(low, Math.min(...lows));
    high = Math.min(high, Math.max(...highs) + 1);
  }
  return Number.isFinite(low) && Number.isFinite(high)
    ? { ...conjunct, low, high }
    : { ...conjunct, low: 0, high: 0 };
}

function endOf(connection: Connection, end: 'min' | 'max', folder: number, open: string) {
  const sql = `SELECT ${end}(docid) AS docid FROM places WHERE folder_id = ${folder} AND to_commit ${open}`;
  for (const row of connection.text<{ docid: number | null }>(sql, [])) return row.docid;
  return null;
}

function counted(connection: Connection, statements: readonly Sql[]): number {
  let total = 0;
  for (const { sql, params } of statements)
    for (const row of connection.text<{ n: number }>(sql, params)) total += row.n;
  return total;
}
