import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ran } from '../cli/surface.ts';
import { message } from '../offsite/copy-program.ts';

const SECRETS = ['secret-token', 'secret-path', 'secret-password', 'secret-command', 'secret-push'];
const CONFIG = {
  dataDir: './data',
  accounts: [
    { name: 'plain', baseUrl: 'https://mail.example.com', token: 'secret-token' },
    { name: 'kept', baseUrl: 'https://mail.example.com', token: { file: './token' } },
  ],
  notify: { url: 'https://ntfy.example.com/secret-path', command: 'mail -p secret-command' },
  webhook: { listen: '127.0.0.1:8025', publicUrl: 'https://hooks.example.com/secret-push' },
  schedule: { sync: '*/7 * * * *' },
};

let work: string;
const run = (...args: string[]) => ran(args, { cwd: work });
beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'carried-'));
  writeFileSync(path.join(work, 'config.json'), JSON.stringify(CONFIG), { mode: 0o600 });
  writeFileSync(path.join(work, 'one.eml'), message(1, 'walrus'));
  for (const args of [
    ['import', 'one.eml'],
    ['search', 'from:ruth walrus', '--save', 'mine'],
    ['copy', 'init', '--to', 'vault', '--recovery-key-file', 'key.txt'],
  ]) {
    const { code, stderr } = await run(...args);
    expect([args, code], stderr).toEqual([args, 0]);
  }
});
afterAll(() => rmSync(work, { recursive: true }));

/** What is on a new machine after `copy --from`, and what it said. */
async function broughtBack(from: string, to: string) {
  const { code, stdout, stderr } = await run(
    ...[
      'copy',
      '--from',
      from,
      '--to',
      to,
      ...(from === 'vault' ? ['--recovery-key-file', 'key.txt'] : []),
    ],
  );
  expect(code, stderr).toBe(0);
  const text = readFileSync(path.join(work, to, 'config.json'), 'utf8');
  return { stdout, text, config: JSON.parse(text) as typeof CONFIG };
}

/** Everything in a folder as text. */
function contentOf(folder: string): string {
  return readdirSync(path.join(work, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'latin1'))
    .join('\n');
}

test.each(['vault', 'readable'])(
  '%s: settings and saved searches come back, secrets do not',
  async (target) => {
    expect((await run('copy', '--to', target)).code).toBe(0);
    const back = await broughtBack(target, `back-${target}`);
    expect(back.config).toMatchObject({ dataDir: '.', schedule: { sync: '*/7 * * * *' } });
    expect(back.config.accounts.map(({ token }) => token)).toEqual([
      undefined,
      { file: './token' },
    ]);
    for (const secret of SECRETS) {
      expect(back.text).not.toContain(secret);
      expect(contentOf(target)).not.toContain(secret);
    }
    for (const field of [
      'accounts[0].token',
      'accounts[1].token (file ./token)',
      ...['notify.url', 'notify.command', 'webhook.publicUrl'],
    ]) {
      expect(back.stdout).toContain(field);
    }
    const found = await run('search', '@mine', '--json', '--data', `back-${target}`);
    expect(found.stdout).toContain('walrus');
    expect((await run('verify', '--data', `back-${target}`)).code).toBe(0);
  },
);

test('an encrypted copy shows nothing of them, and the same ones are stored once', async () => {
  expect(contentOf('vault')).not.toMatch(/ruth|example\.com|schedule/);
  const names = () => readdirSync(path.join(work, 'vault', 'settings'));
  const before = names();
  expect(before.length).toBe(1);
  await run('copy', '--to', 'vault');
  expect(names()).toEqual(before);
  await run('search', 'heron', '--save', 'other');
  await run('copy', '--to', 'vault');
  expect(names()).not.toEqual(before);
  expect(names().length).toBe(1);
  // From elsewhere, without a configuration, the known one stays.
  mkdirSync(path.join(work, 'away'));
  const now = names();
  const away = ['copy', '--to', path.join(work, 'vault'), '--data', path.join(work, 'data')];
  expect((await ran(away, { cwd: path.join(work, 'away') })).code).toBe(0);
  expect(names()).toEqual(now);
});

test.each(['flipped', 'deleted'])(
  'settings that are %s are reported and stored again',
  async (how) => {
    const [name = ''] = readdirSync(path.join(work, 'vault', 'settings'));
    const file = path.join(work, 'vault', 'settings', name);
    const bytes = readFileSync(file);
    const changed = Buffer.from(bytes);
    changed[1_000] = (changed[1_000] ?? 0) ^ 1;
    if (how === 'flipped') writeFileSync(file, changed);
    else rmSync(file);
    expect((await run('verify', '--copy', 'vault')).code).toBe(3);
    expect((await run('status')).code).toBe(3);
    expect((await run('copy', '--to', 'vault')).code).toBe(3);
    expect(readFileSync(file)).toEqual(bytes);
    expect((await run('verify', '--copy', 'vault')).code).toBe(0);
  },
);
