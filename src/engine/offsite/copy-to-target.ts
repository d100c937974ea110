import { reachedBy } from '../../catalog/closed-catalog.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { type CopiedOut, type CopyProgress, copyOut } from '../../offsite/copy-out.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { openExistingState } from '../../state/state-file.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { withOwnKey } from './open-keys.ts';

export interface TargetOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** Uploads every segment again, as it is here now. */
  readonly refresh: boolean;
  /** How many manifests to keep. */
  readonly keep: number;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly onProgress: (progress: CopyProgress) => void;
}

/**
 * Brings the off-site copy of an archive up to date. A sync may be under way.
 *
 * @throws what `withOwnKey` and `copyOut` throw
 */
export async function copyToTarget(order: TargetOrder): Promise<CopiedOut> {
  const { dataDir, store, signal, onProgress, ...rest } = order;
  return withOwnKey(order, async (key) => {
    const state = openExistingState(dataDir);
    const prover = proverOnThreads();
    try {
      return await copyOut({
        ...rest,
        dir: dataDir,
        store,
        key,
        signal,
        prover,
        signingKey: readSigningKey(await ownSigningKey(dataDir)),
        memory: copyMemory(state, key.copyId),
        seen: reachedBy(dataDir)?.number ?? 0,
        progress: onProgress,
      });
    } finally {
      await prover.close();
      state?.close();
    }
  });
}
