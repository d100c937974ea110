import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LocalKey, newNextKey, nextPrivateKey, readLocalKey } from '../../src/copies/local-key.ts';

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
  await new LocalKey(parts).write(file);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const { copyId, to, publicKey, nameKey, privateKeys, signers } = readLocalKey(file);
  expect({ copyId, to, publicKey, nameKey, privateKeys, signers }).toEqual(parts);
});

test('what a rotation keeps is read as it was written, and its private half is in no text', async () => {
  const file = path.join(folder, 'key.json');
  const [newest = Buffer.alloc(0)] = parts.privateKeys;
  const next = { ...newNextKey(parts.copyId, newest), made: ['01'.repeat(16)] };
  const age = [
    { id: '02'.repeat(16), recipient: 'age1x', label: 'Anna' },
    { id: '03'.repeat(16), recipient: 'age1y' },
  ];
  const replaced = ['04'.repeat(16)];
  await new LocalKey({ ...parts, next, age, replaced }).write(file);
  const read = readLocalKey(file);
  expect({ next: read.next, age: read.age, replaced: read.replaced }).toEqual({
    ...{ next, age, replaced },
  });
  const secret = nextPrivateKey(next, parts.copyId, newest);
  expect(secret).toHaveLength(32);
  for (const text of [readFileSync(file, 'utf8'), inspect(read, { depth: 9, getters: true })]) {
    for (const spelled of spellings(secret ?? Buffer.alloc(32)))
      expect(text).not.toContain(spelled);
  }
  expect(nextPrivateKey(next, parts.copyId, randomBytes(32))).toBeUndefined();
  expect(nextPrivateKey(next, 'cd'.repeat(16), newest)).toBeUndefined();
  const other = { ...next, publicKey: randomBytes(32) };
  expect(nextPrivateKey(other, parts.copyId, newest)).toBeUndefined();
});

test('a file with a rotation that makes no sense is refused', async () => {
  const file = path.join(folder, 'key.json');
  await new LocalKey(parts).write(file);
  const written = readFileSync(file, 'utf8');
  const broken = [
    { next: {} },
    { next: null },
    { replaced: ['../../x'] },
    { replaced: 'x' },
    { age: [{ id: 'x', recipient: 'age1x' }] },
  ];
  for (const fields of broken) {
    writeFileSync(file, JSON.stringify({ ...(JSON.parse(written) as object), ...fields }));
    expect(() => readLocalKey(file)).toThrow('offsite-key-unreadable');
  }
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
  await new LocalKey({ ...parts, signers: [] }).write(file);
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
