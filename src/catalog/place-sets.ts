import { DOCIDS_PER_SECOND } from '../mail/docid.ts';

/** Docids of one day. */
export const DOCIDS_PER_DAY = DOCIDS_PER_SECOND * 86_400;

/** Where a message is, by numbers of folders and mailboxes in ascending order. */
export interface PlaceSet {
  /** Folders of its current places. */
  readonly current: readonly number[];
  /** Where it has no current place: the folders of those that ended last. */
  readonly last: readonly number[];
  /** Mailboxes of all its places, ended ones included. */
  readonly mailboxes: readonly number[];
}

/** Returns the UTC day a message was received, in days since the epoch: that of its docid, by which searches find it. */
export function dayOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_DAY);
}

/**
 * Returns where a message is that has these places.
 *
 * @param mailboxOf the mailbox of a folder
 */
export function placeSetOf(
  places: Iterable<{ readonly folder_id: number; readonly to_commit: number | null }>,
  mailboxOf: (folder: number) => number,
): PlaceSet {
  const current = new Set<number>();
  const mailboxes = new Set<number>();
  let last = new Set<number>();
  let ended = -1;
  for (const { folder_id: folder, to_commit: to } of places) {
    mailboxes.add(mailboxOf(folder));
    if (to === null) current.add(folder);
    else if (to > ended) {
      ended = to;
      last = new Set([folder]);
    } else if (to === ended) last.add(folder);
  }
  return {
    current: ascending(current),
    last: current.size > 0 ? [] : ascending(last),
    mailboxes: ascending(mailboxes),
  };
}

function ascending(numbers: ReadonlySet<number>): number[] {
  return [...numbers].sort((a, b) => a - b);
}
