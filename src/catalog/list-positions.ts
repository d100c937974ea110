import { DOCIDS_PER_SECOND, docidBaseOf } from '../mail/docid.ts';
import type { Connection } from './connection.ts';
import { isVisible, type Scope } from './scope.ts';
import type { Direction } from './search/sql.ts';

/**
 * Docids as lists show them, where a page ends between messages. The low bits of a docid count the messages of its second
 * in all mailboxes, so whoever reads some mailboxes is shown the rank among theirs instead.
 */
export interface ListPositions {
  /** Returns what stands for a docid behind which a list continues in a direction. */
  shown(docid: number, direction: Direction): number;
  /** Returns the docid behind which a list continues, for what was shown, or typed by anyone. */
  meant(position: number, direction: Direction): number;
}

export const ALL_POSITIONS: ListPositions = {
  shown: (docid) => docid,
  meant: (position) => position,
};

/** Returns the positions of a reader of some mailboxes: they depend on the messages of these only. */
export function positionsWithin(connection: Connection, scope: Scope): ListPositions {
  const inSecond = (base: number): number[] =>
    connection.column<number>(
      `SELECT m.docid FROM messages m WHERE m.docid >= ? AND m.docid < ? AND ${isVisible(scope)}
       ORDER BY m.docid`,
      [BigInt(base), BigInt(base + DOCIDS_PER_SECOND)],
    );
  return {
    shown(docid, direction) {
      const base = docidBaseOf(docid);
      const passed = inSecond(base);
      // The rank of the last message that was passed; of an older list, that is the one at the docid or above it.
      return direction === 'newest'
        ? base + passed.filter((one) => one < docid).length
        : Math.max(0, base + passed.filter((one) => one <= docid).length - 1);
    },
    meant(position, direction) {
      const base = docidBaseOf(position);
      const known = inSecond(base)[position - base];
      // No message has the rank: from above, none of the second was passed; from below, all of them were.
      return known ?? base + (direction === 'newest' ? DOCIDS_PER_SECOND : DOCIDS_PER_SECOND - 1);
    },
  };
}
