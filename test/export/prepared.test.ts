import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runExport } from '../../src/transfer/run-export.ts';
import { ran } from '../cli/surface.ts';
import { exporting, StoredArchive, sampleSources } from './stored-archive.ts';

const EVIL = '\u001b]0;owned\u0007\u001b[2J';
const MANIFEST = 'mailkeep-export.json';

let archive: StoredArchive;
const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-prepared-'));
const fresh = (): string => mkdtempSync(path.join(work, 'to-'));

beforeAll(async () => {
  archive = await StoredArchive.create();
  await archive.store(sampleSources(3).map((source) => ({ folder: 'INBOX', source })));
});
afterAll(() => {
  rmSync(work, { recursive: true });
  archive.remove();
});

async function exported(format: 'eml' | 'mbox' | 'maildir' = 'eml'): Promise<string> {
  const to = fresh();
  await runExport(exporting(archive, to, format));
  return to;
}

/** Changes lines of a manifest and puts the right hash to its end, as anybody can. */
function forge(folder: string, change: (line: string, at: number) => string): void {
  const file = path.join(folder, MANIFEST);
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -2).map(change);
  const text = `${lines.join('\n')}\n`;
  const sha256 = createHash('sha256').update(text).digest('hex');
  writeFileSync(file, `${text}"sha256":"${sha256}"}\n`);
}

const OF_THE_HEAD = ['format', 'commit', 'asOf', 'selection'];

/** With another value for a field of the head, else of the first entry. */
function withField(field: string, value: unknown): (line: string, at: number) => string {
  const wanted = OF_THE_HEAD.includes(field) ? 0 : 2;
  return (line, at) => {
    if (at !== wanted) return line;
    const fields = JSON.parse(at === 0 ? `${line.slice(0, -1)}}` : line.replace(/,$/, ''));
    const text = JSON.stringify({ ...fields, [field]: value });
    if (at === 0) return `${text.slice(0, -1)},`;
    return line.endsWith(',') ? `${text},` : text;
  };
}

describe('a manifest of somebody else, with the right hash', () => {
  it('is taken where it is as one of ours', async () => {
    const to = await exported();
    forge(to, withField('mailbox', 'somebody@example.org'));
    expect(await ran(['verify', '--export', to])).toMatchObject({ code: 0 });
  });

  it.each([
    ['format', EVIL],
    ['format', 'tar'],
    ['commit', { number: EVIL, hash: '' }],
    ['commit', null],
    ['asOf', { number: 1, time: EVIL }],
    ['selection', null],
    ['path', ['..', 'x']],
    ['path', '../x'],
    ['sha256', EVIL],
    ['size', EVIL],
    ['size', -1],
    ['mailbox', 5],
    ['host', null],
    ['resourceId', {}],
    ['folder', null],
    ['namesake', 'x'],
    ['generation', {}],
    ['uid', EVIL],
    ['flags', 'x'],
    ['flags', [null]],
    ['date', EVIL],
    ['firstSeen', 7],
    ['endedAt', []],
    ['inMbox', null],
    ['inMbox', { offset: -5, length: 3, added: 0, lineEndAdded: false }],
    ['inMbox', { offset: 0, length: 'x', added: 0, lineEndAdded: false }],
  ])('is reported as damaged, and nothing else, for another %s: %j', async (field, value) => {
    const to = await exported(field === 'inMbox' ? 'mbox' : 'eml');
    forge(to, withField(field, value));
    const checked = await ran(['verify', '--export', to]);
    expect(checked).toMatchObject({ code: 3, stdout: expect.stringContaining('MANIFEST') });
    expect(`${checked.stdout}${checked.stderr}`).not.toContain('\u001b');
    const line = ['export', '--data', archive.dir, '--to', to, '--incremental', '--format'];
    const again = await ran([...line, field === 'inMbox' ? 'mbox' : 'eml']);
    expect(again).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('was changed or damaged'),
    });
    expect(again.stderr).not.toContain('\u001b');
  });
});

describe('a pipe instead of a file is not waited for', { timeout: 60_000 }, () => {
  const pipe = (file: string): void => {
    rmSync(file, { force: true });
    execFileSync('mkfifo', [file]);
  };
  const firstMessage = (folder: string): string => {
    const line = readFileSync(path.join(folder, MANIFEST), 'utf8').split('\n')[2] ?? '';
    return path.join(folder, JSON.parse(line.replace(/,$/, '')).path);
  };

  it.skipIf(process.platform === 'win32')('as a manifest', async () => {
    const to = fresh();
    pipe(path.join(to, MANIFEST));
    expect(await ran(['verify', '--export', to])).toMatchObject({ code: 2 });
    await expect(runExport(exporting(archive, to, 'eml'))).rejects.toMatchObject({
      code: 'export-target-foreign',
    });
  });

  it.skipIf(process.platform === 'win32').each(['eml', 'mbox', 'maildir'] as const)(
    'as a message or an mbox (%s)',
    async (format) => {
      const to = await exported(format);
      const file = firstMessage(to);
      pipe(file);
      const checked = await ran(['verify', '--export', to]);
      expect(checked).toMatchObject({ code: 3, stdout: expect.stringContaining('MISSING') });
      await runExport(exporting(archive, to, format));
      expect(await ran(['verify', '--export', to])).toMatchObject({ code: 0 });
    },
  );
});
