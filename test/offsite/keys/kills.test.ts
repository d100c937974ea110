import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { encodeSigner, type UnlockMethod, unlock } from '../../../src/copies/format/keys.ts';
import { bytesAsStream } from '../../../src/copies/format/manifest.ts';
import { keyIdOf } from '../../../src/copies/format/sealed-object.ts';
import {
  keyFile,
  openOwnCopy,
  rawPublicKey,
  readRecipients,
  readSigners,
} from '../../../src/copies/local-key.ts';
import { copyMemory, findManifests } from '../../../src/copies/manifests.ts';
import type { ObjectStore } from '../../../src/copies/object-store.ts';
import {
  addRecipients,
  isRotationUnfinished,
  removeRecipients,
} from '../../../src/copies/recipients.ts';
import { segmentsForRepair } from '../../../src/copies/restore-copy.ts';
import { copyToTarget } from '../../../src/copies/upload-copy.ts';
import { dyingAt, Killed, MOMENTS, type Moment } from '../dying-store.ts';
import { signal } from '../sample-copy.ts';
import { type Copy, keyOfNewest, opens, ownKey, rotate, rotated, withCopy } from './begun-copy.ts';

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
  // While bytes travel, the kind of machine does not matter.
  for (const writeOnly of moment === 'during' ? [false] : [false, true]) {
    const here = writeOnly ? 'a machine that only writes' : 'a machine that reads';
    test.concurrent(`a rotation on ${here}, killed ${moment} each call, is completed by another`, async () => {
      let handed: UnlockMethod[] = [];
      const hand = (way: UnlockMethod) => handed.push(way);
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

  test.concurrent(`recipients that are added or removed, killed ${moment} each call, leave a copy that opens`, async () => {
    const second: UnlockMethod = { type: 'recovery', recovery: randomBytes(16) };
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
        expect(await isRotationUnfinished(order)).toBe(false);
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
    const changed = key.with({ signers: [...key.signers, later] });
    await changed.write(keyFile(copy.dir, copy.copyId));
    const secrets = await openOwnCopy(
      { dataDir: copy.dir, store: copy.store, signal },
      async () => copy.first,
    );
    const { name, bytes } = encodeSigner(secrets, stranger);
    await copy.store.put(name, bytes.length, bytesAsStream(bytes), { signal });
    const way = await rotated(copy, copy.first);
    const { recipients } = await readRecipients(copy.store, signal);
    const opened = await unlock(recipients, way, signal);
    const { signers } = await readSigners(copy.store, opened, signal);
    expect(signers).toEqual([...key.signers, later]);
  });
});

test('recipients and signers that a store still lists after they were removed are left out', async () => {
  await withCopy(false, async (copy) => {
    const way = await rotated(copy, copy.first);
    const { recipients } = await readRecipients(copy.store, signal);
    const secrets = await unlock(recipients, way, signal);
    const ghosts: ObjectStore = Object.assign(Object.create(copy.store), {
      label: copy.store.label,
      get: copy.store.get.bind(copy.store),
      async *list(prefix: string, wanted: AbortSignal) {
        yield { name: `${prefix}${'0'.repeat(32)}`, length: 1, modified: 1 };
        yield* copy.store.list(prefix, wanted);
      },
    });
    expect(await readRecipients(ghosts, signal)).toEqual({ recipients, damaged: [] });
    expect((await readSigners(ghosts, secrets, signal)).signers).toEqual(ownKey(copy).signers);
  });
});

test('a copy that begins while a rotation ends is encrypted for the new key', async () => {
  await withCopy(false, async (copy) => {
    const file = keyFile(copy.dir, copy.copyId);
    const before = readFileSync(file);
    await rotated(copy, copy.first);
    const after = readFileSync(file);
    writeFileSync(file, before);
    await copy.receive();
    // The label is asked for when the lock is about to be taken: what another process writes then must be seen.
    let asked = 0;
    const store = new Proxy(copy.store, {
      get: (target, name) => {
        if (name === 'label') asked += 1;
        if (name === 'label' && asked === 2) writeFileSync(file, after);
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    await copyToTarget({
      ...{ dataDir: copy.dir, store, signal, refresh: false, keep: 1, now: Date.now },
      onProgress: () => undefined,
    });
    expect(asked).toBeGreaterThanOrEqual(2);
    expect(await keyOfNewest(copy)).toBe(keyIdOf(ownKey(copy).publicKey).toString('hex'));
  });
});

async function commitForRepair({ dir, store }: Copy): Promise<number | undefined> {
  const { folder, commit } = await segmentsForRepair({ dataDir: dir, store, signal });
  rmSync(folder, { recursive: true });
  return commit?.number;
}

test('a manifest vouches for its commit only if a key of this archive signed it', async () => {
  await withCopy(false, async (copy) => {
    await copy.receive();
    await copy.copy();
    const own = await commitForRepair(copy);
    expect(own).toBeGreaterThan(0);
    // Somebody who can read the copy has added a signer, and this machine has adopted the copy since.
    const { privateKey: signingKey } = generateKeyPairSync('ed25519');
    const key = ownKey(copy);
    const withOther = key.with({ signers: [...key.signers, rawPublicKey(signingKey)] });
    await withOther.write(keyFile(copy.dir, copy.copyId));
    await copy.receive();
    await copy.copy({ key: withOther, signingKey });
    expect(await commitForRepair(copy)).toBeUndefined();
    await copy.receive();
    await copy.copy();
    expect(await commitForRepair(copy)).toBeGreaterThan(own ?? 0);
  });
});

test('a repair refuses a copy that was put back to an older state', async () => {
  await withCopy(false, async (copy) => {
    await copy.receive();
    await copy.copy();
    const { newest } = await findManifests(copy.store, ownKey(copy), signal);
    await copy.store.delete(newest?.name ?? '', signal);
    await expect(commitForRepair(copy)).rejects.toMatchObject({ code: 'offsite-rolled-back' });
  });
});
