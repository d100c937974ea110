import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LocalKey, readLocalKey, writeLocalKey } from '../../src/offsite/local-key.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'local-key-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const parts = {
  copyId: 'ab'.repeat(16),
  to: 's3://bucket/mail',
  publicKey: randomBytes(32),
  nameKey: randomBytes(32),
  privateKeys: [randomBytes(32), randomBytes(32)],
  signers: [randomBytes(32)],
};

/** How a text might show a key. */
function spellings(key: Buffer): string[] {
  const hex = key.toString('hex');
  return [hex.slice(0, 16), inspect(key).slice(8, 30), key.toString('base64').slice(0, 16)].concat(
    JSON.stringify([...key]).slice(1, 20),
  );
}

test('a key is read from its file as it was written, and only its owner can', async () => {
  const file = path.join(folder, 'copies', 'key.json');
  await writeLocalKey(file, new LocalKey(parts));
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const { copyId, to, publicKey, nameKey, privateKeys, signers } = readLocalKey(file);
  expect({ copyId, to, publicKey, nameKey, privateKeys, signers }).toEqual(parts);
});

test('neither inspect nor JSON nor a spread shows a secret of a key', () => {
  const key = new LocalKey(parts);
  const changed = key.with({ to: 'elsewhere' });
  expect(changed.privateKeys).toEqual(parts.privateKeys);
  const texts = [key, changed, { ...key }, Object.assign(new Error('x'), { key })].flatMap(
    (one) => [
      inspect(one, { depth: 9, showHidden: true, getters: true }),
      JSON.stringify(one),
      String(one),
    ],
  );
  for (const secret of [parts.nameKey, ...parts.privateKeys]) {
    for (const spelled of spellings(secret)) {
      expect(texts.filter((text) => text.includes(spelled))).toEqual([]);
    }
  }
});

test('an error about a file of keys quotes nothing of it', async () => {
  const file = path.join(folder, 'key.json');
  await writeLocalKey(file, new LocalKey({ ...parts, signers: [] }));
  const wrong = path.join(folder, 'wrong.json');
  writeFileSync(wrong, JSON.stringify({ nameKey: parts.nameKey.toString('base64') }));
  for (const broken of [file, wrong]) {
    let shown = '';
    try {
      readLocalKey(broken);
    } catch (error) {
      shown = inspect(error, { depth: 9, showHidden: true });
    }
    expect(shown).toContain('offsite-key-unreadable');
    for (const secret of [parts.nameKey, ...parts.privateKeys]) {
      for (const spelled of spellings(secret)) expect(shown).not.toContain(spelled);
    }
  }
});
