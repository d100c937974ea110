import { generateIdentity, identityToRecipient } from 'age-encryption';
import { newRecoveryKey, type UnlockMethod, unlock } from '../../../src/copies/format/keys.ts';
import { openManifest } from '../../../src/copies/format/manifest.ts';
import { keyIdIn } from '../../../src/copies/format/sealed-object.ts';
import {
  keyFile,
  openOwnCopy,
  readLocalKey,
  readRecipients,
  readSigners,
} from '../../../src/copies/local-key.ts';
import { copyMemory, findManifests } from '../../../src/copies/manifests.ts';
import type { ObjectStore } from '../../../src/copies/object-store.ts';
import {
  createCopy,
  finishRotation,
  isRotationUnfinished,
  prepareCopy,
  rotateKeys,
} from '../../../src/copies/recipients.ts';
import type { UploadOptions } from '../../../src/copies/upload-copy.ts';
import type { StateFile } from '../../../src/core/state.ts';
import { readSigningKey } from '../../../src/verify/checkpoint.ts';
import { writeBatches } from '../../archive/sample-log.ts';
import { sampleCopy, signal } from '../sample-copy.ts';

/** A copy in a folder with its first recipients, of an archive that gets more mail. */
export interface Copy {
  readonly dir: string;
  readonly store: ObjectStore;
  readonly copyId: string;
  /** That the copy began with. */
  readonly publicKey: Buffer;
  readonly first: UnlockMethod;
  readonly age: UnlockMethod;
  readonly recipient: string;
  readonly state: StateFile;
  readonly receive: () => Promise<void>;
  readonly copy: (options?: Partial<UploadOptions>) => Promise<void>;
}

const identity = await generateIdentity();
const recipient = await identityToRecipient(identity);

export async function withCopy(
  writeOnly: boolean,
  act: (copy: Copy) => Promise<void>,
): Promise<void> {
  const sample = await sampleCopy();
  const { dir, target, store, state, known, writer } = sample;
  try {
    const receive = async () => {
      await writeBatches(writer, known, 1, known.batches.length * 10 + 1);
    };
    await receive();
    const prepared = await prepareCopy(dir);
    const copyId = await createCopy({
      ...{ dataDir: dir, store, to: target, prepared, passphrase: undefined },
      ...{ age: [recipient], writeOnly, signal, now: () => 1 },
    });
    const copy = async (options: Partial<UploadOptions> = {}) => {
      await sample.copy({
        key: readLocalKey(keyFile(dir, copyId)),
        signingKey: readSigningKey(prepared.signingKeyFile),
        memory: copyMemory(state, copyId),
        ...options,
      });
    };
    await copy();
    await act({
      ...{ dir, store, copyId, recipient, state, copy, receive },
      publicKey: prepared.keys.publicKey,
      first: { type: 'recovery', recovery: prepared.recovery },
      age: { type: 'age', identities: [identity] },
    });
  } finally {
    await sample.close();
  }
}

/** Whether a key opens the newest manifest, as somebody who has nothing else. */
export async function opens({ store }: Copy, way: UnlockMethod | undefined): Promise<boolean> {
  if (way === undefined) return false;
  const { recipients } = await readRecipients(store, signal);
  try {
    const secrets = await unlock(recipients, way, signal);
    const { signers } = await readSigners(store, secrets, signal);
    const copyId = secrets.copyId.toString('hex');
    const { newest } = await findManifests(store, { copyId, signers }, signal);
    if (newest === undefined) return false;
    await openManifest(newest.clear, secrets);
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'copy-key-refused' || code === 'copy-key-unknown') return false;
    throw error;
  }
}

/** Which key the newest manifest is encrypted for. */
export async function keyOfNewest({ store, dir, copyId }: Copy): Promise<string> {
  const { newest } = await findManifests(store, readLocalKey(keyFile(dir, copyId)), signal);
  return newest === undefined ? '' : keyIdIn(newest.clear.sealed);
}

export const ownKey = ({ dir, copyId }: Copy) => readLocalKey(keyFile(dir, copyId));

/** One run of `copy key rotate`; `hand` gets the recovery key that its user has from then on. */
export async function rotate(
  copy: Copy,
  store: ObjectStore,
  way: UnlockMethod,
  hand: (way: UnlockMethod) => void,
): Promise<void> {
  const order = { dataDir: copy.dir, store, signal };
  if (await isRotationUnfinished(order)) {
    await finishRotation(order);
    return;
  }
  const secrets = await openOwnCopy(order, async () => way);
  const recovery = newRecoveryKey();
  hand({ type: 'recovery', recovery });
  await rotateKeys({ ...order, secrets, additions: { recovery }, now: () => 2 });
}

/** The same without an interruption. */
export async function rotated(copy: Copy, way: UnlockMethod): Promise<UnlockMethod> {
  let handed: UnlockMethod | undefined;
  await rotate(copy, copy.store, way, (newest) => {
    handed = newest;
  });
  if (handed === undefined) throw new Error('it was complete');
  return handed;
}
