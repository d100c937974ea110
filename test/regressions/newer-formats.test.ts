import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { mailkeep } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';
import { message } from '../offsite/copy-program.ts';

let work: string;
let intact: string;
let target: string;
beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'newer-'));
  intact = path.join(work, 'intact');
  target = path.join(work, 'target');
  writeFileSync(path.join(work, 'one.eml'), message(1, 'walrus'));
  const run = async (...args: string[]) => {
    const { code, stderr } = await ran([...args, '--quiet'], { cwd: work });
    expect([args, code, stderr]).toEqual([args, 0, '']);
  };
  await run('import', 'one.eml', '--data', intact);
  const begun = ['copy', 'init', '--to', target, '--recovery-key-file', 'key.txt'];
  await run(...begun, '--data', intact);
  await run('copy', '--to', target, '--data', intact);
  const state = openState(intact);
  state.set('saved-search', 'mine', 'walrus');
  state.close();
});
afterAll(() => rmSync(work, { recursive: true }));

function filesOf(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/-(?:shm|wal)$|^lock/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name));
  return Object.fromEntries(
    files.map((file) => [
      path.relative(dir, file),
      createHash('sha256').update(readFileSync(file)).digest('hex'),
    ]),
  );
}

function setVersion(file: string, version: number): void {
  const database = new Database(file);
  database.pragma(`user_version = ${version}`);
  database.pragma('journal_mode = DELETE');
  database.close();
}

interface Newer {
  /** Makes it look as if a later version had written it. */
  readonly mark: (data: string, to: string) => void;
  readonly versions: readonly RegExp[];
  /** Command lines that would read or write it. */
  readonly refused: readonly (readonly string[])[];
}

const NEWER: Readonly<Record<string, Newer>> = {
  archive: {
    mark: (data) => writeFileSync(path.join(data, 'FORMAT'), 'mailkeep archive 9\n'),
    versions: [/archive 9/, /up to \d/],
    refused: [['import', 'one.eml'], ['verify'], ['rebuild'], ['copy', '--to', 'elsewhere']],
  },
  catalog: {
    mark: (data) => setVersion(path.join(data, 'catalog.sqlite'), 99),
    versions: [/version 99/, /version \d\d;?/],
    refused: [['search', 'walrus'], ['list'], ['stats']],
  },
  state: {
    mark: (data) => setVersion(path.join(data, 'state.sqlite'), 99),
    versions: [/version 99/, /version 1\b/],
    refused: [
      ['import', 'one.eml'],
      ['status'],
      ['search', '@mine'],
      ['search', 'x', '--save', 'y'],
    ],
  },
  copy: {
    mark: (_data, to) => {
      const file = path.join(to, 'mailkeep-copy');
      const fields = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
      // Whatever a later version signs, this one cannot check it.
      const signature = `${'A'.repeat(86)}==`;
      const { copy, publicKey, signer } = fields;
      writeFileSync(
        file,
        JSON.stringify({ copy, mailkeep: 'copy 2', publicKey, signature, signer }),
      );
    },
    versions: [/"copy 2"/, /"copy 1"/],
    refused: [
      ['copy', '--to', 'to'],
      ['verify', '--copy', 'to'],
      ['copy', 'key', 'list', '--to', 'to'],
      ['copy', 'adopt', '--to', 'to', '--recovery-key-file', 'key.txt'],
      ['copy', '--from', 'to', '--to', 'back', '--recovery-key-file', 'key.txt'],
    ],
  },
};

/** Copies of the archive and of its target, at the same places each time. */
function fresh(): { readonly data: string; readonly to: string } {
  const [data, to] = [path.join(work, 'data'), path.join(work, 'to')];
  for (const [from, at] of [[intact, data] as const, [target, to] as const]) {
    rmSync(at, { recursive: true, force: true });
    cpSync(from, at, { recursive: true });
  }
  return { data, to };
}

type Run = (
  args: readonly string[],
) => Promise<{ readonly code: number | null; readonly stderr: string }>;

async function expectRefusals(kind: string, run: Run, treeOf = filesOf): Promise<void> {
  for (const args of NEWER[kind]?.refused ?? []) {
    const { data, to } = fresh();
    NEWER[kind]?.mark(data, to);
    const before = [treeOf(data), treeOf(to)];
    const { code, stderr } = await run([...args, '--data', data]);
    expect([args, code], stderr).not.toEqual([args, 0]);
    for (const version of NEWER[kind]?.versions ?? [])
      expect(stderr, args.join(' ')).toMatch(version);
    expect([treeOf(data), treeOf(to)], args.join(' ')).toEqual(before);
    for (const made of ['back', 'elsewhere']) {
      expect(existsSync(path.join(work, made, 'log')), args.join(' ')).toBe(false);
    }
  }
}

test.each(Object.keys(NEWER))('a newer %s is refused with both versions, and not changed', (kind) =>
  expectRefusals(kind, (args) => ran(args, { cwd: work })),
);

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Its state was thrown away where it was newer; that of this version is the first that refuses. */
const EARLIER = 'ea241817';

function hasCommit(): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${EARLIER}^{commit}`], { cwd: root, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test.runIf(hasCommit())(
  'an earlier version refuses what is newer, and reads what this version wrote',
  async () => {
    const tree = path.join(work, 'earlier');
    const git = (...args: string[]) => execFileSync('git', args, { cwd: root, stdio: 'ignore' });
    git('worktree', 'add', '--detach', tree, EARLIER);
    try {
      symlinkSync(path.join(root, 'node_modules'), path.join(tree, 'node_modules'));
      execFileSync(process.execPath, ['src/bootstrap/build.mjs'], { cwd: tree, stdio: 'ignore' });
      const program = path.join(tree, 'dist', 'mailkeep.cjs');
      const run: Run = (args) => mailkeep(args, { cwd: work, program });
      const { data, to } = fresh();
      const back = path.join(work, 'back');
      for (const args of [
        ['verify', '--data', data],
        // Its catalog has another version, and is made from the log.
        ['rebuild', '--data', data],
        ['search', 'walrus', '--data', data],
        ['copy', '--from', to, '--to', back, '--recovery-key-file', 'key.txt'],
        ['verify', '--data', back],
      ]) {
        const { code, stderr } = await run(args);
        expect([args, code], stderr).toEqual([args, 0]);
      }
      rmSync(back, { recursive: true });
      rmSync(intact, { recursive: true });
      cpSync(data, intact, { recursive: true });
      // It marks the words of the index, which is derived, for its own extraction before it reads FORMAT.
      const withoutIndex = (dir: string) => ({ ...filesOf(dir), 'catalog.sqlite': '' });
      await expectRefusals('archive', run, withoutIndex);
      await expectRefusals('catalog', run);
    } finally {
      git('worktree', 'remove', '--force', tree);
    }
  },
  600_000,
);
