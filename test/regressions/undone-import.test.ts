import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { seeded } from '../bench/seeded.ts';
import { mailkeep, start, workplace } from '../cli/child.ts';
import { type Ran, ran } from '../cli/surface.ts';
import { everything } from '../retention/everything.ts';

let folder: string;
let data: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-undo-'));
  data = path.join(folder, 'data');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A message with words of its own in every part that is stored. */
function letter(word: string): string {
  return `From: ${word}from@example.org\r\nSubject: ${word}subject\r\nMessage-ID: <${word}@x>\r\nDate: Mon, 2 Feb 2026 10:00:00 +0000\r\n\r\n${word}body\r\n`;
}

/** Writes messages into folders and returns the path of all: `{ Lists: ['a'] }`; INBOX lies at the top. */
function backup(name: string, folders: Readonly<Record<string, readonly string[]>>): string {
  const at = path.join(folder, name);
  for (const [where, words] of Object.entries(folders)) {
    const into = where === 'INBOX' ? at : path.join(at, where);
    mkdirSync(into, { recursive: true });
    for (const word of words) writeFileSync(path.join(into, `${word}.eml`), letter(word));
  }
  return at;
}

const run = (...args: string[]) => ran([...args, '--data', data]);
const json = ({ stdout }: Ran) => JSON.parse(stdout);

async function imported(from: string, mailbox: string): Promise<number> {
  const done = await run('import', from, '--mailbox', mailbox, '--json');
  expect(done.code).toBe(0);
  return json(done).run;
}

/** Mailbox, folder and subject of every place, sorted. */
async function places(...args: string[]): Promise<string[]> {
  const { stdout } = await run('list', '--json', ...args);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { mailbox, folder: where, subject } = JSON.parse(line);
      return `${mailbox}/${where}/${subject.replace(/subject$/, '')}`;
    })
    .sort();
}

async function isSound(): Promise<void> {
  expect(json(await run('verify', '--json'))).toMatchObject({ ok: true });
  expect((await run('status')).code).toBeLessThan(3);
}

test('an import is undone and another one into the same mailbox stays', async () => {
  const first = await imported(backup('1', { INBOX: ['wrong', 'bad'], Lists: ['list'] }), 'Old');
  const second = await imported(backup('2', { INBOX: ['right', 'bad'] }), 'Old');
  expect(second).toBeGreaterThan(first);

  const would = await run('import', '--undo', String(first), '--dry-run');
  expect(would).toMatchObject({ code: 0 });
  expect(would.stdout).toMatch(/^Would undo import \d+ into Old, with 3 messages \(/);
  expect(await places()).toEqual([
    'Old/INBOX/bad',
    'Old/INBOX/right',
    'Old/INBOX/wrong',
    'Old/Lists/list',
  ]);
  // A destructive command asks, and there is no terminal here.
  expect((await run('import', '--undo', String(first))).code).toBe(2);

  const undone = await run('import', '--undo', String(first), '--yes', '--json');
  expect(undone.code).toBe(0);
  expect(json(undone)).toMatchObject({
    ...{ dryRun: false, run: first, places: 3, messages: 3, staying: 0 },
    mailboxes: [{ address: 'Old', whole: false }],
  });
  expect(await places()).toEqual(['Old/INBOX/right']);
  expect(await places('--deleted')).toEqual([]);
  const left = everything(data);
  for (const word of ['wrong', 'bad', 'list']) expect(left).not.toContain(`${word}body`);
  for (const word of ['wrong', 'list']) expect(left).not.toContain(`${word}subject`);
  expect(left).toContain('rightbody');
  await isSound();
  // The folder that the import made is gone with it.
  expect((await run('list', '--folder', 'Lists')).code).toBe(2);

  const list = await run('import', '--list');
  expect(list.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(2))).toEqual([
    ['MAILBOX', 'ADDED', 'STILL THERE'],
    ['Old', '1 message', '1 place'],
    ['Old', '3 messages', 'undone'],
    [],
  ]);
  const twice = await run('import', '--undo', String(first), '--yes');
  expect(twice).toMatchObject({
    code: 0,
    stdout: `Import ${first} into Old is undone already: the archive has none of its messages.\n`,
  });

  // What was undone may be imported again.
  const again = json(await run('import', path.join(folder, '1'), '--mailbox', 'Old', '--json'));
  expect(again).toMatchObject({ added: 3, forgotten: 0 });
  await isSound();
});

