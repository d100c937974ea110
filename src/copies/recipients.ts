import { rmSync } from 'node:fs';
import { hasCode } from '../core/errors.ts';
import { openExistingState } from '../core/state.ts';
import { ensureSigningKey, readSigningKey } from '../verify/checkpoint.ts';
import { copiesError } from './errors.ts';
import type { RecipientType } from './format/errors.ts';
import {
  type CopySecrets,
  encodeSigner,
  type KeyObject,
  MAX_KEYS,
  MAX_TRIED,
  newCopyKeys,
  newRecoveryKey,
  type UnlockMethod,
  unlock,
  type WrappedKeys,
  wrapForAge,
  wrapForPassphrase,
  wrapForRecovery,
} from './format/keys.ts';
import { bytesAsStream, COPY_NAME, FOLDERS, idOfName } from './format/manifest.ts';
import { keyIdIn, keyIdOf, publicKeyOf } from './format/sealed-object.ts';
import {
  checkKeptObjects,
  newDescription,
  refuseDamagedRecipients,
  repairKeptObjects,
} from './kept-objects.ts';
import {
  currentSecrets,
  findLocalKey,
  type KeyRequest,
  type KnownRecipient,
  keptObject,
  keyFile,
  LocalKey,
  type LocalKeyParts,
  listOwnNames,
  localSecrets,
  newNextKey,
  nextPrivateKey,
  rawPublicKey,
  readCopyId,
  readLocalKey,
  readRecipients,
  readSigners,
  recipientAccess,
  withCopyLock,
  withOwnKey,
} from './local-key.ts';
import { copyMemory, findManifests, readSmallObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';

interface Additions {
  readonly recovery?: Buffer | undefined;
  readonly passphrase?: string | undefined;
  /** `age1…` */
  readonly age?: readonly string[];
  readonly label?: string | undefined;
}

/** Wraps a copy's keys. Returns the objects, and the age recipients among them. @throws copy-age-recipient */
async function wrapFor(
  secrets: CopySecrets,
  { recovery, passphrase, age = [], label }: Additions,
  created: number,
) {
  const note = label === undefined ? { created } : { created, label };
  const objects: KeyObject[] = [];
  const known: KnownRecipient[] = [];
  if (recovery !== undefined) objects.push(await wrapForRecovery(secrets, recovery, note));
  if (passphrase !== undefined) objects.push(await wrapForPassphrase(secrets, passphrase, note));
  for (const recipient of age) {
    const object = await wrapForAge(secrets, recipient, note);
    objects.push(object);
    known.push({ id: idOf(object), recipient, ...(label === undefined ? {} : { label }) });
  }
  return { objects, age: known };
}

/** Refuses more recipients of a type than readers would try. @throws offsite-too-many-recipients */
function refuseTooManyRecipients(
  existing: readonly Pick<WrappedKeys, 'type'>[],
  { recovery, passphrase, age = [] }: Additions,
  to: string,
): void {
  const additions: readonly (readonly [RecipientType, number])[] = [
    ['recovery', recovery === undefined ? 0 : 1],
    ['passphrase', passphrase === undefined ? 0 : 1],
    ['age', age.length],
  ];
  for (const [type, more] of additions) {
    const found = existing.filter((one) => one.type === type).length + more;
    if (more === 0 || found <= MAX_TRIED) continue;
    throw copiesError('offsite-too-many-recipients', { to, type, most: MAX_TRIED });
  }
}

async function putObjects(
  store: ObjectStore,
  objects: readonly KeyObject[],
  signal: AbortSignal,
): Promise<void> {
  for (const { name, bytes } of objects) {
    await store.put(name, bytes.length, bytesAsStream(bytes), { signal });
  }
}

const REMOVING_MS = 10_000;

/** Removes unused objects, even after an interruption. Leaves them if the store is unreachable. */
async function removeUnusedObjects(
  store: ObjectStore,
  objects: readonly KeyObject[],
): Promise<void> {
  const signal = AbortSignal.timeout(REMOVING_MS);
  for (const { name } of objects) await store.delete(name, signal).catch(() => {});
}

function idOf({ name }: Pick<KeyObject, 'name'>): string {
  return idOfName('keys', name) ?? '';
}

/**
 * Lists a copy's recipients as they describe themselves, its trusted signers, the errors for invalid objects, and
 * whether a rotation was interrupted on this machine.
 * @throws errors from `findLocalKey` and the store
 */
export async function listKeys(request: KeyRequest) {
  const { store, signal } = request;
  const key = await findLocalKey(request);
  const { recipients, damaged: unreadable } = await readRecipients(store, signal);
  const differing = (await checkKeptObjects({ store, key, signal })).map(({ error }) => error);
  const names = new Set(differing.map(({ facts }) => facts.name));
  const damaged = [...differing, ...unreadable.filter(({ facts }) => !names.has(facts.name))];
  const entries = recipients
    .map((keys) => ({ keys, opens: recipientAccess(keys, key) }))
    .sort((a, b) => a.keys.created - b.keys.created);
  const isRotating = key.next !== undefined || key.replaced.length > 0;
  const secrets = localSecrets(key);
  if (secrets === undefined) {
    return { recipients: entries, signers: key.signers, damaged, isRotating };
  }
  const found = await readSigners(store, secrets, signal);
  const invalid = found.damaged.filter(({ facts }) => facts.reason !== 'older-key');
  return {
    ...{ recipients: entries, signers: found.signers, isRotating },
    damaged: [...damaged, ...invalid.filter(({ facts }) => !names.has(facts.name))],
  };
}

/**
 * Adds recipients to a copy and returns their IDs.
 * @throws copy-age-recipient, offsite-too-many-recipients; offsite-key-unfit if the keys have been rotated since;
 * errors from `withOwnKey`
 */
export async function addRecipients(
  order: KeyRequest & {
    /** From `openOwnCopy`. */
    readonly secrets: CopySecrets;
    readonly additions: Additions;
    /** Milliseconds since the epoch. */
    readonly now: () => number;
  },
): Promise<readonly string[]> {
  const { store, signal } = order;
  return withOwnKey(order, async (key, file) => {
    const secrets = currentSecrets(key, order.secrets, store.label);
    const { recipients } = await readRecipients(store, signal);
    refuseTooManyRecipients(recipients, order.additions, store.label);
    await refuseDamagedRecipients({ store, key, signal });
    const { objects, age } = await wrapFor(secrets, order.additions, order.now());
    try {
      await putObjects(store, objects, signal);
    } catch (error) {
      await removeUnusedObjects(store, objects);
      throw error;
    }
    const kept = key.kept && [...key.kept, ...objects.map(keptObject)];
    await key.with({ age: [...key.age, ...age], kept }).write(file);
    return objects.map(idOf);
  });
}

/**
 * Removes recipients of a copy and returns their IDs. A former recipient may have kept the keys.
 * @param order with prefixes of the IDs
 * @throws offsite-no-recipient, offsite-last-recipient, offsite-mend-first, object-locked; errors from `withOwnKey`
 */
export async function removeRecipients(
  order: KeyRequest & { readonly ids: readonly string[] },
): Promise<readonly string[]> {
  const { store, signal } = order;
  return withOwnKey(order, async (key, file) => {
    const ids: string[] = [];
    for await (const { name } of listOwnNames(store, 'keys', signal)) {
      ids.push(idOfName('keys', name) ?? '');
    }
    const picks = [...new Set(order.ids.map((id) => oneOf(ids, id, store.label)))];
    const { recipients } = await readRecipients(store, signal);
    const isLeft = recipients.some(
      (one) => recipientAccess(one, key) === 'new' && !picks.includes(one.id),
    );
    if (!isLeft) throw copiesError('offsite-last-recipient', { to: store.label });
    const names = picks.map((id) => `${FOLDERS.keys}${id}`);
    await refuseDamagedRecipients({ store, key, signal }, new Set(names));
    // Otherwise, after an interruption, a copy would store them again.
    const age = key.age.filter(({ id }) => !picks.includes(id));
    const kept = key.kept?.filter(({ name }) => !names.includes(name));
    await key.with({ age, kept }).write(file);
    for (const name of names) await store.delete(name, signal);
    return picks;
  });
}

function oneOf(ids: readonly string[], prefix: string, to: string): string {
  const matches = ids.filter((id) => id.startsWith(prefix));
  const [id, ...others] = prefix === '' ? [] : matches;
  if (id === undefined || others.length > 0) {
    throw copiesError('offsite-no-recipient', { to, id: prefix, found: matches.length });
  }
  return id;
}

export interface OpenedWith {
  readonly way: UnlockMethod;
  /** The Ed25519 key that `copy init` printed; undefined if the user gave none. */
  readonly signer: Buffer | undefined;
}

/** Refuses a copy whose creator's key differs from the one that the user gave. @throws offsite-signer-differs */
export function refuseOtherSigner(
  secrets: CopySecrets,
  { signer }: Pick<OpenedWith, 'signer'>,
  to: string,
): void {
  if (signer === undefined || signer.equals(secrets.signer)) return;
  const [found, wanted] = [secrets.signer.toString('base64'), signer.toString('base64')];
  throw copiesError('offsite-signer-differs', { to, found, wanted });
}

/**
 * Like `refuseOtherSigner`, but also refuses keys of unproven origin. Anyone who knows an age recipient can wrap their
 * own keys for it, and could then read everything encrypted with them.
 * @throws offsite-signer-unnamed, offsite-signer-differs
 */
function refuseUnprovenSigner(secrets: CopySecrets, opened: OpenedWith, to: string): void {
  if (opened.way.type === 'age' && opened.signer === undefined) {
    const found = secrets.signer.toString('base64');
    throw copiesError('offsite-signer-unnamed', { to, found });
  }
  refuseOtherSigner(secrets, opened, to);
}

interface RotateOrder extends KeyRequest {
  /** From `openOwnCopy`. */
  readonly secrets: CopySecrets;
  /** Recipients other than the age recipients known here. */
  readonly additions: { readonly recovery: Buffer; readonly passphrase?: string | undefined };
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export type RotatedKeys = Awaited<ReturnType<typeof rotateKeys>>;

/** Returns whether a rotation was interrupted after the switch to its new key. @throws errors from `findLocalKey` */
export async function isRotationUnfinished(order: KeyRequest): Promise<boolean> {
  return (await findLocalKey(order)).replaced.length > 0;
}

/** @throws offsite-too-many-rotations if readers would refuse another key */
export function refuseTooManyKeys({ privateKeys }: CopySecrets, to: string): void {
  if (privateKeys.length < MAX_KEYS) return;
  throw copiesError('offsite-too-many-rotations', { to, most: MAX_KEYS });
}

/**
 * Creates a new key pair for new content. Its recipients are the new recovery key and passphrase, and the age
 * recipients added on this machine. None is taken from the target. After an interruption, the copy works with either
 * the old or the new keys, and the next rotation completes the interrupted one.
 * @throws offsite-too-many-rotations, offsite-too-many-recipients, offsite-key-unfit, offsite-not-kept; errors of
 * `withOwnKey`
 */
export async function rotateKeys(order: RotateOrder) {
  const { dataDir, store, signal } = order;
  return withOwnKey(order, async (before, file) => {
    const secrets = currentSecrets(before, order.secrets, store.label);
    refuseTooManyKeys(secrets, store.label);
    await refuseDamagedRecipients({ store, key: before, signal });
    const { key, next, privateKey } = await prepareNextKey(before, file, secrets);
    forgetUploaded(dataDir, key.copyId);
    const rotated = { ...secrets, privateKeys: [privateKey, ...secrets.privateKeys] };
    const signers = await renewSigners(order, key, rotated);
    const replaced = [...key.age.map(({ id }) => id), ...key.replaced, ...next.made];
    const { objects, age } = await wrapAgain(order, key, rotated, replaced);
    const added = objects.map(idOf);
    const made = [...next.made, ...added];
    await key.with({ next: { ...next, made } }).write(file);
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
    await switched.write(file);
    /** `added` lists the IDs of the new key's recipients. */
    return { added, ...(await removeReplaced(order, switched, file)) };
  });
}

/** Completes a rotation that has switched to its new key. @throws errors from `withOwnKey` */
export async function finishRotation(order: KeyRequest): Promise<RotatedKeys> {
  return withOwnKey(order, async (key, file) => ({
    added: [],
    ...(await removeReplaced(order, key, file)),
  }));
}

/** Stores the next pair here, unless an interrupted rotation has done so. @throws offsite-key-unreadable */
async function prepareNextKey(key: LocalKey, file: string, { privateKeys }: CopySecrets) {
  const [newest = Buffer.alloc(0)] = privateKeys;
  const next = key.next ?? newNextKey(key.copyId, newest);
  const privateKey = nextPrivateKey(next, key.copyId, newest);
  if (privateKey === undefined) {
    throw copiesError('offsite-key-unreadable', { file, reason: 'its content' });
  }
  const withNext = key.with({ next });
  if (key.next === undefined) await withNext.write(file);
  return { key: withNext, next, privateKey };
}

/** Unlisted uploads must be repeated, because they were encrypted for the replaced key. */
function forgetUploaded(dataDir: string, copyId: string): void {
  const state = openExistingState(dataDir);
  try {
    copyMemory(state, copyId).forgetUploaded();
  } finally {
    state?.close();
  }
}

/** Renews only the later signers trusted here, because anyone with the old key may have added others. */
async function renewSigners(
  { store, signal }: KeyRequest,
  { signers: [, ...later] }: LocalKey,
  rotated: CopySecrets,
): Promise<readonly KeyObject[]> {
  const valid = (await readSigners(store, rotated, signal)).signers;
  const missing = later.filter((signer) => !valid.some((one) => one.equals(signer)));
  const objects = missing.map((signer) => encodeSigner(rotated, signer));
  await putObjects(store, objects, signal);
  await readBack(store, objects, signal);
  return objects;
}

/** Wraps the new keys for age recipients that still exist. Another machine may have removed some. */
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
  refuseTooManyRecipients(remaining, { ...additions, age: names }, store.label);
  const made = [await wrapFor(rotated, additions, now())];
  for (const { recipient, label } of known) {
    made.push(await wrapFor(rotated, { age: [recipient], label }, now()));
  }
  return {
    objects: made.flatMap(({ objects }) => objects),
    age: made.flatMap(({ age }) => age),
  };
}

/** @throws offsite-not-kept if the stored bytes differ, because then nobody might be able to open new content */
async function readBack(
  store: ObjectStore,
  objects: readonly KeyObject[],
  signal: AbortSignal,
): Promise<void> {
  for (const { name, bytes } of objects) {
    const found = await readSmallObject(store, name, bytes.length, signal);
    if (!found.equals(bytes)) throw copiesError('offsite-not-kept', { to: store.label, name });
  }
}

/** Returns the IDs of the removed recipients, and of the remaining ones that open only `old` content. */
async function removeReplaced({ store, signal }: KeyRequest, key: LocalKey, file: string) {
  const removed: string[] = [];
  for (const id of key.replaced) {
    try {
      await store.delete(`${FOLDERS.keys}${id}`, signal);
      removed.push(id);
    } catch (error) {
      // A locked recipient remains, but opens only older content.
      if (!hasCode(error, 'object-locked')) throw error;
    }
  }
  if (key.replaced.length > 0) await key.with({ replaced: [] }).write(file);
  const { recipients } = await readRecipients(store, signal);
  const old = recipients.filter((one) => recipientAccess(one, key) === 'old').map(({ id }) => id);
  return { removed, old };
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

export async function openSecrets(store: ObjectStore, way: UnlockMethod, signal: AbortSignal) {
  // Refuses a copy that a newer version made.
  await readCopyId(store, signal);
  const { recipients, damaged } = await readRecipients(store, signal);
  if (recipients.length === 0) throw copiesError('offsite-no-copy', { to: store.label });
  return { secrets: await unlock(recipients, way, signal), damaged };
}

interface AdoptOrder extends OpenedWith {
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** Accepts older keys if an interrupted rotation lost the newer ones. */
  readonly allowOlder: boolean;
  readonly signal: AbortSignal;
}

/**
 * Gives the keys of a copy to an archive that was restored from it or has lost them, and authorises the archive to
 * sign. The next copy checks that the copy belongs to this archive.
 * @returns also the IDs of recipients with `newer` keys than this machine
 * @throws offsite-no-copy, offsite-signer-unnamed, offsite-signer-differs, offsite-key-unfit, offsite-key-older,
 * offsite-in-use, copy-key-refused, offsite-key-unwritable; errors from the store
 */
export async function adoptCopy(order: AdoptOrder) {
  const { dataDir, store, way, signal } = order;
  const { secrets } = await openSecrets(store, way, signal);
  refuseUnprovenSigner(secrets, order, store.label);
  const copyId = secrets.copyId.toString('hex');
  return withCopyLock(dataDir, { copyId }, store.label, async () => {
    const file = keyFile(dataDir, copyId);
    const before = readOldKey(file);
    refuseOtherKeys(before, secrets, store.label);
    const { signers } = await readSigners(store, secrets, signal);
    const newer = await refuseOlderKeys(order, secrets, signers);
    const signingKey = readSigningKey(await ensureSigningKey(dataDir));
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
      ...localParts(before, publicKey),
    });
    await key.write(file);
    // Checks for damage now, because no local copy will reveal it later.
    const memory = copyMemory(undefined, copyId);
    const mending = { store, key, file, memory, signal, now: Date.now };
    const { findings } = await repairKeptObjects({ ...mending, signingKey });
    return { copyId, signer, newer, findings };
  });
}

