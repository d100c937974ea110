import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { folderStore } from '../../src/copies/folder-store.ts';
import {
  expectStoreContract,
  getBytes,
  inPieces,
  listed,
  listedNames,
  putBytes,
  signal,
} from './store-contract.ts';

function folder(): string {
  const dir = mkdtempSync(path.join(tmpdir(), 'objects-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

test('a folder stores objects, and creates itself', async () => {
  const dir = path.join(folder(), 'a/copy');
  const store = folderStore(dir);
  expect(store.label).toBe(dir);
  await expectStoreContract(store, 3_000_000);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  expect(statSync(path.join(dir, 'data/0-x')).mode & 0o777).toBe(0o600);
  // Nothing unfinished is left, also of what failed.
  expect(readdirSync(path.join(dir, 'data')).sort()).toEqual(['0-x', '1-x', '2-x', '3-x']);
  await store.close();
});

test('a folder has neither versions nor locks', async () => {
  const store = folderStore(folder());
  expect(await store.abilities(signal)).toEqual({ keepsVersions: false, locks: false });
  await expect(putBytes(store, 'keys/b', 'x', { lockUntil: Date.now() })).rejects.toMatchObject({
    code: 'store-unable',
    facts: { ability: 'lock' },
  });
  await expect(store.lock('keys/a', Date.now(), signal)).rejects.toMatchObject({
    code: 'store-unable',
    facts: { ability: 'lock' },
  });
  expect(readdirSync(store.label)).toEqual([]);
});

test('a link, a pipe or a folder is neither followed nor replaced', async () => {
  const [dir, elsewhere] = [folder(), folder()];
  const outside = path.join(elsewhere, 'file');
  writeFileSync(outside, 'theirs');
  mkdirSync(path.join(dir, 'data'));
  symlinkSync(outside, path.join(dir, 'data/linked'));
  symlinkSync(elsewhere, path.join(dir, 'keys'));
  execFileSync('mkfifo', [path.join(dir, 'data/pipe')]);
  mkdirSync(path.join(dir, 'data/folder'));
  const store = folderStore(dir);
  const foreign = { code: 'store-entry-foreign' };
  for (const name of ['data/linked', 'data/pipe', 'data/folder', 'keys/file', 'keys/new']) {
    await expect(getBytes(store, name)).rejects.toMatchObject(foreign);
    await expect(store.head(name, signal)).rejects.toMatchObject(foreign);
    await expect(putBytes(store, name, 'ours')).rejects.toMatchObject(foreign);
    await expect(store.delete(name, signal)).rejects.toMatchObject(foreign);
  }
  for (const prefix of ['', 'data/', 'data/linked', 'keys/f']) {
    await expect(listed(store, prefix)).rejects.toMatchObject(foreign);
  }
  expect(readFileSync(outside, 'utf8')).toBe('theirs');
  expect(readdirSync(elsewhere)).toEqual(['file']);
  expect(readdirSync(path.join(dir, 'data')).sort()).toEqual(['folder', 'linked', 'pipe']);
});

test('files of other names are left out, and left alone', async () => {
  const dir = folder();
  const store = folderStore(dir);
  await putBytes(store, 'data/a', 'x');
  for (const name of ['.DS_Store', 'data/README.txt', 'data/B', 'data/ü', 'data/a b', 'data/a.txt'])
    writeFileSync(path.join(dir, name), 'theirs');
  symlinkSync('/', path.join(dir, 'data/Link'));
  symlinkSync('/', path.join(dir, 'data/link.d'));
  expect(await listedNames(store)).toEqual(['data/a']);
  await expect(putBytes(store, 'data/a.txt', 'ours')).rejects.toThrow('no name of an object');
  await expect(store.delete('data/a.txt', signal)).rejects.toThrow('no name of an object');
});

test('what a process left when it ended is swept an hour later', async () => {
  const dir = folder();
  await putBytes(folderStore(dir), 'data/a', 'x');
  const left = path.join(dir, 'data/.unfinished-0011');
  writeFileSync(left, 'half');
  const written = 1_700_000_000;
  utimesSync(left, written, written);
  const at = (minutes: number) => folderStore(dir, { now: () => (written + minutes * 60) * 1000 });
  await putBytes(at(59), 'data/b', 'x');
  expect(existsSync(left)).toBe(true);
  await putBytes(at(60), 'data/c', 'x');
  expect(existsSync(left)).toBe(false);
  expect(await listedNames(at(60))).toEqual(['data/a', 'data/b', 'data/c']);
});

test('an object that becomes shorter while it is read is not taken for complete', async () => {
  const store = folderStore(folder());
  await putBytes(store, 'data/a', Buffer.alloc(3_000_000));
  const reading = store.get('data/a', { signal })[Symbol.asyncIterator]();
  await reading.next();
  writeFileSync(path.join(store.label, 'data/a'), 'x');
  await expect(
    (async () => {
      while ((await reading.next()).done !== true);
    })(),
  ).rejects.toMatchObject({ code: 'object-changed' });
});

test('errors of the system name the file, and errors of the source stay what they are', async () => {
  const dir = folder();
  writeFileSync(path.join(dir, 'file'), '');
  const store = folderStore(path.join(dir, 'file'));
  await expect(putBytes(store, 'data/a', 'x')).rejects.toMatchObject({ code: 'store-unwritable' });
  const missing = Object.assign(new Error('gone'), { code: 'ENOENT', syscall: 'open' });
  const source = async function* () {
    yield* inPieces(Buffer.alloc(1));
    throw missing;
  };
  const put = folderStore(dir).put('data/a', 2, source(), { signal });
  await expect(put).rejects.toBe(missing);
});
