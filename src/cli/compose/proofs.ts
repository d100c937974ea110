import type { StateFile } from '../../catalog/state.ts';
import type { SyncResult } from '../../sync/result.ts';

/** When a folder was last compared with the origin, and whether everything added up. */
export interface Proof {
  /** ISO 8601: when the pass began. What arrived later is not spoken of. */
  readonly at: string;
  readonly complete: boolean;
  readonly originTotal: number;
}

const SCOPE = 'proof';

/** Remembers what a pass that began at `startedAt` proved. */
export function rememberProofs(state: StateFile, result: SyncResult, startedAt: number): void {
  const at = new Date(startedAt).toISOString();
  for (const { mailbox, folder, complete, originTotal } of result.certificates) {
    state.set(SCOPE, proofKey(mailbox, folder), { at, complete, originTotal });
  }
}

/** The last proof of a folder, or undefined where none is remembered. */
export function recalledProof(
  state: StateFile | undefined,
  address: string,
  folder: string,
): Proof | undefined {
  return proofIn(state?.get(SCOPE, proofKey(address, folder)));
}

/** By hand: the schema library would double the time that reading commands take to start. */
function proofIn(value: unknown): Proof | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'complete' in value && 'originTotal' in value)) return undefined;
  const { at, complete, originTotal } = value;
  return typeof at === 'string' && typeof complete === 'boolean' && typeof originTotal === 'number'
    ? { at, complete, originTotal }
    : undefined;
}

function proofKey(address: string, folder: string): string {
  return JSON.stringify([address, folder]);
}
