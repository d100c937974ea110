import type { Attention } from '../../../fleet/attention.ts';
import type { ObjectState } from '../../../registry/objects.ts';
import type { Remaining } from '../../../registry/purges.ts';
import type { ObjectCount } from '../../../registry/status.ts';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { present } from '../../output.ts';

/** Returns what is wrong with a fleet, and what to do. */
export function attentionText(found: Attention): string {
  switch (found.code) {
    case 'not-synchronous':
      return 'PostgreSQL has no synchronous replica: a failover takes back commits that were acknowledged. Set synchronous_standby_names, and synchronous_commit to on.';
    case 'failed-over':
      return `PostgreSQL failed over ${span(found.ageMs)} ago without a synchronous replica: the newest commits of any account may be gone.`;
    case 'no-worker':
      return `No worker that takes accounts is running: ${counted(found.accounts, 'active account is', 'active accounts are')} not mirrored.`;
    case 'no-capacity':
      return `The running workers take ${counted(found.capacity, 'account')} at most, and ${count(found.accounts)} are active. Raise fleet.capacity or start another node.`;
    case 'orphaned':
      return `${found.node} has been dead for ${span(found.ageMs)}, and nobody took ${counted(found.archives, 'account')} of it.`;
    case 'tail-old':
      return `Commits of ${found.name} (tenant ${found.tenant}) have been in PostgreSQL for ${span(found.ageMs)}; they should be in the bucket after a day. Check the worker that holds it and the bucket.`;
    case 'forget-old':
      return `A forget of ${found.name} (tenant ${found.tenant}) has not ended for ${span(found.ageMs)}: messages that were to be removed may still be somewhere.`;
    case 'stale':
      return `${counted(found.accounts, 'active account has', 'active accounts have')} no commit that is new enough for --max-age.`;
  }
}

/** Returns what a forget waits for, such as `2 commits in PostgreSQL, the disk of node-3`. */
export function remainingText(left: Remaining): string {
  const { tail, covers, snapshots, memory, objects, nodes } = left;
  const waits = present([
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
