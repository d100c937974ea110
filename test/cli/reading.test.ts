import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, syncedFrom, type Workplace, workplace } from './child.ts';

/** Escape sequences that set titles, clear screens and report back; C1 controls; a bidi override. */
const EVIL = '\u001b]0;owned\u0007\u001b[2J\u001b[6n\u009b31m\u202egnp.exe';

/** Mail as an attacker would write it, and one plain message. */
const SOURCES: Readonly<Record<string, Buffer>> = {
  'hostile.eml': Buffer.from(
    [
      'Message-ID: <hostile@evil.example>',
      'Date: Mon, 02 Feb 2026 10:00:00 +0000',
      `From: =?utf-8?B?${base64(`Eve ${EVIL}`)}?= <eve@evil.example>`,
      'To: ada@example.org',
      `Subject: =?utf-8?B?${base64(`dangerword ${EVIL}`)}?=`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary=cut',
      '',
      '--cut',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: base64',
      '',
      base64(`A body with dangerword and ${EVIL}\n`),
      '--cut',
      'Content-Type: text/html; charset=utf-8',
      'Content-Transfer-Encoding: base64',
      '',
      base64(`<p>A page with dangerword and ${EVIL}</p>\n`),
      '--cut',
      'Content-Type: application/octet-stream',
      `Content-Disposition: attachment; filename*=utf-8''${encodeURIComponent(`../../../${EVIL}\u0000.sh`)}`,
      'Content-Transfer-Encoding: base64',
      '',
      base64('payload one'),
      '--cut',
      'Content-Type: application/octet-stream',
      'Content-Disposition: attachment; filename="/etc/passwd"',
      '',
      'payload two',
      '--cut--',
      '',
    ].join('\r\n'),
  ),
  'plain.eml': Buffer.from(
    [
      'Message-ID: <plain@example.org>',
      'Date: Tue, 03 Feb 2026 10:00:00 +0000',
      'From: Anna Berg <anna@example.org>',
      'To: ada@example.org',
      'Subject: The blue lighthouse',
      '',
      'We saw the lighthouse from the ferry.',
      '',
    ].join('\r\n'),
  ),
};

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  ({ sandbox, work } = await syncedFrom(Object.values(SOURCES)));
});
afterAll(() => sandbox.close());

const on = (...args: string[]) => mailkeep([...args, '--data', work.data]);

async function idOf(word: string): Promise<string> {
  const [line] = jsonLines((await on('search', word, '--json')).stdout);
  if (typeof line === 'object' && line !== null && 'id' in line && typeof line.id === 'string') {
    return line.id;
  }
  throw new Error(`nothing found for ${word}`);
}

test('search needs no account, no network, no configuration: JSON Lines of the contract', async () => {
  const { code, stdout, stderr } = await on('search', 'blue', 'lighthouse', '--json');
  expect([code, stderr]).toEqual([0, '']);
  expect(jsonLines(stdout)).toEqual([
    {
      id: expect.stringMatching(/^[0-9a-f]{64}$/),
      mailbox: 'ada@example.org',
      folder: 'INBOX',
      uid: expect.any(Number),
      flags: expect.any(Array),
      size: SOURCES['plain.eml']?.length,
      date: expect.stringMatching(/Z$/),
      subject: 'The blue lighthouse',
      from: { name: 'Anna Berg', address: 'anna@example.org' },
      messageId: '<plain@example.org>',
      firstSeen: expect.stringMatching(/Z$/),
      endedAt: null,
      places: [expect.objectContaining({ folder: 'INBOX', endedAt: null })],
      snippet: expect.stringContaining('lighthouse from the ferry'),
      attachments: [],
      matchedAttachments: [],
    },
  ]);
});

test('no hits are no failure; a word may begin with a minus', async () => {
  const nothing = await on('search', 'xylophone', '--json');
  expect(nothing).toMatchObject({ code: 0, stdout: '', stderr: '' });
  const one = await on('search', 'from:anna', '-is:deleted', '--count');
  expect(one).toMatchObject({ code: 0, stdout: '1\n' });
  const typo = await on('search', 'anna', '--limt', '5');
  expect(typo.code).toBe(2);
  expect(typo.stderr).toContain("Unknown option '--limt'");
});

test('a query that cannot be understood is exit 2, and points at the place', async () => {
  const { code, stderr } = await on('search', 'anna frm:bob');
  expect(code).toBe(2);
  expect(stderr).toContain('(character 6)');
  expect(stderr).toContain('Did you mean from:?');
});

test.each([
  ['before:01/02/2026', 'Write it as year-month-day: before:2026-03-01.'],
  ['subject: rent', 'Write the value without a space before it: from:anna, subject:"rent due".'],
])('%s is refused with a line that can be typed', async (query, hint) => {
  const { code, stderr } = await on('search', query);
  expect([code, stderr.trimEnd().split('\n').at(-1)]).toEqual([2, hint]);
});

