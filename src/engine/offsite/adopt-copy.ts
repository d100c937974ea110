import { copiesError } from '../../errors/copies.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { keyIdIn, keyIdOf } from '../../offsite/format/header.ts';
import { publicKeyOf } from '../../offsite/format/raw-keys.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { encodeSigner } from '../../offsite/format/signers.ts';
import { unlock } from '../../offsite/format/unlock.ts';
import {
  keyFile,
  LocalKey,
  type LocalKeyParts,
  readLocalKey,
  writeLocalKey,
} from '../../offsite/local-key.ts';
import { findManifests } from '../../offsite/manifests.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { rawPublicKey } from '../../offsite/signer.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { type OpenedWith, refuseUnprovenSigner } from './first-signer.ts';
import { type MendedFinding, mendKept } from './kept-objects.ts';
import { putObjects } from './new-recipients.ts';
import { refuseNewerCopy, withCopyLock } from './own-copy.ts';
import { readRecipients, readSigners } from './recipients.ts';

export interface AdoptOrder extends OpenedWith {
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** Takes keys that may not be the newest: of a copy whose rotation was interrupted, and whose newer keys are lost. */
  readonly allowOlder: boolean;
  readonly signal: AbortSignal;
}

export interface AdoptedCopy {
  readonly copyId: string;
  readonly signer: Buffer;
  /** Ids of recipients with keys that this machine does not have. */
  readonly newer: readonly string[];
  /** What was damaged or missing at the target. */
  readonly findings: readonly MendedFinding[];
}

/**
 * Gives an archive the keys of a copy, and makes its own key sign for it: of an archive that came from the copy, or that
 * lost its keys. Whether the copy is one of this archive is checked when it is next written to.
 *
 * @throws offsite-no-copy, offsite-signer-unnamed, offsite-signer-differs, offsite-key-unfit, offsite-key-older,
 *   offsite-in-use, copy-key-refused, offsite-key-unwritable; what the store throws
 */
export async function adoptCopy(order: AdoptOrder): Promise<AdoptedCopy> {
  const { dataDir, store, way, signal } = order;
  await refuseNewerCopy(store, signal);
  const { recipients } = await readRecipients(store, signal);
  if (recipients.length === 0) throw copiesError('offsite-no-copy', { to: store.label });
  const secrets = await unlock(recipients, way, signal);
  refuseUnprovenSigner(secrets, order, store.label);
  const copyId = secrets.copyId.toString('hex');
  return withCopyLock(dataDir, { copyId }, store.label, async () => {
    const file = keyFile(dataDir, copyId);
    const before = keysHere(file);
    refuseOtherKeys(before, secrets, store.label);
    const signers = await readSigners(store, secrets, signal);
    const newer = await refuseOlderKeys(order, secrets, signers);
    const signingKey = readSigningKey(await ownSigningKey(dataDir));
    const signer = rawPublicKey(signingKey);
    if (!signers.some((one) => one.equals(signer))) {
      await putObjects(store, [encodeSigner(secrets, signer)], signal);
      signers.push(signer);
    }
    const { privateKeys, nameKey } = secrets;
    const [newest = Buffer.alloc(0)] = privateKeys;
    const publicKey = publicKeyOf(newest);
    const key = new LocalKey({
      ...{ copyId, to: store.label, publicKey, nameKey, privateKeys, signers },
      ...known(before, publicKey),
    });
    await writeLocalKey(file, key);
    // What is damaged is to be known before this machine is the only one that can tell.
    const memory = copyMemory(undefined, copyId);
    const mending = { store, key, file, memory, signal, now: Date.now };
    const { findings } = await mendKept({ ...mending, signingKey });
    return { copyId, signer, newer, findings };
  });
}

/**
 * Refuses keys that a rotation replaced: what is copied with them could be read by those whom the rotation left out. The
 * newest manifest is signed, so what it is encrypted for is certain. What recipients say of themselves is not.
 *
 * @returns the ids of recipients that say that they have other keys
 */
async function refuseOlderKeys(
  { store, signal, allowOlder }: AdoptOrder,
  { copyId, privateKeys }: CopySecrets,
  signers: readonly Buffer[],
): Promise<readonly string[]> {
  const to = store.label;
  const ours = new Set(privateKeys.map((one) => keyIdOf(publicKeyOf(one)).toString('hex')));
  const trust = { copyId: copyId.toString('hex'), signers };
  const { newest } = await findManifests(store, trust, signal);
  if (newest !== undefined && !ours.has(keyIdIn(newest.clear.sealed))) {
    throw copiesError('offsite-key-older', { to, ids: [] });
  }
  // Read under the lock: a rotation may have ended since the keys were opened.
  const { recipients } = await readRecipients(store, signal);
  const ids = recipients
    .filter((one) => one.copyId.equals(copyId) && one.key !== null && !ours.has(one.key))
    .map(({ id }) => id);
  if (ids.length > 0 && !allowOlder) throw copiesError('offsite-key-older', { to, ids });
  return ids;
}

/** The keys that this machine has of the copy; undefined where there are none, or they are damaged: they are written again. */
function keysHere(file: string): LocalKey | undefined {
  try {
    return readLocalKey(file);
  } catch (error) {
    if (hasCode(error, 'offsite-key-unreadable')) return undefined;
    throw error;
  }
}

/** A copy keeps its first signer and its name key for life: what has others only uses its id. */
function refuseOtherKeys(before: LocalKey | undefined, secrets: CopySecrets, to: string): void {
  if (before === undefined) return;
  const isSame =
    before.nameKey.equals(secrets.nameKey) && before.signers[0]?.equals(secrets.signer) === true;
  if (!isSame) throw copiesError('offsite-key-unfit', { to });
}

/** What the keys that were here remember, and the copy does not say. */
function known(before: LocalKey | undefined, publicKey: Buffer): Partial<LocalKeyParts> {
  if (before === undefined) return {};
  const { age, replaced, next } = before;
  return before.publicKey.equals(publicKey) ? { age, replaced, next } : { age };
}
