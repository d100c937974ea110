import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { ran } from '../cli/surface.ts';
import { message } from '../offsite/copy-program.ts';

let work: string;
let intact: string;
beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'reading-'));
  intact = path.join(work, 'intact');
  for (const [at, word] of ['walrus', 'giraffe'].entries()) {
    writeFileSync(path.join(work, `${at}.eml`), message(at, word));
  }
  const mail = ['0.eml', '1.eml'].map((name) => path.join(work, name));
  const imported = await ran(['import', ...mail, '--data', intact, '--quiet']);
  expect([imported.code, imported.stderr]).toEqual([0, '']);
  const state = openState(intact);
  state.set('saved-search', 'mine', 'walrus');
  state.close();
});
afterAll(() => rmSync(work, { recursive: true }));

/** All files with their hashes, but the index of the log of SQLite, which every reader makes. */
function treeOf(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/-(?:shm|wal)$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name));
  return Object.fromEntries(
    files.map((file) => [
      path.relative(dir, file),
      createHash('sha256').update(readFileSync(file)).digest('hex'),
    ]),
  );
}

const DAMAGES: Readonly<Record<string, (file: string) => void>> = {
  'of 0xff behind its first page': (file) =>
    writeFileSync(file, readFileSync(file).fill(0xff, 4_096)),
  'of other bytes': (file) => writeFileSync(file, Buffer.alloc(20_000, 'not a database')),
  'cut in the middle': (file) => truncateSync(file, Math.floor(readFileSync(file).length / 2)),
};

const COMMANDS = [
  ['status'],
  ['status', '--json'],
  ['list'],
  ['search', 'walrus'],
  ['search', '@mine'],
  ['stats'],
  ['show', 'ffff'],
  ['history', 'ffff'],
  ['attachments', 'ffff'],
  ['verify'],
  ['verify', '--quick'],
  ['verify', '--sample', '100%'],
  ['verify', '--drill', '1'],
  ['doctor'],
];

describe.each(['state.sqlite', 'catalog.sqlite', 'log'])('a damaged %s', (name) => {
  test.each(Object.keys(DAMAGES))('%s: no reading command changes a file', async (damage) => {
    const data = path.join(work, 'data');
    for (const args of COMMANDS) {
      rmSync(data, { recursive: true, force: true });
      cpSync(intact, data, { recursive: true });
      const [segment = ''] = readdirSync(path.join(data, 'log'));
      DAMAGES[damage]?.(path.join(data, name === 'log' ? path.join('log', segment) : name));
      const before = treeOf(data);
      const { code, stderr } = await ran([...args, '--data', data], { cwd: work });
      const after = treeOf(data);
      // What a verification found is written down, where there is a state for it.
      if (name !== 'state.sqlite') {
        delete before['state.sqlite'];
        delete after['state.sqlite'];
      }
      expect(after, args.join(' ')).toEqual(before);
      expect(stderr).not.toContain('Unexpected error');
      if (name === 'state.sqlite' && args[0] === 'verify' && args.length < 3) {
        expect([args, code]).toEqual([args, 3]);
      }
    }
  });
});

test('verify names a damaged state, a repair replaces it and keeps the file', async () => {
  const data = path.join(work, 'data');
  rmSync(data, { recursive: true, force: true });
  cpSync(intact, data, { recursive: true });
  DAMAGES['of other bytes']?.(path.join(data, 'state.sqlite'));
  const verified = await ran(['verify', '--data', data]);
  expect(verified.code).toBe(3);
  expect(verified.stdout).toContain('DAMAGED the state: ');
  expect(verified.stdout).toContain('Nothing was changed');
  const repaired = await ran(['verify', '--repair', '--data', data]);
  expect(repaired.code).toBe(0);
  expect(readdirSync(data)).toContain('state.sqlite.damaged-1');
  expect((await ran(['verify', '--data', data])).code).toBe(0);
});
