import type { Reader } from '../../engine/archive/reader.ts';
import { DOCIDS_PER_SECOND } from '../../mail/docid.ts';
import { namedMessage } from './message-view.ts';

export type ListSort = 'newest' | 'oldest';

/** Where a page of a list begins or ends. */
export interface ListPlace {
  /** The page after a message, the one before it, or the one that begins with it. */
  readonly side: 'after' | 'before' | 'at';
  readonly docid: number;
}

/** A position between messages, for a list that ran out of time there: an id of its own would name a message. */
const POSITION = /^@(\d{1,15})$/;
/** A moment: `2026-03-01T00:00:00Z`. */
const TIME = /^\d{4}-\d\d-\d\dT/;

/**
 * Returns where the page of a list is that an address asks for: `after=`, `before=` or `at=`, each with an id or the
 * beginning of one, `at=` also with a moment in ISO 8601. Undefined where it names none that there is.
 */
export function listPlace(
  { catalog }: Pick<Reader, 'catalog'>,
  parameter: (name: string) => string | undefined,
  sort: ListSort,
): ListPlace | undefined {
  for (const side of ['after', 'before', 'at'] as const) {
    const typed = parameter(side);
    if (typed === undefined) continue;
    const position = POSITION.exec(typed)?.[1];
    if (position !== undefined) {
      const direction = side === 'after' ? sort : other(sort);
      return { side, docid: catalog.positions.meant(Number(position), direction) };
    }
    if (side === 'at' && TIME.test(typed) && !Number.isNaN(Date.parse(typed))) {
      const second = Math.max(0, Math.floor(Date.parse(typed) / 1000));
      const docid = second * DOCIDS_PER_SECOND;
      return { side, docid: sort === 'newest' ? docid + DOCIDS_PER_SECOND - 1 : docid };
    }
    const named = namedMessage({ catalog }, typed);
    const docid = named.kind === 'one' ? catalog.messages.docidOf(named.id) : undefined;
    if (docid !== undefined) return { side, docid };
  }
  return undefined;
}

/** Returns what `after=` takes to continue behind a docid in an order, and `before=` in the other one. */
export function positionOf(
  { catalog }: Pick<Reader, 'catalog'>,
  docid: number,
  sort: ListSort,
): string {
  return `@${catalog.positions.shown(docid, sort)}`;
}

export function other(sort: ListSort): ListSort {
  return sort === 'newest' ? 'oldest' : 'newest';
}