test('the last import into a mailbox takes the mailbox with it', async () => {
  const only = await imported(backup('1', { INBOX: ['one'], Sent: ['two', 'one'] }), 'Once');
  const undone = json(await run('import', '--undo', String(only), '--yes', '--json'));
  expect(undone).toMatchObject({
    ...{ messages: 2, places: 3 },
    mailboxes: [{ address: 'Once', whole: true }],
  });
  expect(everything(data)).not.toContain('"address":"once"');
  expect((await run('list', '--mailbox', 'Once')).code).toBe(2);
  await isSound();
});

test('messages that another mailbox has stay there, until they are undone there too', async () => {
  const both = backup('both', { INBOX: ['shared'] });
  const kept = await imported(both, 'Kept');
  const undo = await imported(backup('more', { INBOX: ['shared', 'own'], Two: ['own'] }), 'Wrong');
  const undone = json(await run('import', '--undo', String(undo), '--yes', '--json'));
  expect(undone).toMatchObject({ places: 3, messages: 1, staying: 1 });
  expect(await places()).toEqual(['Kept/INBOX/shared']);
  expect(await places('--deleted')).toEqual([]);
  expect(everything(data)).toContain('sharedbody');
  await isSound();
  const last = json(await run('import', '--undo', String(kept), '--yes', '--json'));
  expect(last).toMatchObject({ messages: 1, staying: 0 });
  expect(everything(data)).not.toContain('sharedbody');
  await isSound();
});

test('an undo that was killed is finished by the same command', async () => {
  const undo = await imported(backup('1', { INBOX: ['one', 'two', 'three'] }), 'Old');
  await imported(backup('2', { INBOX: ['four'] }), 'New');
  const { child, ended } = start(['import', '--undo', String(undo), '--yes', '--data', data]);
  child.stderr.on('data', (chunk) => {
    if (String(chunk).includes('from the log')) child.kill('SIGKILL');
  });
  await once(child, 'close');
  expect((await ended).signal).toBe('SIGKILL');
  expect(await places()).toEqual(['New/INBOX/four']);
  expect(json(await run('verify', '--json'))).toMatchObject({ ok: true });
  expect(await run('import', '--undo', String(undo), '--yes')).toMatchObject({ code: 0 });
  expect(everything(data)).not.toContain('onebody');
  expect(await places()).toEqual(['New/INBOX/four']);
  await isSound();
});

test('an import without a record is refused, with the way that is left', async () => {
  await imported(backup('1', { INBOX: ['one'] }), 'Old');
  rmSync(path.join(data, 'state.sqlite'));
  const refused = await run('import', '--undo', '1', '--yes');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('mailkeep forget --mailbox');
  expect(await run('forget', '--mailbox', 'old', '--yes')).toMatchObject({ code: 0 });
  expect(await places()).toEqual([]);
  for (const wrong of [
    ['import'],
    ['import', '--list', folder],
    ['import', '--undo', '1', folder],
    ['forget', '--mailbox', 'nobody@example.org', '--yes'],
    ['forget', '--mailbox', 'Old', '--folder', 'INBOX'],
    ['forget', '--mailbox', 'Old', 'abcdef12'],
  ]) {
    expect([wrong, (await run(...wrong)).code]).toEqual([wrong, 2]);
  }
});

test('a mailbox of the service goes, mail that was imported too stays, and a sync brings it back', async () => {
  const mail = path.join(folder, 'mail');
  mkdirSync(mail);
  for (const word of ['both', 'hosted'])
    writeFileSync(path.join(mail, `${word}.eml`), letter(word));
  const sandbox = await startSandbox({ seed: 4, from: [mail] });
  const place = workplace(sandbox);
  const hosted = (...args: string[]) => mailkeep([...args, '--config', place.config]);
  data = place.data;
  try {
    const undo = await imported(backup('1', { INBOX: ['both', 'backup'] }), 'Backup');
    expect((await hosted('sync', '--quiet')).code).toBe(0);
    const all = await places();
    const { address } = json(await run('import', '--undo', String(undo), '--yes', '--json'))
      .mailboxes[0];
    expect(address).toBe('Backup');
    const synced = all.filter((line) => !line.startsWith('Backup/'));
    expect(synced.length).toBe(2);
    expect(await places()).toEqual(synced);
    expect(everything(data)).toContain('bothbody');
    await isSound();

    const copy = path.join(folder, 'copy');
    await imported(path.join(folder, '1'), 'Backup');
    expect((await hosted('copy', '--to', copy)).code).toBe(0);
    const [mailbox = ''] = synced[0]?.split('/') ?? [];
    const would = await run('forget', '--mailbox', mailbox, '--dry-run');
    expect(would.stdout).toContain('with 1 message (');
    expect(would.stdout).toContain('1 message stays in the archive');
    expect(would.stdout).toContain('mailboxes.exclude');
    const gone = await hosted('forget', '--mailbox', mailbox, '--yes');
    expect(gone.code).toBe(0);
    expect(await places()).toEqual(['Backup/INBOX/backup', 'Backup/INBOX/both']);
    const left = everything(data);
    expect([left.includes('hostedbody'), left.includes('hostedsubject')]).toEqual([false, false]);
    await isSound();
    expect((await hosted('copy', '--to', copy)).code).toBe(0);
    expect((await hosted('verify', '--copy', copy)).code).toBe(0);
    expect(everything(data)).not.toContain('hostedbody');

    const back = await hosted('sync', '--json');
    expect(back.code).toBe(0);
    expect(await places('--mailbox', mailbox)).toEqual(synced);
    await isSound();
  } finally {
    await sandbox.close();
    rmSync(place.folder, { recursive: true, force: true });
  }
}, 600_000);

