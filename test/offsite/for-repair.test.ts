import { generateKeyPairSync } from 'node:crypto';
import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { keyFile, rawPublicKey } from '../../src/copies/local-key.ts';
import { copyMemory, findManifests } from '../../src/copies/manifests.ts';
import { segmentsForRepair } from '../../src/copies/restore-copy.ts';
import { uploadCopy } from '../../src/copies/upload-copy.ts';
import { type Copy, ownKey, withCopy } from './keys/begun-copy.ts';
import { prover, signal } from './sample-copy.ts';

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
    const { dir, store, state, copyId } = copy;
    await withOther.write(keyFile(dir, copyId));
    await copy.receive();
    await uploadCopy({
      ...{ dir, store, prover, signal, memory: copyMemory(state, copyId) },
      ...{ key: withOther, signingKey, seen: 0, refresh: false, keep: 1, now: Date.now },
    });
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
