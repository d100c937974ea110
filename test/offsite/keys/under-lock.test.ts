import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { keyIdOf } from '../../../src/copies/format/sealed-object.ts';
import { keyFile } from '../../../src/copies/local-key.ts';
import { copyToTarget } from '../../../src/copies/upload-copy.ts';
import { signal } from '../sample-copy.ts';
import { keyOfNewest, ownKey, rotated, withCopy } from './begun-copy.ts';

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
