import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { tree } from '../export/stored-archive.ts';

const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-dry-run-'));
const data = path.join(work, 'data');
const mail = path.join(work, 'mail');

beforeAll(() => {
  mkdirSync(path.join(mail, 'Work'), { recursive: true });
  for (const name of ['a.eml', 'Work/b.eml', 'Work/c.eml'])
    writeFileSync(path.join(mail, name), `Subject: ${name}\n\ntext\n`);
  writeFileSync(path.join(mail, 'notes.txt'), 'no mail');
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

it('shows what an import would do, by folder, and writes nothing', async () => {
  const line = ['import', mail, '--data', data, '--dry-run'];
  const { code, stdout } = await mailkeep([...line, '--json']);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ dryRun: true, messages: 3, added: 3, undated: 3, passedOver: 1 },
    folders: [
      { folder: 'Work', added: 2, known: 0 },
      { folder: 'INBOX', added: 1, known: 0 },
    ],
  });
  expect(existsSync(data)).toBe(false);
  rmSync(path.join(mail, 'notes.txt'));
  expect((await mailkeep(['import', path.join(mail, 'Work'), '--data', data])).code).toBe(0);
  const stored = () => new Map([...tree(data)].filter(([name]) => !/-(?:shm|wal)$/.test(name)));
  const before = stored();
  const again = await mailkeep(line);
  expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^would import 3 /) });
  expect(again.stdout).toMatch(/ {2}INBOX: 1 message\n/);
  expect(stored()).toEqual(before);
});

/** Runs a command on a terminal of its own, and ends with its exit code. */
const ON_TERMINAL = [
  'python3',
  '-c',
  'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))',
];

it.runIf(spawnSync('python3', ['--version']).status === 0)(
  'asks on a terminal above a hundred messages, unless --yes says so',
  async () => {
    const many = path.join(work, 'many.mbox');
    const one = (n: number) => `From a@b Sun Mar  1 09:41:07 2015\nSubject: ${n}\n\ntext\n\n`;
    writeFileSync(many, Array.from({ length: 101 }, (_, n) => one(n)).join(''));
    const line = ['import', many, '--data', path.join(work, 'asked')];
    const refused = await mailkeep(line, { under: ON_TERMINAL, input: 'n\n' });
    expect(refused.stdout).toContain('Import 101 messages into the mailbox imported?');
    expect(refused.code).toBe(1);
    expect(existsSync(path.join(work, 'asked'))).toBe(false);
    const sure = await mailkeep([...line, '--yes'], { under: ON_TERMINAL });
    expect(sure.stdout).not.toContain('Import 101');
    expect(sure.code).toBe(0);
    expect((await mailkeep(line)).stdout).toMatch(/101 messages were there already/);
  },
);
