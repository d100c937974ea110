import type { SearchNode } from '../../search/ast.ts';

/** The second after a moment, in milliseconds since the epoch: received dates have no finer ones. */
function nextSecond(moment: number): number {
  return (Math.floor(moment / 1000) + 1) * 1000;
}

/** Returns a node for what was received after a moment, milliseconds since the epoch. */
export function receivedAfter(moment: number): SearchNode {
  return { kind: 'received', from: nextSecond(moment), to: null, span: { start: 0, end: 0 } };
}

/** Returns the query for what the archive stored after a moment of `asof:`, which is the end of a second. */
export function storedAfterText(moment: number): string {
  return `added:${new Date(nextSecond(moment)).toISOString().replace('.000Z', 'Z')}..`;
}

/** Returns the query that finds the same as `receivedAfter`. */
export function receivedAfterText(moment: number): string {
  return `after:${new Date(nextSecond(moment)).toISOString().replace('.000Z', 'Z')}`;
}
