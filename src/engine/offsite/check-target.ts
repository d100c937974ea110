import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { copiesError } from '../../errors/copies.ts';
import { objectError } from '../../errors/objects.ts';
import type { ObjectStore } from '../../objects/store.ts';
import {
  type CheckedCopy,
  type CopyFinding,
  checkObjects,
  checkSegments,
} from '../../offsite/check-copy.ts';
import { isOlder, refuseOlder } from '../../offsite/copy-out.ts';
import { copiedSegments } from '../../offsite/fetch-segment.ts';
import { type ClearManifest, openManifest } from '../../offsite/format/manifest.ts';
import type { LocalKey } from '../../offsite/local-key.ts';
import { type FoundManifests, findManifests } from '../../offsite/manifests.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { openExistingState } from '../../state/state-file.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { checkKept, keptManifest } from './kept-objects.ts';
import { ownKeyOf } from './own-copy.ts';

export interface CheckOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** How much to read, drawn by `random`: so many segments (or objects), or a share of them. Undefined for everything. */
  readonly sample: { readonly parts: number } | { readonly share: number } | undefined;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
  /** Where one segment at a time is unpacked: a folder that exists. */
  readonly temporary: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: { readonly checked: number; readonly of: number }) => void;
}

export interface CheckedTarget extends CheckedCopy {
  readonly number: number;
  /** When the copy was made, milliseconds since the epoch. */
  readonly copiedAt: number;
  /** Whether segments were opened, or only the bytes of objects compared with the manifest. */
  readonly opened: boolean;
  /** Manifests that are not valid. */
  readonly invalid: readonly string[];
}

/**
 * Checks the off-site copy of an archive. With a key that reads, every segment is opened and read; without one, the bytes
 * of every object are compared with what the signed manifest lists.
 *
 * @throws offsite-no-manifest, offsite-rolled-back; what `ownKeyOf` and the store throw
 */
export async function checkTarget(order: CheckOrder): Promise<CheckedTarget> {
  const { dataDir, store, signal, onProgress } = order;
  const key = await ownKeyOf(dataDir, store, signal);
  const kept = [...(await checkKept({ store, key, signal }))];
  const manifests = await findManifests(store, key, signal);
  const clear = manifestToCheck(order, key, manifests, kept);
  const invalid = manifests.invalid.filter(({ name }) => name !== clear.name);
  const about = {
    number: clear.commit,
    copiedAt: clear.time,
    invalid: invalid.map(({ name }) => name),
  };
  if (key.privateKeys.length === 0) {
    const objects = drawn(clear.objects, order);
    const checked = await checkObjects({ store, objects, signal, progress: onProgress });
    const findings = [...kept, ...checked.findings];
    return { ...checked, findings, of: clear.objects.length, ...about, opened: false };
  }
  const opening = { copyId: Buffer.from(key.copyId, 'hex'), privateKeys: key.privateKeys };
  const manifest = await openManifest(clear, opening);
  const scratch = mkdtempSync(path.join(order.temporary, 'mailkeep-copy-'));
  const prover = proverOnThreads();
  try {
    const all = copiedSegments(manifest).map(({ segment }) => segment);
    const checked = await checkSegments({
      ...{ store, key: opening, manifest, prover, scratch, signal },
      objects: new Map(clear.objects.map((entry) => [entry.name, entry])),
      chosen: order.sample === undefined ? undefined : new Set(drawn(all, order)),
      progress: onProgress,
    });
    return { ...checked, findings: [...kept, ...checked.findings], ...about, opened: true };
  } finally {
    await prover.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * Returns the manifest that the target should have: the newest one there, or the one that this machine keeps if that is
 * newer, which is a finding.
 */
function manifestToCheck(
  { dataDir, store }: CheckOrder,
  key: LocalKey,
  manifests: FoundManifests,
  findings: CopyFinding[],
): ClearManifest {
  const kept = keptManifest(dataDir, key);
  if (isOlder(manifests, kept)) {
    const { name } = kept.clear;
    const damage = manifests.invalid.find((one) => one.name === name)?.error;
    const missing = objectError('object-missing', { store: store.label, name });
    findings.push({ name, error: damage ?? missing });
    return kept.clear;
  }
  const state = openExistingState(dataDir);
  try {
    refuseOlder(store, manifests, copyMemory(state, key.copyId));
  } finally {
    state?.close();
  }
  const { newest } = manifests;
  if (newest === undefined)
    throw copiesError('offsite-no-manifest', { to: store.label, invalid: 0 });
  return newest.clear;
}

/** Returns as many of the parts as the sample says, at least one, in their order. */
export function drawn<T>(
  parts: readonly T[],
  { sample, random }: Pick<CheckOrder, 'sample' | 'random'>,
): readonly T[] {
  if (sample === undefined) return parts;
  const wanted =
    'parts' in sample ? sample.parts : Math.max(1, Math.round(sample.share * parts.length));
  return parts
    .map((part, at) => ({ part, at, lot: random() }))
    .sort((a, b) => a.lot - b.lot)
    .slice(0, wanted)
    .sort((a, b) => a.at - b.at)
    .map(({ part }) => part);
}
