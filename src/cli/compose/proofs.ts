import { z } from 'zod';
import type { SyncResult } from '../../sync/result.ts';
import type { StateFile } from './state-file.ts';

/** When a folder was last compared with the origin, and whether everything added up. */
export interface Proof {
  /** ISO 8601: when the pass began. What arrived later is not spoken of. */
  readonly at: string;
  readonly complete: boolean;
  readonly originTotal: number;
}

const SCOPE = 'proof';
const proofShape = z.object({ at: z.string(), complete: z.boolean(), originTotal: z.number() });

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
  return proofShape.safeParse(state?.get(SCOPE, proofKey(address, folder))).data;
}

function proofKey(address: string, folder: string): string {
  return JSON.stringify([address, folder]);
}
