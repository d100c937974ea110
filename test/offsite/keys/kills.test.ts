import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { expect, test } from 'vitest';
import { openLogWriter } from '../../../src/archive/write/open-log-writer.ts';
import { addRecipients, removeRecipients } from '../../../src/engine/offsite/change-recipients.ts';
import { beginCopy, prepareCopy } from '../../../src/engine/offsite/init-copy.ts';
import { openOwnCopy } from '../../../src/engine/offsite/open-keys.ts';
import { readRecipients, readSigners } from '../../../src/engine/offsite/recipients.ts';
import { finishRotation, isSwitched, rotateKeys } from '../../../src/engine/offsite/rotate-keys.ts';
import { folderStore } from '../../../src/objects/folder-store.ts';
import type { ObjectStore } from '../../../src/objects/store.ts';
import { copyOut } from '../../../src/offsite/copy-out.ts';
import { keyIdIn, keyIdOf } from '../../../src/offsite/format/header.ts';
import { openManifest } from '../../../src/offsite/format/manifest.ts';
import { newRecoveryKey } from '../../../src/offsite/format/recovery.ts';
import { encodeSigner } from '../../../src/offsite/format/signers.ts';
import { unlock, type Way } from '../../../src/offsite/format/unlock.ts';
import { keyFile, readLocalKey, writeLocalKey } from '../../../src/offsite/local-key.ts';
import { findManifests } from '../../../src/offsite/manifests.ts';
import { copyMemory } from '../../../src/offsite/memory.ts';
import { oneObject } from '../../../src/offsite/one-object.ts';
import { openState, type StateFile } from '../../../src/state/state-file.ts';
import { readSigningKey } from '../../../src/verify/checkpoint.ts';
import { Positions } from '../../archive/positions.ts';
import { writeBatches } from '../../archive/sample-log.ts';
import { dyingAt, Killed, MOMENTS, type Moment } from '../dying-store.ts';
import { prover, signal } from '../sample-copy.ts';

/** A copy in a folder with its first recipients, of an archive that gets more mail. */
interface Copy {
  readonly dir: string;
  readonly store: ObjectStore;
  readonly copyId: string;
  /** That the copy began with. */
  readonly publicKey: Buffer;
  readonly first: Way;
  readonly age: Way;
  readonly recipient: string;
  readonly state: StateFile;
  readonly receive: () => Promise<void>;
  readonly copy: () => Promise<void>;
}