test('nothing that mail says can steer a terminal', async () => {
  const id = await idOf('dangerword');
  const printed = await Promise.all(
    [
      ['search', 'dangerword'],
      ['list'],
      ['show', id],
      ['show', id, '--headers'],
      ['show', id, '--html'],
      ['attachments', id],
      ['search', 'dangerword', '--json'],
      ['list', '--json'],
      ['show', id, '--json'],
    ].map((args) => on(...args)),
  );
  for (const { code, stdout, stderr } of printed) {
    expect(code).toBe(0);
    expect(stdout + stderr).not.toMatch(
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/,
    );
  }
  for (const { stdout } of printed.slice(0, 6)) expect(stdout).not.toMatch(/[\u202a-\u202e]/);
  expect(printed[2]?.stdout).toContain('dangerword');
});

test('attachments are saved under safe names, inside the folder, over nothing', async () => {
  const id = await idOf('dangerword');
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-saved-'));
  const target = path.join(folder, 'inside');
  mkdirSync(target);
  writeFileSync(path.join(target, 'passwd'), 'mine');
  const { code, stdout } = await on('attachments', id, '--save', target, '--json');
  expect(code).toBe(0);
  expect(jsonLines(stdout)).toHaveLength(2);
  expect(readdirSync(folder)).toEqual(['inside']);
  const names = readdirSync(target).sort();
  expect(names).toHaveLength(3);
  for (const name of names) expect(name).not.toMatch(/[/\\\p{Cc}\p{Cf}]|^\.|^-/u);
  expect(readFileSync(path.join(target, 'passwd'), 'utf8')).toBe('mine');
  const contents = names.map((name) => readFileSync(path.join(target, name), 'utf8').trimEnd());
  expect(contents.sort()).toEqual(['mine', 'payload one', 'payload two']);
});

test('a folder for attachments is its owner’s, whatever the umask', async () => {
  const id = await idOf('dangerword');
  const target = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-saved-')), 'new', 'one');
  const umask = process.umask(0);
  const saving = on('attachments', id, '--save', target);
  expect((await saving.finally(() => process.umask(umask))).code).toBe(0);
  for (const folder of [target, path.dirname(target)])
    expect(statSync(folder).mode & 0o777).toBe(0o700);
});

test('--raw gives the source back, byte for byte, escape sequences and all', async () => {
  for (const [word, name] of [
    ['dangerword', 'hostile.eml'],
    ['lighthouse', 'plain.eml'],
  ] as const) {
    const { bytes } = await on('show', await idOf(word), '--raw');
    expect(bytes.equals(SOURCES[name] ?? Buffer.alloc(0))).toBe(true);
  }
});

test('--html gives a page that is safe to open, or says that there is none', async () => {
  const [hostile, plain] = await Promise.all([idOf('dangerword'), idOf('lighthouse')]);
  const html = (id: string, ...more: string[]) => on('show', id, '--html', ...more);
  const page = (await html(hostile)).stdout;
  expect(page).toMatch(/^<!doctype html>/);
  expect(page).toMatch(/<p>A page with dangerword and .*<\/p>/);
  expect(page).toContain("default-src 'none'");
  expect(JSON.parse((await html(hostile, '--json')).stdout)).toMatchObject({
    id: hostile,
    html: expect.stringContaining('<p>A page'),
  });
  expect(await html(plain)).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('has no HTML'),
  });
  expect(JSON.parse((await html(plain, '--json')).stdout)).toEqual({ id: plain, html: null });
});

test('show --json spells sender, id and date as list and search do', async () => {
  const id = await idOf('lighthouse');
  const [listed] = jsonLines((await on('search', 'lighthouse', '--json')).stdout);
  const shown: unknown = JSON.parse((await on('show', id, '--json')).stdout);
  const spelled = {
    id,
    from: { name: 'Anna Berg', address: 'anna@example.org' },
    messageId: '<plain@example.org>',
    subject: 'The blue lighthouse',
    date: expect.any(String),
    size: SOURCES['plain.eml']?.length,
  };
  expect(listed).toMatchObject(spelled);
  expect(shown).toMatchObject(spelled);
  expect(shown).toMatchObject({ date: Object(listed).date, to: 'ada@example.org' });
});

test('show takes one form at a time', async () => {
  for (const forms of [
    ['--raw', '--headers'],
    ['--html', '--raw'],
    ['--headers', '--html'],
  ]) {
    const { code, stderr, stdout } = await on('show', 'ab', ...forms);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('cannot be used with');
  }
});

