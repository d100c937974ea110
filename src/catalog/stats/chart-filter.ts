import type { Connection } from '../connection.ts';
import { numberList } from '../number-list.ts';
import type { PlaceSet } from '../place-sets.ts';
import { foldersIn, placeSetsIn, type Scope } from '../scope.ts';

/** Which messages a chart counts. */
export interface ChartFilter {
  /** What the reader may know; null for all. */
  readonly scope: Scope | null;
  /** Whether a message counts that is or was in these mailboxes, by their numbers; null where all do. */
  readonly fits: ((mailboxes: readonly number[]) => boolean) | null;
}

/** A set of places that a chart counts. */
export interface CountedSet extends PlaceSet {
  readonly id: number;
  /** Without a current place, within the scope. */
  readonly deleted: boolean;
}

interface Row {
  readonly id: number;
  readonly current: string;
  readonly last: string;
  readonly mailboxes: string;
}

/** Returns the sets of places that a filter lets through, by their numbers. */
export function countedSets(
  connection: Connection,
  { scope, fits }: ChartFilter,
): ReadonlyMap<number, CountedSet> {
  const where = scope === null ? '1' : `id IN ${placeSetsIn(scope)}`;
  const rows = connection.text<Row>(
    `SELECT id, current, last, mailboxes FROM place_sets WHERE ${where}`,
    [],
  );
  const ours =
    scope === null
      ? null
      : new Set(
          connection.column<number>(`SELECT id FROM folders WHERE id IN ${foldersIn(scope)}`, []),
        );
  const sets = new Map<number, CountedSet>();
  for (const row of rows) {
    const mailboxes = numberList(row.mailboxes, connection.file);
    if (fits?.(mailboxes) === false) continue;
    const current = numberList(row.current, connection.file);
    const last = numberList(row.last, connection.file);
    const deleted = ours === null ? current.length === 0 : !current.some((id) => ours.has(id));
    sets.set(row.id, { id: row.id, current, last, mailboxes, deleted });
  }
  return sets;
}

/** Returns SQL that holds for a row whose set of places counts; sets are few, and their numbers are literals. */
export function isCounted(sets: ReadonlyMap<number, CountedSet>, filter: ChartFilter): string {
  if (filter.scope === null && filter.fits === null) return '1';
  return `place_set IN (${[...sets.keys()].join(', ')})`;
}