test('a hold keeps what it names', async () => {
  const undo = await imported(backup('1', { INBOX: ['lawyer', 'other'] }), 'Case');
  const config = path.join(folder, 'config.json');
  for (const hold of [{ mailbox: 'Cas*' }, { query: 'subject:lawyersubject' }]) {
    const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }];
    const content = JSON.stringify({ accounts, retention: { hold: [hold] } });
    writeFileSync(config, content, { mode: 0o600 });
    for (const args of [
      ['import', '--undo', String(undo), '--yes'],
      ['import', '--undo', String(undo), '--dry-run'],
      ['forget', '--mailbox', 'Case', '--yes'],
    ]) {
      const held = await run(...args, '--config', config);
      expect([args, held.code]).toEqual([args, 4]);
      expect(held.stderr).toContain('a hold of the configuration');
    }
  }
  expect(await places()).toEqual(['Case/INBOX/lawyer', 'Case/INBOX/other']);
});

const SEED = Number(process.env.MAILKEEP_SEED ?? 11);

test('random imports, undone in any order, leave what the others brought', async () => {
  console.info(`MAILKEEP_SEED=${SEED}`);
  const { below: draw } = seeded('undo', SEED);
  /** By place: the import that added it. */
  const model = new Map<string, number>();
  let runs: number[] = [];
  for (let step = 0; step < 14; step += 1) {
    const kind = draw(10);
    if (kind < 6 || runs.length === 0) {
      const mailbox = ['A', 'B'][draw(2)] ?? 'A';
      const chosen: Record<string, string[]> = {};
      for (let n = 0; n <= draw(5); n += 1) {
        const where = ['INBOX', 'Sent', 'Lists'][draw(3)] ?? 'INBOX';
        chosen[where] = [...(chosen[where] ?? []), `w${draw(8)}x`];
      }
      const done = await run('import', backup(`s${step}`, chosen), '--mailbox', mailbox, '--json');
      const { run: number } = json(done);
      for (const [where, words] of Object.entries(chosen)) {
        for (const word of words) {
          const key = `${mailbox}/${where}/${word}`;
          if (!model.has(key)) model.set(key, number);
        }
      }
      if (number !== null) runs.push(number);
    } else if (kind < 9) {
      const undo = runs[draw(runs.length)] ?? 0;
      expect((await run('import', '--undo', String(undo), '--yes')).code).toBe(0);
      for (const [key, by] of model) if (by === undo) model.delete(key);
      runs = runs.filter((one) => one !== undo);
    } else {
      const known = [...model.keys()].some((key) => key.startsWith('B/'));
      expect((await run('forget', '--mailbox', 'B', '--yes')).code).toBe(known ? 0 : 2);
      for (const key of model.keys()) if (key.startsWith('B/')) model.delete(key);
    }
    expect([step, await places()]).toEqual([step, [...model.keys()].sort()]);
    const bytes = everything(data);
    for (let word = 0; word < 8; word += 1) {
      const isThere = [...model.keys()].some((key) => key.endsWith(`/w${word}x`));
      expect([step, word, bytes.includes(`w${word}xbody`)]).toEqual([step, word, isThere]);
    }
  }
  await isSound();
}, 240_000);

test('the progress counts the messages that go, by an undone import and with a mailbox', async () => {
  const first = await imported(backup('first', { INBOX: ['a', 'b'] }), 'one');
  await imported(backup('second', { INBOX: ['c'] }), 'two');
  const undone = await run('import', '--undo', String(first), '--yes');
  expect([undone.code, undone.stderr]).toEqual([
    0,
    expect.stringContaining('Removing 2 messages from the log.'),
  ]);
  const forgotten = await run('forget', '--mailbox', 'two', '--yes');
  expect([forgotten.code, forgotten.stderr]).toEqual([
    0,
    expect.stringContaining('Removing 1 message from the log.'),
  ]);
});
