import { reachedBy } from '../../catalog/closed-catalog.ts';
import type { PortableConfig } from '../../config/portable-config.ts';
import { copiesError } from '../../errors/copies.ts';
import { damagedObjects } from '../../health/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { type CopiedOut, type CopyProgress, copyOut } from '../../offsite/copy-out.ts';
import type { Locks } from '../../offsite/lock-objects.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { openExistingState } from '../../state/state-file.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { settingsText } from './carried-settings.ts';
import {
  keepManifest,
  keepSettings,
  keptManifest,
  type MendedFinding,
  mendKept,
} from './kept-objects.ts';
import { lockKeys } from './lock-keys.ts';
import { withOwnKey } from './open-keys.ts';

export interface TargetOrder {
  readonly dataDir: string;
  /** Carried with the copy, if a configuration was found. */
  readonly config?: PortableConfig | undefined;
  readonly store: ObjectStore;
  /** Uploads every segment again, as it is here now. */
  readonly refresh: boolean;
  /** How many manifests to keep. */
  readonly keep: number;
  /** Locks objects for that many days. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly onProgress: (progress: CopyProgress) => void;
}

export interface CopiedToTarget extends CopiedOut {
  /** What was damaged or missing at the target, as far as a copy looks. */
  readonly findings: readonly MendedFinding[];
}

/**
 * Brings the off-site copy of an archive up to date. A sync may be under way.
 *
 * @throws offsite-no-locks; what `withOwnKey`, `lockKeys` and `copyOut` throw
 */
export async function copyToTarget(order: TargetOrder): Promise<CopiedToTarget> {
  const { dataDir, config, store, signal, onProgress, lockDays, now, ...rest } = order;
  if (lockDays !== undefined && !(await store.abilities(signal)).locks) {
    throw copiesError('offsite-no-locks', { to: store.label });
  }
  return withOwnKey(order, async (own, file) => {
    const state = openExistingState(dataDir);
    const prover = proverOnThreads();
    const memory = copyMemory(state, own.copyId);
    try {
      const signingKey = readSigningKey(await ownSigningKey(dataDir));
      const locking = { store, memory, lockDays, signal, now };
      const mending = { ...locking, file, signingKey };
      const { key: mended, findings } = await mendKept({ ...mending, key: own });
      const settings = settingsText(state, config);
      const key =
        settings === undefined ? mended : await keepSettings({ ...mending, key: mended }, settings);
      // Without what opens the copy, nobody needs the rest.
      const keys = lockDays === undefined ? null : await lockKeys({ ...locking, key, lockDays });
      const copied = await copyOut({
        ...rest,
        dir: dataDir,
        store,
        key,
        signal,
        prover,
        signingKey,
        ...{ memory, lockDays, now },
        damaged: state === undefined ? undefined : damagedObjects(state, store.label),
        manifest: keptManifest(dataDir, key),
        seen: reachedBy(dataDir)?.number ?? 0,
        progress: onProgress,
      });
      await keepManifest(dataDir, { store, key, signal }, copied.manifest);
      return {
        ...copied,
        findings: [...findings, ...copied.mended.map((one) => ({ ...one, repaired: true }))],
        locks: both(keys, copied.locks),
      };
    } finally {
      await prover.close();
      state?.close();
    }
  });
}

function both(one: Locks | null, other: Locks | null): Locks | null {
  if (one === null || other === null) return other;
  return { extended: one.extended + other.extended, until: Math.min(one.until, other.until) };
}