async function withCopy(writeOnly: boolean, act: (copy: Copy) => Promise<void>): Promise<void> {
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
    const copyId = await beginCopy({
      ...{ dataDir: dir, store, to: target, prepared, passphrase: undefined },
      ...{ age: [recipient], writeOnly, signal, now: () => 1 },
    });
    const file = keyFile(dir, copyId);
    const copy = async () => {
      await copyOut({
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
async function opens({ store }: Copy, way: Way | undefined): Promise<boolean> {
  if (way === undefined) return false;
  const { recipients } = await readRecipients(store, signal);
  try {
    const secrets = await unlock(recipients, way, signal);
    const signers = await readSigners(store, secrets, signal);
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
async function keyOfNewest({ store, dir, copyId }: Copy): Promise<string> {
  const { newest } = await findManifests(store, readLocalKey(keyFile(dir, copyId)), signal);
  return newest === undefined ? '' : keyIdIn(newest.clear.sealed);
}

const ownKey = ({ dir, copyId }: Copy) => readLocalKey(keyFile(dir, copyId));

/** One run of a program that may be killed; returns whether it was. */
async function survives(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    if (error instanceof Killed) return false;
    throw error;
  }
}

/** One run of `copy key rotate`; `hand` gets the recovery key that its user has from then on. */
async function rotate(
  copy: Copy,
  store: ObjectStore,
  way: Way,
  hand: (way: Way) => void,
): Promise<void> {
  const order = { dataDir: copy.dir, store, signal };
  if (await isSwitched(order)) {
    await finishRotation(order);
    return;
  }
  const secrets = await openOwnCopy(order, async () => way);
  const recovery = newRecoveryKey();
  hand({ type: 'recovery', recovery });
  await rotateKeys({ ...order, secrets, additions: { recovery }, now: () => 2 });
}

/** The same without an interruption. */
async function rotated(copy: Copy, way: Way): Promise<Way> {
  let handed: Way | undefined;
  await rotate(copy, copy.store, way, (newest) => {
    handed = newest;
  });
  if (handed === undefined) throw new Error('it was complete');
  return handed;
}

/** Kills `act` at each of its calls to the store in turn, until it ends by itself. */
async function killEverywhere(
  writeOnly: boolean,
  moment: Moment,
  act: (copy: Copy, store: ObjectStore) => Promise<unknown>,
  check: (copy: Copy) => Promise<void>,
): Promise<number> {
  for (let call = 1; ; call += 1) {
    let ended = false;
    await withCopy(writeOnly, async (copy) => {
      const { dying } = dyingAt(copy.store, call, moment);
      ended = await survives(() => act(copy, dying));
      await check(copy);
    });
    if (ended) return call;
  }
}

for (const moment of MOMENTS) {
  for (const writeOnly of [false, true]) {
    const here = writeOnly ? 'a machine that only writes' : 'a machine that reads';
    test(`a rotation on ${here}, killed ${moment} each call, is completed by another`, async () => {
      let handed: Way[] = [];
      const hand = (way: Way) => handed.push(way);
      const calls = await killEverywhere(
        writeOnly,
        moment,
        async (copy, store) => {
          handed = [];
          await rotate(copy, store, copy.first, hand);
        },
        async (copy) => {
          const { publicKey, next } = ownKey(copy);
          const isSwitchedTo = !publicKey.equals(copy.publicKey);
          expect(handed.length).toBeGreaterThanOrEqual(isSwitchedTo ? 1 : 0);
          await copy.receive();
          await copy.copy();
          expect(await keyOfNewest(copy)).toBe(keyIdOf(publicKey).toString('hex'));
          expect(await opens(copy, copy.age)).toBe(true);
          expect(await opens(copy, isSwitchedTo ? handed.at(-1) : copy.first)).toBe(true);

          // The same command once more, with the key that opened the copy just now.
          await rotate(copy, copy.store, (isSwitchedTo && handed.at(-1)) || copy.first, hand);
          const key = ownKey(copy);
          expect(key).toMatchObject({ next: undefined, replaced: [] });
          if (next !== undefined) expect(key.publicKey).toEqual(next.publicKey);
          expect(key.privateKeys.length === 0).toBe(writeOnly);
          await copy.receive();
          await copy.copy();
          expect(await keyOfNewest(copy)).toBe(keyIdOf(key.publicKey).toString('hex'));
          expect(await opens(copy, handed.at(-1))).toBe(true);
          expect(await opens(copy, copy.age)).toBe(true);
          expect(await opens(copy, copy.first)).toBe(false);
          const { recipients } = await readRecipients(copy.store, signal);
          const isTwice = isSwitchedTo && !key.publicKey.equals(publicKey);
          expect(recipients.map(({ type }) => type).sort()).toEqual([
            ...['age', 'recovery', 'recovery', ...(isTwice ? ['recovery'] : [])],
          ]);
        },
      );
      expect(calls).toBeGreaterThan(10);
    });
  }

  test(`recipients that are added or removed, killed ${moment} each call, leave a copy that opens`, async () => {
    const second: Way = { type: 'recovery', recovery: randomBytes(16) };
    await killEverywhere(
      false,
      moment,
      async (copy, store) => {
        const order = { dataDir: copy.dir, store, signal };
        const secrets = await openOwnCopy(order, async () => copy.first);
        const additions = { recovery: second.recovery, age: [copy.recipient] };
        await addRecipients({ ...order, secrets, additions, now: () => 2 });
        const [old] = ownKey(copy).age;
        await removeRecipients({ ...order, ids: [old?.id ?? ''] });
      },
      async (copy) => {
        await copy.receive();
        await copy.copy();
        expect(await opens(copy, copy.first)).toBe(true);
        expect(await opens(copy, copy.age)).toBe(true);
        // What this machine does not know of is not wrapped again.
        const { recipients } = await readRecipients(copy.store, signal);
        const order = { dataDir: copy.dir, store: copy.store, signal };
        const last = await rotated(copy, copy.first);
        expect(await opens(copy, last)).toBe(true);
        expect(recipients.length).toBeGreaterThan(1);
        expect(await isSwitched(order)).toBe(false);
      },
    );
  });
}

test('a rotation uploads again what was sealed for the key before and is not listed yet', async () => {
  await withCopy(false, async (copy) => {
    const noted = { name: `data/${'0'.repeat(48)}`, length: 1, sha256: '0'.repeat(64) };
    copyMemory(copy.state, copy.copyId).note(noted);
    await rotated(copy, copy.first);
    expect(copyMemory(copy.state, copy.copyId).uploaded()).toEqual([]);
  });
});

test('a later signer signs after a rotation, one that only the target knows does not', async () => {
  await withCopy(false, async (copy) => {
    const key = ownKey(copy);
    const [later, stranger] = [randomBytes(32), randomBytes(32)];
    await writeLocalKey(
      keyFile(copy.dir, copy.copyId),
      key.with({ signers: [...key.signers, later] }),
    );
    const secrets = await openOwnCopy(
      { dataDir: copy.dir, store: copy.store, signal },
      async () => copy.first,
    );
    const { name, bytes } = encodeSigner(secrets, stranger);
    await copy.store.put(name, bytes.length, oneObject(bytes), { signal });
    const way = await rotated(copy, copy.first);
    const { recipients } = await readRecipients(copy.store, signal);
    const opened = await unlock(recipients, way, signal);
    const signers = await readSigners(copy.store, opened, signal);
    expect(signers).toEqual([...key.signers, later]);
  });
});
