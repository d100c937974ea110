import { copiesError } from '../../errors/copies.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { keyIdIn, keyIdOf } from '../../offsite/format/header.ts';
import { publicKeyOf } from '../../offsite/format/raw-keys.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { encodeSigner } from '../../offsite/format/signers.ts';
import { unlock, type Way } from '../../offsite/format/unlock.ts';
import {
  keyFile,
  LocalKey,
  type LocalKeyParts,
  readLocalKey,
  writeLocalKey,
} from '../../offsite/local-key.ts';
import { findManifests } from '../../offsite/manifests.ts';
import { rawPublicKey } from '../../offsite/signer.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { putObjects } from './new-recipients.ts';
import { withCopyLock } from './own-copy.ts';
import { readRecipients, readSigners } from './recipients.ts';

export interface AdoptOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly way: Way;
  /** Takes keys that may not be the newest: of a copy whose rotation was interrupted, and whose newer keys are lost. */
  readonly allowOlder: boolean;
  readonly signal: AbortSignal;
}

export interface AdoptedCopy {
  readonly copyId: string;
  readonly signer: Buffer;
  /** Ids of recipients with keys that this machine does not have. */
  readonly newer: readonly string[];
}

/**
 * Gives an archive the keys of a copy, and makes its own key sign for it: of an archive that came from the copy, or that
 * lost its keys. Whether the copy is one of this archive is checked when it is next written to.
 *
 * @throws offsite-no-copy, offsite-key-older, offsite-in-use, copy-key-refused, offsite-key-unwritable; what the store
 *   throws
 */
export async function adoptCopy(order: AdoptOrder): Promise<AdoptedCopy> {
  const { dataDir, store, way, signal } = order;
  const { recipients } = await readRecipients(store, signal);
  if (recipients.length === 0) throw copiesError('offsite-no-copy', { to: store.label });
  const secrets = await unlock(recipients, way, signal);
  const copyId = secrets.copyId.toString('hex');
  return withCopyLock(dataDir, { copyId }, store.label, async () => {
    const signers = await readSigners(store, secrets, signal);
    const newer = await refuseOlderKeys(order, secrets, signers);
    const signer = rawPublicKey(readSigningKey(await ownSigningKey(dataDir)));
    if (!signers.some((one) => one.equals(signer))) {
      await putObjects(store, [encodeSigner(secrets, signer)], signal);
      signers.push(signer);
    }
    const { privateKeys, nameKey } = secrets;
    const [newest = Buffer.alloc(0)] = privateKeys;
    const publicKey = publicKeyOf(newest);
    const file = keyFile(dataDir, copyId);
    const key = new LocalKey({
      ...{ copyId, to: store.label, publicKey, nameKey, privateKeys, signers },
      ...known(file, publicKey),
    });
    await writeLocalKey(file, key);
    return { copyId, signer, newer };
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

/** What the keys that were here remember, and the copy does not say. */
function known(file: string, publicKey: Buffer): Partial<LocalKeyParts> {
  let before: LocalKey;
  try {
    before = readLocalKey(file);
  } catch (error) {
    // There are none, or they are damaged: they are written again.
    if (hasCode(error, 'offsite-key-unreadable')) return {};
    throw error;
  }
  const { age, replaced, next } = before;
  return before.publicKey.equals(publicKey) ? { age, replaced, next } : { age };
}
