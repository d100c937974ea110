import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newCopyKeys, wrapForAge } from '../../../src/copies/format/keys.ts';
import { keyFile, rawPublicKey, readLocalKey } from '../../../src/copies/local-key.ts';
import { type KeysPlace, keysPlace } from './place.ts';

let place: KeysPlace;
let copyId: string;
/** As `copy init` printed it. */
let signer: string;
let identityFile: string;

/** A copy, which its keeper has emptied but for a recipient that wraps keys of the keeper for the same age recipient. */
beforeEach(async () => {
  place = await keysPlace();
  const identity = await generateIdentity();
  const recipient = await identityToRecipient(identity);
  identityFile = path.join(place.work, 'identity.txt');
  writeFileSync(identityFile, identity);
  const init = await place.run('copy init', [
    ...['--recovery-key-file', 'first.txt'],
    ...['--age', recipient],
  ]);
  ({ copyId, signer } = init.lines[0] as { copyId: string; signer: string });
  const { privateKey } = generateKeyPairSync('ed25519');
  const forged = newCopyKeys();
  const secrets = {
    copyId: Buffer.from(copyId, 'hex'),
    privateKeys: [forged.privateKey],
    nameKey: forged.nameKey,
    signer: rawPublicKey(privateKey),
  };
  const { name, bytes } = await wrapForAge(secrets, recipient, { created: 1 });
  const keys = path.join(place.target, 'keys');
  for (const one of readdirSync(keys)) {
    // Kept for the test that puts them back.
    renameSync(path.join(keys, one), path.join(place.work, one));
  }
  writeFileSync(path.join(place.target, name), bytes);
});
afterEach(() => place.close());

const ours = () => readLocalKey(keyFile(place.data, copyId));

test.each([
  ['without a signer', 2, 'offsite-signer-unnamed', () => []],
  ['with the signer of "copy init"', 3, 'offsite-signer-differs', () => ['--signer', signer]],
] as const)(
  'adopt takes no keys that the keeper wrapped for an age recipient: %s',
  async (_, code, error, more) => {
    rmSync(path.join(place.data, 'copies'), { recursive: true });
    const adopted = await place.run('copy adopt', ['--identity-file', identityFile, ...more()]);
    expect(adopted.code).toBe(code);
    expect(adopted.stderr).toContain(error);
    expect(() => ours()).toThrow();
  },
);

test('keys that are here are never replaced by those of another copy with the same id', async () => {
  const before = ours();
  const forgedSigner = await place.run('copy adopt', ['--identity-file', identityFile]);
  const [found = ''] = /[A-Za-z0-9+/]{43}=/.exec(forgedSigner.stderr) ?? [];
  const line = ['--identity-file', identityFile, '--signer', found];
  const adopted = await place.run('copy adopt', line);
  expect(adopted).toMatchObject({ code: 2, lines: [] });
  expect(adopted.stderr).toContain('offsite-key-unfit');
  expect(ours().publicKey).toEqual(before.publicKey);
});

test('an identity opens and adopts a copy of the signer that "copy init" printed', async () => {
  const keys = path.join(place.target, 'keys');
  for (const one of readdirSync(keys)) rmSync(path.join(keys, one));
  for (const one of readdirSync(place.work).filter((name) => /^[0-9a-f]{32}$/.test(name))) {
    renameSync(path.join(place.work, one), path.join(keys, one));
  }
  expect(await place.run('copy')).toMatchObject({ code: 0 });
  rmSync(path.join(place.data, 'copies'), { recursive: true });
  const line = ['--identity-file', identityFile, '--signer', signer];
  expect(await place.opensWith(line)).toBe(0);
  const other = Buffer.alloc(32, 1).toString('base64');
  expect(await place.opensWith(['--identity-file', identityFile, '--signer', other])).toBe(3);
  expect(await place.run('copy adopt', line)).toMatchObject({ code: 0 });
  expect(await place.run('copy')).toMatchObject({ code: 0 });
});
