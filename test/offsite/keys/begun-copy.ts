import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { folderStore } from '../../../src/copies/folder-store.ts';
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
import { uploadCopy } from '../../../src/copies/upload-copy.ts';
import { openState, type StateFile } from '../../../src/core/state.ts';
import { readSigningKey } from '../../../src/verify/checkpoint.ts';
import { Positions } from '../../archive/positions.ts';
import { writeBatches } from '../../archive/sample-log.ts';
import { prover, signal } from '../sample-copy.ts';

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
  readonly copy: () => Promise<void>;
}

export async function withCopy(
  writeOnly: boolean,
  act: (copy: Copy) => Promise<void>,
): Promise<void> {
  const work = mkdtempSync(path.join(tmpdir(), 'copy-kills-'));
  const [dir, target] = [path.join(work, 'archive'), path.join(work, 'target')];
  mkdirSync(target);
  const writer = await openLogWriter({ dir, now: () => 1_770_000_000_000 });
  const state = openState(dir);
  try {
    const known = new Positions();
    const receive = () => writeBatches(writer, known, 1, known.batches.length * 10 + 1);
    await receive();
    const store = folderStore(target);
    const identity = await generateIdentity();
    const recipient = await identityToRecipient(identity);
    const prepared = await prepareCopy(dir);
    const copyId = await createCopy({
      ...{ dataDir: dir, store, to: target, prepared, passphrase: undefined },
      ...{ age: [recipient], writeOnly, signal, now: () => 1 },
    });
    const file = keyFile(dir, copyId);
    const copy = async () => {
      await uploadCopy({
        ...{ dir, store, prover, signal, memory: copyMemory(state, copyId) },
        key: readLocalKey(file),
        signingKey: readSigningKey(prepared.signingKeyFile),
        ...{ seen: 0, refresh: false, keep: 1, now: Date.now },
      });
    };
    await copy();
    await act({
      ...{ dir, store, copyId, recipient, state, copy },
      publicKey: prepared.keys.publicKey,
      first: { type: 'recovery', recovery: prepared.recovery },
      age: { type: 'age', identities: [identity] },
      receive: async () => {
        await receive();
      },
    });
  } finally {
    await writer.close();
    state.close();
    rmSync(work, { recursive: true });
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
