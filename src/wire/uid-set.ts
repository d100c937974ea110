/**
 * IMAP uid sets (RFC 3501 section 9, `sequence-set`), as the `uid` criterion of `searchMessages` takes them:
 * `7`, `1:100`, `100:*`, `3,9:12`. `*` is the highest uid in the folder, whatever it is.
 */

/** One range of a set, both ends included; `'*'` stands for the folder's highest uid. */
export interface UidRange {
  readonly from: number | '*';
  readonly to: number | '*';
}

/** IMAP uids are unsigned 32-bit numbers. */
const HIGHEST_UID = 4_294_967_295;
const RANGE = /^(\d{1,10}|\*)(?::(\d{1,10}|\*))?$/;

/** The ranges of a set in the order written, or null when the text is not a set. */
export function parseUidSet(set: string): readonly UidRange[] | null {
  const ranges: UidRange[] = [];
  for (const part of set.split(',')) {
    const match = RANGE.exec(part);
    if (match === null) return null;
    const from = parseEnd(match[1]);
    const to = match[2] === undefined ? from : parseEnd(match[2]);
    if (from === null || to === null) return null;
    ranges.push({ from, to });
  }
  return ranges;
}

function parseEnd(text: string | undefined): number | '*' | null {
  if (text === '*') return '*';
  const uid = Number(text);
  return Number.isInteger(uid) && uid >= 1 && uid <= HIGHEST_UID ? uid : null;
}

/** True when the uid is in the set, given the folder's highest uid (0 for an empty folder). A range may be written backwards. */
export function inUidSet(ranges: readonly UidRange[], uid: number, highest: number): boolean {
  return ranges.some(({ from, to }) => {
    const a = from === '*' ? highest : from;
    const b = to === '*' ? highest : to;
    return uid >= Math.min(a, b) && uid <= Math.max(a, b);
  });
}
