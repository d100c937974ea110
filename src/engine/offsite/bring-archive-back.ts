import path from 'node:path';
import { FOLDER_MODE } from '../../archive/format/layout.ts';
import { makeFoldersDurably } from '../../disk/make-folders.ts';
import { copiesError } from '../../errors/copies.ts';
import { errnoName, type MailkeepError } from '../../errors/mailkeep-error.ts';
import { usageError } from '../../errors/usage.ts';
import type { FoldProgress } from '../../indexer/fold-log.ts';
import type { IndexingProgress } from '../../indexer/indexer.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { type BroughtBack, bringBack } from '../../offsite/bring-back.ts';
import { openManifest } from '../../offsite/format/manifest.ts';
import { openSettings } from '../../offsite/format/settings.ts';
import { unlock } from '../../offsite/format/unlock.ts';
import { type FoundManifest, findManifests } from '../../offsite/manifests.ts';
import { proverOnThreads } from '../../verify/segment-threads.ts';
import { withLock } from '../archive/archive-folder.ts';
import { rebuild } from '../rebuild.ts';
import { type RestoredSettings, restoreSettings } from './carried-settings.ts';
import { type OpenedWith, refuseOtherSigner } from './first-signer.ts';
import { newestSettings } from './kept-objects.ts';
import { refuseNewerCopy } from './own-copy.ts';
import { readRecipients, readSigners } from './recipients.ts';

export interface BringBackOrder extends OpenedWith {
  readonly store: ObjectStore;
  /** Absolute. */
  readonly to: string;
  /** The commit to bring back; the newest where undefined. */
  readonly atCommit: number | undefined;
  /** A copy whose newest manifest is of an earlier commit was rolled back. */
  readonly atLeast: number | undefined;
  readonly signal: AbortSignal;
  readonly onSegments: (done: { readonly segments: number; readonly of: number }) => void;
  readonly onFold: (progress: FoldProgress) => void;
  readonly onIndex: (progress: IndexingProgress) => void;
}

export interface ArchiveBack extends BroughtBack {
  readonly copyId: string;
  /** Ed25519, 32 bytes: the key that began the copy. */
  readonly signer: Buffer;
  readonly number: number;
  readonly hash: string;
  /** When the copy was made, milliseconds since the epoch. */
  readonly copiedAt: number;
  readonly messages: number;
  /** What came back besides the archive; null where the copy carries nothing. */
  readonly settings: RestoredSettings | null;
  /** Until every segment was there; the catalog comes after. Milliseconds. */
  readonly fetchMs: number;
  /** Manifests and keys at the target that are not valid. */
  readonly invalid: readonly MailkeepError[];
}

/**
 * Makes an archive out of an off-site copy, on a machine that may have nothing else: its log, and a catalog of it.
 *
 * @throws offsite-not-empty, offsite-no-manifest, offsite-no-commit, offsite-rolled-back, offsite-signer-differs,
 *   copy-key-refused; what the store and `rebuild` throw
 */
export async function bringArchiveBack(order: BringBackOrder): Promise<ArchiveBack> {
  const { store, to, way, signal } = order;
  await refuseNewerCopy(store, signal);
  const { recipients, damaged } = await readRecipients(store, signal);
  if (recipients.length === 0) throw copiesError('offsite-no-copy', { to: store.label });
  const secrets = await unlock(recipients, way, signal);
  refuseOtherSigner(secrets, order, store.label);
  const copyKey = { copyId: secrets.copyId.toString('hex') };
  const signers = await readSigners(store, secrets, signal);
  const { found, invalid } = await chosenManifest(order, { ...copyKey, signers });
  const carried = await newestSettings({ store, key: { ...copyKey, signers }, signal });
  const { copyId, privateKeys } = secrets;
  const key = { copyId, privateKeys };
  const manifest = await openManifest(found.clear, key);
  try {
    makeFoldersDurably(to, FOLDER_MODE);
  } catch (error) {
    throw usageError('usage-save-failed', { file: to, reason: errnoName(error) });
  }
  return withLock(to, async () => {
    const prover = proverOnThreads(1);
    const started = performance.now();
    const objects = new Map(found.clear.objects.map((entry) => [entry.name, entry]));
    const brought = await bringBack({
      ...{ store, key, manifest, objects, to, prover, signal, takesVersions: true },
      progress: order.onSegments,
    }).finally(() => prover.close());
    const fetchMs = Math.round(performance.now() - started);
    const { messages } = await rebuild({
      dir: path.resolve(to),
      signal,
      onFold: order.onFold,
      onIndex: order.onIndex,
    });
    const text = carried && (await openSettings(carried.clear, key));
    const settings = text && (await restoreSettings(to, text));
    return {
      ...brought,
      settings: settings ?? null,
      copyId: copyId.toString('hex'),
      signer: secrets.signer,
      number: manifest.commit.number,
      hash: manifest.commit.hash,
      copiedAt: found.clear.time,
      messages,
      fetchMs,
      invalid: [...damaged, ...invalid],
    };
  });
}

async function chosenManifest(
  { store, atCommit, atLeast, signal }: BringBackOrder,
  trust: { readonly copyId: string; readonly signers: readonly Buffer[] },
): Promise<{ readonly found: FoundManifest; readonly invalid: readonly MailkeepError[] }> {
  const to = store.label;
  const { newest, listed, invalid } = await findManifests(store, trust, signal, atCommit);
  if (newest === undefined && atCommit !== undefined) {
    const numbers = [...new Set(listed.map(({ commit }) => commit))];
    const nearest = numbers
      .sort((a, b) => Math.abs(a - atCommit) - Math.abs(b - atCommit))
      .slice(0, 5)
      .map(String);
    throw copiesError('offsite-no-commit', { to, number: atCommit, nearest });
  }
  if (newest === undefined)
    throw copiesError('offsite-no-manifest', { to, invalid: invalid.length });
  if (atLeast !== undefined && newest.clear.commit < atLeast) {
    throw copiesError('offsite-rolled-back', { to, number: newest.clear.commit, seen: atLeast });
  }
  return { found: newest, invalid: invalid.map(({ error }) => error) };
}
