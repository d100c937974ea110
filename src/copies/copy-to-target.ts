import { rmSync } from 'node:fs';
import { readCatalogHead } from '../catalog/implied.ts';
import type { PortableConfig } from '../core/config-shown.ts';
import { openExistingState } from '../core/state.ts';
import { threadedProver } from '../verify/check-segment.ts';
import { ensureSigningKey, readSigningKey } from '../verify/checkpoint.ts';
import { damagedObjects } from '../verify/copy-facts.ts';
import { copiesError } from './errors.ts';
import { type CopySecrets, newCopyKeys, newRecoveryKey } from './format/keys.ts';
import { COPY_NAME } from './format/manifest.ts';
import {
  newDescription,
  readLocalManifest,
  repairKeptObjects,
  settingsText,
  storeLocalManifest,
  storeSettings,
} from './kept-objects.ts';
import { keptObject, keyFile, LocalKey, type Locks, rawPublicKey } from './local-key.ts';
import { copyMemory } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';
import { lockKeys, withOwnKey } from './own-copy.ts';
import { putObjects, refuseTooManyRecipients, removeUnusedObjects, wrapFor } from './recipients.ts';
import { type CopyProgress, type UploadOptions, uploadCopy } from './upload-copy.ts';

interface TargetOrder
  extends Pick<UploadOptions, 'store' | 'refresh' | 'keep' | 'lockDays' | 'signal' | 'now'> {
  readonly dataDir: string;
  readonly config?: PortableConfig | undefined;
  readonly onProgress: (progress: CopyProgress) => void;
}

/**
 * Updates the off-site copy of an archive, even while a sync is running.
 * @throws offsite-no-locks; errors from `withOwnKey`, `lockKeys` and `uploadCopy`
 */
export async function copyToTarget(order: TargetOrder) {
  const { dataDir, config, store, signal, onProgress, lockDays, now, ...rest } = order;
  if (lockDays !== undefined && !(await store.abilities(signal)).locks) {
    throw copiesError('offsite-no-locks', { to: store.label });
  }
  return withOwnKey(order, async (own, file) => {
    const state = openExistingState(dataDir);
    const prover = threadedProver();
    const memory = copyMemory(state, own.copyId);
    try {
      const signingKey = readSigningKey(await ensureSigningKey(dataDir));
      const locking = { store, memory, lockDays, signal, now };
      const mending = { ...locking, file, signingKey };
      const { key: mended, findings } = await repairKeptObjects({ ...mending, key: own });
      const settings = settingsText(state, config);
      const key =
        settings === undefined
          ? mended
          : await storeSettings({ ...mending, key: mended }, settings);
      // Locks the keys first, because all other objects are useless without them.
      const keys = lockDays === undefined ? null : await lockKeys({ ...locking, key, lockDays });
      const copied = await uploadCopy({
        ...rest,
        dir: dataDir,
        store,
        key,
        signal,
        prover,
        signingKey,
        ...{ memory, lockDays, now },
        damaged: state === undefined ? undefined : damagedObjects(state, store.label),
        manifest: readLocalManifest(dataDir, key),
        seen: readCatalogHead(dataDir)?.number ?? 0,
        progress: onProgress,
      });
      await storeLocalManifest(dataDir, { store, key, signal }, copied.manifest);
      return {
        ...copied,
        /** Damaged or missing objects that were found at the target while copying. */
        findings: [...findings, ...copied.mended.map((one) => ({ ...one, repaired: true }))],
        locks: sumLocks(keys, copied.locks),
      };
    } finally {
      await prover.close();
      state?.close();
    }
  });
}

function sumLocks(one: Locks | null, other: Locks | null): Locks | null {
  if (one === null || other === null) return other;
  return { extended: one.extended + other.extended, until: Math.min(one.until, other.until) };
}

/**
 * Creates the keys of a new copy, including the Ed25519 key that signs its manifests. The recovery key is not stored,
 * so it must be handed to the owner.
 * @throws usage-save-failed, checkpoint-key
 */
export async function prepareCopy(dataDir: string) {
  const signingKeyFile = await ensureSigningKey(dataDir);
  const signer = rawPublicKey(readSigningKey(signingKeyFile));
  return { keys: newCopyKeys(), recovery: newRecoveryKey(), signer, signingKeyFile };
}

interface NewCopy {
  /** Hands the recovery key to its owner. Called once its object is stored, before the copy becomes visible. */
  readonly handOver?: () => Promise<void>;
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly to: string;
  readonly prepared: Awaited<ReturnType<typeof prepareCopy>>;
  readonly passphrase: string | undefined;
  readonly age: readonly string[];
  /** True to keep private keys off this machine. */
  readonly writeOnly: boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** @throws offsite-exists if the target already has a copy */
export async function refuseExistingCopy(store: ObjectStore, signal: AbortSignal): Promise<void> {
  const there = await store.head(COPY_NAME, signal);
  if (there !== undefined) throw copiesError('offsite-exists', { to: store.label });
}

/**
 * Creates a copy and returns its ID. Stores the recipients first, and the object that makes the copy visible last. On
 * failure, removes its objects. A killed run leaves unused objects behind, and can be repeated.
 * @throws offsite-exists, offsite-too-many-recipients, offsite-key-unwritable, copy-age-recipient; store errors
 */
export async function createCopy(copy: NewCopy): Promise<string> {
  const { store, signal, prepared, dataDir, to } = copy;
  const { keys, signer, signingKeyFile } = prepared;
  await refuseExistingCopy(store, signal);
  const secrets: CopySecrets = {
    copyId: keys.copyId,
    privateKeys: [keys.privateKey],
    nameKey: keys.nameKey,
    signer,
  };
  const { recovery } = prepared;
  const additions = { recovery, passphrase: copy.passphrase, age: copy.age };
  refuseTooManyRecipients([], additions, to);
  const { objects, age } = await wrapFor(secrets, additions, copy.now());
  const copyId = keys.copyId.toString('hex');
  const file = keyFile(dataDir, copyId);
  const signingKey = readSigningKey(signingKeyFile);
  const key = new LocalKey({
    copyId,
    to,
    publicKey: keys.publicKey,
    nameKey: keys.nameKey,
    privateKeys: copy.writeOnly ? [] : [keys.privateKey],
    signers: [signer],
    age,
  });
  const description = newDescription(key, signingKey);
  try {
    await putObjects(store, objects, signal);
    await key.write(file);
    await copy.handOver?.();
    await putObjects(store, [description], signal);
  } catch (error) {
    rmSync(file, { force: true });
    await removeUnusedObjects(store, objects);
    throw error;
  }
  await key.with({ kept: [description, ...objects].map(keptObject) }).write(file);
  return copyId;
}
