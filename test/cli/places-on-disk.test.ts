import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { mailkeep } from './child.ts';

const top = mkdtempSync(path.join(tmpdir(), 'mailkeep-places-'));
const data = path.join(top, 'archive');
/** Except for the files that SQLite keeps next to a database while it is read. */
const own = () =>
  readdirSync(data)
    .filter((name) => !/-(?:wal|shm)$/.test(name))
    .sort();

beforeAll(async () => {
  const mail = path.join(top, 'one.eml');
  writeFileSync(mail, sampleMail(1));
  expect(await mailkeep(['import', '--data', data, mail])).toMatchObject({ code: 0 });
  symlinkSync(data, path.join(top, 'link'));
});
afterAll(() => rmSync(top, { recursive: true, force: true }));

test.each(['archive', 'archive/out', 'archive/log/deep/out', 'link/out', 'link/../archive/out'])(
  'nothing is exported or copied into the archive: %s',
  async (place) => {
    const before = own();
    const to = path.join(top, place);
    const exported = await mailkeep(['export', '--data', data, '--format', 'eml', '--to', to]);
    expect(exported).toMatchObject({ code: 2, stderr: expect.stringContaining('archive') });
    const copied = await mailkeep(['copy', '--data', data, '--to', to]);
    expect(copied).toMatchObject({ code: 2, stderr: expect.stringContaining('archive itself') });
    expect(own()).toEqual(before);
  },
);

test('a copy is written into its folder, and not where a link in it leads', async () => {
  const to = path.join(top, 'linked');
  const elsewhere = path.join(top, 'elsewhere');
  for (const folder of [to, elsewhere]) mkdirSync(folder);
  writeFileSync(path.join(elsewhere, '0000000001.1.seg.tmp'), 'of somebody else');
  symlinkSync(elsewhere, path.join(to, 'log'));
  expect(await mailkeep(['copy', '--data', data, '--to', to])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('is a link'),
  });
  expect(readdirSync(elsewhere)).toEqual(['0000000001.1.seg.tmp']);
  expect(readdirSync(to)).toEqual(['log']);
});

test('places next to the archive are allowed, whatever their names begin with', async () => {
  for (const name of ['archive-export', '..export', 'archive2']) {
    const to = path.join(top, name);
    mkdirSync(to);
    const exported = await mailkeep(['export', '--data', data, '--format', 'eml', '--to', to]);
    expect(exported).toMatchObject({ code: 0, stdout: expect.stringContaining('exported 1 ') });
  }
});

test('an export from a folder or mailbox that never was is an error, and makes nothing', async () => {
  const to = path.join(top, 'never');
  for (const [names, sentence] of [
    [['--folder', 'Nope'], 'The archive has no folder "Nope".'],
    [['--mailbox', 'nobody'], 'The archive has no mailbox "nobody".'],
    [['--folder', 'INBXO'], 'Did you mean "INBOX"?'],
  ] as const) {
    const line = ['export', '--data', data, '--format', 'eml', '--to', to, ...names];
    expect(await mailkeep(line)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(sentence),
    });
  }
  expect(readdirSync(top)).not.toContain('never');
});

test.skipIf(process.platform !== 'linux')(
  'a place where the system creates no folder is reported, without an endless loop',
  async () => {
    const nowhere = '/proc/nowhere/below';
    for (const line of [
      ...['eml', 'mbox', 'maildir'].map((format) => [
        'export',
        '--format',
        format,
        '--to',
        nowhere,
      ]),
      ['export', '--format', 'zip', '--to', `${nowhere}/mail.zip`],
      ['export', '--format', 'zip', '--to', path.join(top, 'one.eml', 'mail.zip')],
      ['export', '--format', 'eml', '--to', path.join(top, 'one.eml', 'mail')],
      ['copy', '--to', nowhere],
    ]) {
      const { code, stderr } = await mailkeep([...line, '--data', data]);
      expect({ line, code, stderr }).toMatchObject({
        code: expect.toSatisfy((given) => given === 1 || given === 2),
        stderr: expect.stringMatching(/cannot be (?:written|made)|no such file|no folder/),
      });
      expect(stderr).not.toContain('bug in mailkeep');
    }
  },
);

test.skipIf(process.platform !== 'linux')(
  'a configuration and units that have no place are reported as well',
  async () => {
    const nowhere = '/proc/nowhere/below';
    const units = await mailkeep(['daemon', 'install', '--system', '--root', nowhere]);
    expect(units).toMatchObject({ code: 1, stderr: expect.stringContaining('no such file') });
    const sandbox = await startSandbox({ from: [path.join(top, 'one.eml')] });
    try {
      const url = ['--base-url', sandbox.mailboxUrl, '--yes', '--config', `${nowhere}/config.json`];
      const made = await mailkeep(['init', ...url], { input: sandbox.tokens.mailbox });
      expect(made).toMatchObject({ code: 1, stderr: expect.stringContaining('no such file') });
    } finally {
      await sandbox.close();
    }
  },
);

test('a missing checkpoint is distinguished from a file that is none', async () => {
  const verify = (file: string) => mailkeep(['verify', '--data', data, '--checkpoint', file]);
  expect(await verify(path.join(top, 'gone'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no such file'),
  });
  expect(await verify(path.join(top, 'one.eml'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('is not a checkpoint'),
  });
});
