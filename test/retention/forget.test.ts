import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { deliver } from '../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, start, type Workplace, workplace } from '../cli/child.ts';
import { everything } from './everything.ts';
import { other, secret, WORDS, wordsIn } from './secret-mail.ts';

let folder: string;
let sandbox: Sandbox;
let place: Workplace;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-forget-'));
  mkdirSync(path.join(folder, 'mail'));
  writeFileSync(path.join(folder, 'mail', '1.eml'), secret);
  writeFileSync(path.join(folder, 'mail', '2.eml'), other);
  for (let n = 3; n < 20; n += 1) {
    writeFileSync(
      path.join(folder, 'mail', `${n}.eml`),
      `From: a@example.org\r\nSubject: letter ${n}\r\nMessage-ID: <${n}@x>\r\n\r\nhello ${n}\r\n`,
    );
  }
  sandbox = await startSandbox({ seed: 5, from: [path.join(folder, 'mail')] });
  place = workplace(sandbox);
});
afterAll(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true, force: true });
  rmSync(place.folder, { recursive: true, force: true });
});

const run = (...args: string[]) => mailkeep([...args, '--config', place.config]);

const found = (): string[] => wordsIn(place.data);

const id = hash('sha256', secret);

test('what is forgotten is in no file any more, and does not come back', async () => {
  expect((await run('sync', '--quiet')).code).toBe(0);
  writeFileSync(path.join(place.data, 'log', 'tail-1.bin'), secret, { mode: 0o600 });
  writeFileSync(path.join(place.data, 'catalog.sqlite.before-repair-1'), secret, { mode: 0o600 });
  expect(found()).toEqual(Object.keys(WORDS));

  const asked = await run('forget', id.slice(0, 12));
  expect(asked.code).toBe(2);
  expect(found()).toEqual(Object.keys(WORDS));

  const gone = await run('forget', id.slice(0, 12), '--yes', '--json');
  expect([gone.code, gone.stderr.includes('Error')]).toEqual([0, false]);
  const [said] = jsonLines(gone.stdout);
  expect(said).toMatchObject({
    forgotten: [id],
    shared: [{ message: id, with: hash('sha256', other) }],
  });
  expect(found()).toEqual([]);
  expect(everything(place.data)).toContain('zebrasharedword');

  const verified = await run('verify', '--json');
  expect([verified.code, jsonLines(verified.stdout)]).toMatchObject([0, [{ ok: true }]]);

  const shown = await run('show', id, '--json');
  expect(shown.code).toBe(2);
  expect(JSON.parse(shown.stderr)).toMatchObject({ error: { code: 'message-purged' } });
  expect(shown.stderr).toContain(`${id} was forgotten at 20`);
  const history = await run('history', id.slice(0, 20), '--json');
  expect(jsonLines(history.stdout)).toMatchObject([{ event: 'purged', id }]);

  const before = sandbox.requests().byOperation.getMessageSource;
  for (const full of [[], ['--full']]) {
    const again = await run('sync', '--json', ...full);
    expect(again.code).toBe(0);
    const certificates = Object(jsonLines(again.stdout).at(-1)).certificates;
    expect(certificates).toContainEqual(
      expect.objectContaining({ complete: true, forgotten: 1, stored: 18, originTotal: 19 }),
    );
  }
  expect(sandbox.requests().byOperation.getMessageSource).toBe(before);
  expect(found()).toEqual([]);
  // The same command again has nothing to do.
  const twice = await run('forget', id, '--yes', '--json');
  expect([twice.code, jsonLines(twice.stdout)]).toMatchObject([0, [{ forgotten: [id] }]]);
}, 120_000);

test('what was forgotten from quarantine leaves no listing and no kept byte, and is not asked for again', async () => {
  const mailboxes = [...sandbox.service.store.mailboxes.values()];
  const inbox = [...(mailboxes[0]?.folders.values() ?? [])].find(({ path: at }) => at === 'INBOX');
  if (mailboxes[0] === undefined || inbox === undefined) throw new Error('no INBOX');
  const source = Buffer.from(
    `From: ferrywait@example.org\r\nSubject: gladenough\r\n\r\n${'ostrichkept '.repeat(50)}\r\n`,
  );
  const uid = deliver(sandbox.service, mailboxes[0], inbox, source);
  sandbox.fault({ kind: 'cut', mode: 'silent', keep: 0.9, operation: 'getMessageSource' });
  expect((await run('sync', '--quiet')).code).toBe(1);
  const words = ['gladenough', 'ferrywait', 'ostrichkept'];
  expect(words.filter((word) => everything(place.data).includes(word))).toEqual(words);
  const choice = ['--quarantine', '--folder', 'INBOX', '--uid', String(uid)];
  expect((await run('forget', ...choice, '--yes')).code).toBe(0);
  expect(words.filter((word) => everything(place.data).includes(word))).toEqual([]);
  expect((await run('verify')).code).toBe(0);
  sandbox.clearFaults();
  const before = sandbox.requests().byOperation.getMessageSource;
  expect((await run('sync', '--full', '--quiet')).code).toBe(0);
  expect(sandbox.requests().byOperation.getMessageSource).toBe(before);
  expect((await run('forget', ...choice, '--yes')).code).toBe(2);
}, 120_000);

test('killed while it removes records, or rebuilds the catalog, the same command finishes', async () => {
  for (const [n, moment] of ['Taking', 'Rebuilding the catalog', 'Reading'].entries()) {
    const raw = readFileSync(path.join(folder, 'mail', `${10 + n}.eml`));
    const args = ['forget', hash('sha256', raw), '--yes', '--config', place.config];
    const { child, ended } = start(args);
    child.stderr.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes(moment)) child.kill('SIGKILL');
    });
    await ended;
    expect((await run('verify', '--quiet')).code).toBe(0);
    expect((await mailkeep(args)).code).toBe(0);
    expect(everything(place.data)).not.toContain(`hello ${10 + n}\r`);
    expect((await run('verify', '--quiet')).code).toBe(0);
    expect(readdirSync(place.data)).not.toContain('purge.json');
  }
  expect((await run('sync', '--quiet')).code).toBe(0);
}, 240_000);

test('a second copy has it purged as well', async () => {
  const copy = path.join(folder, 'copy');
  const third = [...new Set(readdirSync(path.join(folder, 'mail')))].find(
    (name) => name === '7.eml',
  );
  const raw = readFileSync(path.join(folder, 'mail', third ?? ''));
  expect((await run('copy', '--to', copy, '--rebuild')).code).toBe(0);
  expect(everything(copy)).toContain('hello 7');
  // What a repair there put aside, and a tail.
  for (const name of ['0000000001.1.seg.damaged', '0000000001.1.seg.damaged-2', 'tail-1.bin']) {
    writeFileSync(path.join(copy, 'log', name), raw, { mode: 0o600 });
  }
  expect((await run('forget', hash('sha256', raw), '--yes')).code).toBe(0);
  const level = await run('copy', '--to', copy, '--rebuild');
  expect([level.code, level.stderr]).toEqual([0, '']);
  expect(everything(copy)).not.toContain('hello 7');
  expect(everything(copy)).toContain('hello 8');
  expect((await mailkeep(['verify', '--data', copy])).code).toBe(0);
}, 120_000);
