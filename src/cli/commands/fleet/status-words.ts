import { bytes, count, counted } from '../../../core/text.ts';
import type { ObjectState } from '../../../registry/objects.ts';
import type { Remaining } from '../../../registry/purges.ts';
import type { ObjectCount, UnfinishedPurge } from '../../../registry/status.ts';
import { joinReport } from '../../output.ts';

/** Returns what a forget waits for, such as `2 commits in PostgreSQL, the disk of node-3`. */
function remainingText(left: Remaining): string {
  const { tail, covers, snapshots, memory, objects, nodes } = left;
  const waits = joinReport([
    tail > 0 && `${counted(tail, 'commit')} in PostgreSQL`,
    covers > 0 && `${counted(covers, 'object')} to be written again`,
    snapshots > 0 && 'a new snapshot of the catalog',
    memory > 0 && 'what the archive remembers to be saved again',
    objects > 0 && `${counted(objects, 'object')} to be deleted`,
    nodes.length > 0 &&
      `the ${nodes.length === 1 ? 'disk' : 'disks'} of ${nodes.join(', ')} to be wiped`,
  ]);
  return waits.length === 0 ? 'its holder to end it' : waits.join(', ');
}

/**
 * Returns what a forget waits for, with what has to happen first.
 *
 * @param left null where nobody has decided it yet
 */
export function waitingText(
  { state, holder }: Pick<UnfinishedPurge, 'state' | 'holder'>,
  left: Remaining | null,
): string {
  const then = left === null ? '' : `, then ${remainingText(left)}`;
  if (state !== 'active') return `the account to be resumed${then}`;
  if (holder === null) return `a node to take the account${then}`;
  // Only its log knows whether it tried.
  return left === null
    ? 'its holder, which looks for requests once a minute, and an hour after it failed to carry one out'
    : remainingText(left);
}

const STATES: readonly (readonly [state: ObjectState, words: string])[] = [
  ['live', 'in use'],
  ['uploading', 'being uploaded'],
  ['condemned', 'to be deleted'],
  ['swept', 'deleted, to be confirmed'],
];

/** Returns the objects of a fleet by their states, such as `12 in use (1.2 GB), 3 being uploaded`. */
export function objectsText(objects: readonly ObjectCount[]): string {
  const parts = STATES.flatMap(([state, words]) => {
    const found = objects.find((one) => one.state === state);
    if (found === undefined) return [];
    const size = state === 'live' ? ` (${bytes(found.bytes)})` : '';
    return [`${count(found.count)} ${words}${size}`];
  });
  return parts.length === 0 ? 'none' : parts.join(', ');
}