/**
 * Refuses keys that a rotation replaced, because excluded recipients could read content encrypted with them. The newest
 * manifest is signed, so its key can be trusted; recipients' claims cannot. Returns the IDs of recipients that claim
 * other keys.
 */
async function refuseOlderKeys(
  { store, signal, allowOlder }: AdoptOrder,
  { copyId, privateKeys }: CopySecrets,
  signers: readonly Buffer[],
): Promise<readonly string[]> {
  const to = store.label;
  const keyIds = new Set(privateKeys.map((one) => keyIdOf(publicKeyOf(one)).toString('hex')));
  const trust = { copyId: copyId.toString('hex'), signers };
  const { newest } = await findManifests(store, trust, signal);
  if (newest !== undefined && !keyIds.has(keyIdIn(newest.clear.sealed))) {
    throw copiesError('offsite-key-older', { to, ids: [] });
  }
  // A rotation may have finished after the keys were opened, so recipients are read again under the lock.
  const { recipients } = await readRecipients(store, signal);
  const ids = recipients
    .filter((one) => one.copyId.equals(copyId) && one.key !== null && !keyIds.has(one.key))
    .map(({ id }) => id);
  if (ids.length > 0 && !allowOlder) throw copiesError('offsite-key-older', { to, ids });
  return ids;
}

/** Returns undefined if the keys are missing or damaged. The caller then writes them again. */
function readOldKey(file: string): LocalKey | undefined {
  try {
    return readLocalKey(file);
  } catch (error) {
    if (hasCode(error, 'offsite-key-unreadable')) return undefined;
    throw error;
  }
}

/** Refuses a different copy with the same ID. A copy's first signer and name key never change. */
function refuseOtherKeys(before: LocalKey | undefined, secrets: CopySecrets, to: string): void {
  if (before === undefined) return;
  const isSame =
    before.nameKey.equals(secrets.nameKey) && before.signers[0]?.equals(secrets.signer) === true;
  if (!isSame) throw copiesError('offsite-key-unfit', { to });
}

/** Returns data that only the previous local keys contain. */
function localParts(before: LocalKey | undefined, publicKey: Buffer): Partial<LocalKeyParts> {
  if (before === undefined) return {};
  const { age, replaced, next } = before;
  return before.publicKey.equals(publicKey) ? { age, replaced, next } : { age };
}