test('ids are distinguished: unknown, ambiguous, or missing an archive', async () => {
  const unknown = await on('show', 'ffffffffffff', '--json');
  expect(unknown.code).toBe(2);
  expect(JSON.parse(unknown.stderr)).toMatchObject({ error: { code: 'usage-unknown-message' } });
  const nowhere = await mailkeep(['list', '--data', path.join(work.folder, 'nowhere')]);
  expect(nowhere.code).toBe(2);
  expect(nowhere.stderr).toContain('There is no archive in');
});

test('a lost catalog is said, and rebuilt from the log', async () => {
  const before = await on('list', '--json');
  for (const name of ['catalog.sqlite', 'catalog.sqlite-wal', 'catalog.sqlite-shm']) {
    rmSync(path.join(work.data, name), { force: true });
  }
  const missing = await on('list');
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain('mailkeep rebuild');
  const rebuilt = await on('rebuild', '--json');
  expect(rebuilt).toMatchObject({ code: 0, stderr: '' });
  const result = JSON.parse(rebuilt.stdout);
  expect(result).toMatchObject({ messages: 2, indexed: 2, damage: [] });
  const { indexMs, attachmentsMs } = result.timings;
  expect(Math.min(indexMs, attachmentsMs)).toBeGreaterThanOrEqual(0);
  expect(indexMs + attachmentsMs).toBe(result.durationMs);
  expect((await on('list', '--json')).stdout).toBe(before.stdout);
});

test('a flipped bit in the log is exit 3, named, and nothing is changed', async () => {
  const own = workplace(sandbox);
  expect((await mailkeep(['sync', '--config', own.config])).code).toBe(0);
  const log = path.join(own.data, 'log');
  const file = path.join(log, readdirSync(log).find((name) => name.endsWith('.seg')) ?? '');
  const bytes = readFileSync(file);
  const at = bytes.indexOf('lighthouse');
  expect(at).toBeGreaterThan(0);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(file, bytes);
  const [line] = jsonLines(
    (await mailkeep(['search', 'lighthouse', '--json', '--data', own.data])).stdout,
  );
  expect(line).toBeDefined();
  const raw = await mailkeep([
    'show',
    await idOf('lighthouse'),
    '--raw',
    '--json',
    '--data',
    own.data,
  ]);
  expect(raw.code).toBe(3);
  expect(JSON.parse(raw.stderr)).toMatchObject({ error: { code: 'message-damaged' } });
  const verified = await mailkeep(['verify', '--data', own.data]);
  expect(verified.code).toBe(3);
  expect(verified.stdout.trimEnd().split('\n').at(-1)).toContain('"mailkeep verify --repair"');
  expect(verified.stdout).not.toContain('mailkeep rebuild');
  const rebuilt = await mailkeep(['rebuild', '--data', own.data]);
  expect(rebuilt.code).toBe(3);
  expect(rebuilt.stdout).toContain('DAMAGED');
  expect(readFileSync(file).equals(bytes)).toBe(true);
});

test('a stale mailbox is exit 1 for monitoring', async () => {
  const { code, stdout } = await on('status', '--max-age', '0s', '--json');
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({
    fresh: false,
    stale: expect.arrayContaining(['ada@example.org']),
  });
  const printed = await on('status', '--max-age', '0s', '--quiet');
  expect([printed.code, printed.stdout]).toEqual([
    1,
    expect.stringMatching(/^Stale: .*ada@example.org/m),
  ]);
  expect((await on('status', '--max-age', '9999d')).code).toBe(0);
});

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

test('list says that an empty folder is empty', async () => {
  const list = (...more: string[]) => on('list', ...more);
  const empty = { code: 0, stdout: '' };
  const drafts = ['--folder', 'INBOX.Drafts'];
  expect(await list(...drafts)).toMatchObject({ ...empty, stderr: 'No messages.\n' });
  expect(await list(...drafts, '--quiet')).toMatchObject({ ...empty, stderr: '' });
  expect(await list(...drafts, '--json')).toMatchObject({ ...empty, stderr: '' });
  expect((await list('--deleted')).stderr).toBe('No deleted messages.\n');
});

test('list prints as many places as it is asked for, the newest', async () => {
  const list = async (...more: string[]) => {
    const { stdout } = await on('list', ...more, '--json');
    return jsonLines(stdout);
  };
  const all = await list();
  expect(all).toHaveLength(2);
  expect(await list('--limit', '1')).toEqual(all.slice(0, 1));
  expect(await list('--limit', '1', '--folder', 'INBOX')).toEqual(all.slice(0, 1));
  expect(await list('--limit', '5')).toEqual(all);
  const none = await on('list', '--limit', '0');
  expect(none.code).toBe(2);
});
