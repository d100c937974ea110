import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import type { ChainState } from '../../archive/read/segment-batches.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { copiesError } from '../../errors/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { refuseOlder } from '../../offsite/copy-out.ts';
import { type FetchedForRepair, fetchForRepair } from '../../offsite/for-repair.ts';
import { openManifest } from '../../offsite/format/manifest.ts';
import type { LocalKey } from '../../offsite/local-key.ts';
import { type FoundManifests, findManifests } from '../../offsite/manifests.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { rawPublicKey } from '../../offsite/signer.ts';
import { openExistingState } from '../../state/state-file.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { ownKeyOf } from './own-copy.ts';

export interface SegmentsForRepair extends FetchedForRepair {
  /** A copy of the archive with gaps. */
  readonly folder: string;
  /**
   * The commit that the manifest leads to, if a key of this archive signed it; undefined if another signer did, whom a
   * reader of the copy has added.
   */
  readonly commit: ChainState | undefined;
}

/**
 * Fetches from an off-site copy what a repair of the archive may need, into a new folder below the archive's `tmp`, which
 * the caller removes.
 *
 * @throws offsite-write-only, offsite-no-manifest, offsite-rolled-back; what `ownKeyOf` and the store throw
 */
export async function segmentsForRepair(order: {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly signal: AbortSignal;
}): Promise<SegmentsForRepair> {
  const { dataDir, store, signal } = order;
  const key = await ownKeyOf(dataDir, store, signal);
  const to = store.label;
  if (key.privateKeys.length === 0) throw copiesError('offsite-write-only', { to });
  const manifests = await findManifests(store, key, signal);
  const { newest, invalid } = manifests;
  refuseRolledBack(order, key, manifests);
  if (newest === undefined) {
    throw copiesError('offsite-no-manifest', { to, invalid: invalid.length });
  }
  const opening = { copyId: Buffer.from(key.copyId, 'hex'), privateKeys: key.privateKeys };
  const manifest = await openManifest(newest.clear, opening);
  const parent = path.join(dataDir, 'tmp');
  makeFolders(parent, FOLDER_MODE);
  const folder = mkdtempSync(path.join(parent, 'copy-'));
  const prover = proverOnThreads();
  try {
    const objects = new Map(newest.clear.objects.map((entry) => [entry.name, entry]));
    const source = { store, key: opening, manifest, objects, prover, signal, takesVersions: true };
    const fetched = await fetchForRepair(source, dataDir, folder);
    const isOwn = signersOf(dataDir, key).some((one) => one.equals(newest.clear.signer));
    return { folder, commit: isOwn ? manifest.commit : undefined, ...fetched };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  } finally {
    await prover.close();
  }
}

/** An older state may have mail that was purged since, in segments whose own list of purges is damaged. */
function refuseRolledBack(
  { dataDir, store }: { readonly dataDir: string; readonly store: ObjectStore },
  { copyId }: LocalKey,
  manifests: FoundManifests,
): void {
  const state = openExistingState(dataDir);
  try {
    refuseOlder(store, manifests, copyMemory(state, copyId));
  } finally {
    state?.close();
  }
}

/** This archive's own key, and the one that began the copy. Later signers were taken from the copy when it was adopted. */
function signersOf(dataDir: string, { signers: [first] }: LocalKey): readonly Buffer[] {
  const file = path.join(dataDir, 'checkpoint.key');
  const own = existsSync(file) ? [rawPublicKey(readSigningKey(file))] : [];
  return first === undefined ? own : [first, ...own];
}
