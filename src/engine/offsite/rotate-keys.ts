import { copiesError } from '../../errors/copies.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { FOLDERS } from '../../offsite/format/names.ts';
import type { KeyObject } from '../../offsite/format/recipients.ts';
import { type CopySecrets, MOST_KEYS } from '../../offsite/format/secrets.ts';
import { encodeSigner } from '../../offsite/format/signers.ts';
import { keptObject, type LocalKey, writeLocalKey } from '../../offsite/local-key.ts';
import { wholeObject } from '../../offsite/manifests.ts';
import { copyMemory } from '../../offsite/memory.ts';
import { type NextKey, newNextKey, nextPrivateKey } from '../../offsite/next-key.ts';
import { openExistingState } from '../../state/state-file.ts';
import { refuseDamaged } from './kept-objects.ts';
import { idOf, putObjects, refuseTooMany, wrapFor } from './new-recipients.ts';
import { fittingSecrets, type KeysOrder, withOwnKey } from './open-keys.ts';
import { ownKeyOf } from './own-copy.ts';
import { findSigners, opensOf, readRecipients } from './recipients.ts';

export interface RotateOrder extends KeysOrder {
  /** As `openOwnCopy` returned them. */
  readonly secrets: CopySecrets;
  /** Who opens what is copied from now on, besides the age recipients that this machine knows. */
  readonly additions: { readonly recovery: Buffer; readonly passphrase?: string | undefined };
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export interface RotatedKeys {
  /** Ids of the recipients of the new key, and of those that they replaced. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Ids of the recipients that open only what was copied before. */
  readonly old: readonly string[];
}

/**
 * Returns whether a rotation switched to its new key on this machine, and was interrupted while it removed the recipients
 * that it had replaced.
 *
 * @throws what `ownKeyOf` throws
 */
export async function isSwitched({ dataDir, store, signal }: KeysOrder): Promise<boolean> {
  return (await ownKeyOf(dataDir, store, signal)).replaced.length > 0;
}

/**
 * Refuses to begin a rotation that no reader would accept.
 *
 * @throws offsite-too-many-rotations
 */
export function refuseTooManyKeys({ privateKeys }: CopySecrets, to: string): void {
  if (privateKeys.length < MOST_KEYS) return;
  throw copiesError('offsite-too-many-rotations', { to, most: MOST_KEYS });
}

/**
 * Makes a new key pair for what is copied from now on. Its recipients are the new recovery key and passphrase, and the age
 * recipients that were added on this machine: none is read from the target. Whenever it is interrupted, the copy can be
 * written and opened with the keys of before or with the new ones, and running it again completes it.
 *
 * @throws offsite-too-many-rotations, offsite-too-many-recipients, offsite-key-unfit, offsite-not-kept; what `withOwnKey`
 *   throws
 */
export async function rotateKeys(order: RotateOrder): Promise<RotatedKeys> {
  const { dataDir, store, signal } = order;
  return withOwnKey(order, async (before, file) => {
    const secrets = fittingSecrets(before, order.secrets, store.label);
    refuseTooManyKeys(secrets, store.label);
    await refuseDamaged({ store, key: before, signal });
    const { key, next, privateKey } = await noted(before, file, secrets);
    forgetUploaded(dataDir, key.copyId);
    const rotated = { ...secrets, privateKeys: [privateKey, ...secrets.privateKeys] };
    const signers = await renewSigners(order, key, rotated);
    const replaced = [...key.age.map(({ id }) => id), ...key.replaced, ...next.made];
    const { objects, age } = await wrapAgain(order, key, rotated, replaced);
    const added = objects.map(idOf);
    const made = [...next.made, ...added];
    await writeLocalKey(file, key.with({ next: { ...next, made } }));
    await putObjects(store, objects, signal);
    await readBack(store, objects, signal);
    const switched = key.with({
      publicKey: next.publicKey,
      privateKeys: key.privateKeys.length === 0 ? [] : rotated.privateKeys,
      ...{ age, replaced, next: undefined },
      kept: key.kept && [
        ...key.kept.filter(({ name }) => !replaced.some((id) => name === `${FOLDERS.keys}${id}`)),
        ...[...signers, ...objects].map(keptObject),
      ],
    });
    await writeLocalKey(file, switched);
    return { added, ...(await removeReplaced(order, switched, file)) };
  });
}

/**
 * Completes a rotation that had switched to its new key.
 *
 * @throws what `withOwnKey` throws
 */
export async function finishRotation(order: KeysOrder): Promise<RotatedKeys> {
  return withOwnKey(order, async (key, file) => ({
    added: [],
    ...(await removeReplaced(order, key, file)),
  }));
}

/** Returns the pair to switch to, once it is noted on this machine. @throws offsite-key-unreadable */
async function noted(
  key: LocalKey,
  file: string,
  { privateKeys }: CopySecrets,
): Promise<{ readonly key: LocalKey; readonly next: NextKey; readonly privateKey: Buffer }> {
  const [newest = Buffer.alloc(0)] = privateKeys;
  const next = key.next ?? newNextKey(key.copyId, newest);
  const privateKey = nextPrivateKey(next, key.copyId, newest);
  if (privateKey === undefined) {
    throw copiesError('offsite-key-unreadable', { file, reason: 'its content' });
  }
  const withNext = key.with({ next });
  if (key.next === undefined) await writeLocalKey(file, withNext);
  return { key: withNext, next, privateKey };
}

/** What was uploaded and is not yet listed was encrypted for the key that is replaced: it is uploaded again. */
function forgetUploaded(dataDir: string, copyId: string): void {
  const state = openExistingState(dataDir);
  try {
    copyMemory(state, copyId).forgetUploaded();
  } finally {
    state?.close();
  }
}

/** Lets the later signers that this machine believes sign after the rotation too: whoever has the old key may have added others. */
async function renewSigners(
  { store, signal }: KeysOrder,
  { signers: [, ...later] }: LocalKey,
  rotated: CopySecrets,
): Promise<readonly KeyObject[]> {
  const there = (await findSigners(store, rotated, signal)).signers;
  const missing = later.filter((signer) => !there.some((one) => one.equals(signer)));
  const objects = missing.map((signer) => encodeSigner(rotated, signer));
  await putObjects(store, objects, signal);
  await readBack(store, objects, signal);
  return objects;
}

/** Wraps the new keys, for those age recipients that are still there: others were removed elsewhere. */
async function wrapAgain(
  { store, signal, additions, now }: RotateOrder,
  key: LocalKey,
  rotated: CopySecrets,
  replaced: readonly string[],
) {
  const { recipients } = await readRecipients(store, signal);
  const known = key.age.filter(({ id }) => recipients.some((one) => one.id === id));
  const remaining = recipients.filter(({ id }) => !replaced.includes(id));
  const names = known.map(({ recipient }) => recipient);
  refuseTooMany(remaining, { ...additions, age: names }, store.label);
  const made = [await wrapFor(rotated, additions, now())];
  for (const { recipient, label } of known) {
    made.push(await wrapFor(rotated, { age: [recipient], label }, now()));
  }
  return {
    objects: made.flatMap(({ objects }) => objects),
    age: made.flatMap(({ age }) => age),
  };
}

/** @throws offsite-not-kept where something else is there: nobody may be able to open what comes after */
async function readBack(
  store: ObjectStore,
  objects: readonly KeyObject[],
  signal: AbortSignal,
): Promise<void> {
  for (const { name, bytes } of objects) {
    const found = await wholeObject(store, name, bytes.length, signal);
    if (!found.equals(bytes)) throw copiesError('offsite-not-kept', { to: store.label, name });
  }
}

async function removeReplaced(
  { store, signal }: KeysOrder,
  key: LocalKey,
  file: string,
): Promise<Pick<RotatedKeys, 'removed' | 'old'>> {
  const removed: string[] = [];
  for (const id of key.replaced) {
    try {
      await store.delete(`${FOLDERS.keys}${id}`, signal);
      removed.push(id);
    } catch (error) {
      // It opens nothing new, and is listed among those that open only what is old.
      if (!hasCode(error, 'object-locked')) throw error;
    }
  }
  if (key.replaced.length > 0) await writeLocalKey(file, key.with({ replaced: [] }));
  const { recipients } = await readRecipients(store, signal);
  const old = recipients.filter((one) => opensOf(one, key) === 'old').map(({ id }) => id);
  return { removed, old };
}
