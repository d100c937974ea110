import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import type { ChainState } from '../../archive/read/segment-batches.ts';
import { makeFolders } from '../../disk/make-folders.ts';
import { copiesError } from '../../errors/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { type FetchedForRepair, fetchForRepair } from '../../offsite/for-repair.ts';
import { openManifest } from '../../offsite/format/manifest.ts';
import { findManifests } from '../../offsite/manifests.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { ownKeyOf } from './own-copy.ts';

export interface SegmentsForRepair extends FetchedForRepair {
  /** A copy of the archive with gaps. */
  readonly folder: string;
  /** The commit that the signed manifest leads to. */
  readonly commit: ChainState;
}

/**
 * Fetches from an off-site copy what a repair of the archive may need, into a new folder below the archive's `tmp`, which
 * the caller removes.
 *
 * @throws offsite-write-only, offsite-no-manifest; what `ownKeyOf` and the store throw
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
  const { newest, invalid } = await findManifests(store, key, signal);
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
    return { folder, commit: manifest.commit, ...fetched };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  } finally {
    await prover.close();
  }
}
