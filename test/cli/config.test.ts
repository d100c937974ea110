import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { mailkeep } from './child.ts';

const SECRETS = {
  literal: 'literal-token-4711',
  platform: 'platform-token-4712',
  url: 'https://notify.example.net/T000/secret-4713',
  command: '/usr/bin/notify --password secret-4714',
  public: 'https://user:secret-4715@hooks.example.net/mail',
};
const CONTENT = {
  accounts: [
    {
      name: 'main',
      baseUrl: 'https://mail.example.net',
      token: SECRETS.literal,
      platform: { url: 'https://platform.example.net', token: SECRETS.platform, orderId: 'O1' },
      folders: { exclude: ['INBOX.Junk'] },
    },
    { name: 'second', baseUrl: 'https://mail.example.net', token: { env: 'SECOND_TOKEN' } },
  ],
  rateLimit: { requestsPerMinute: 60 },
  webhook: { publicUrl: SECRETS.public },
  notify: { command: SECRETS.command, url: SECRETS.url },
};

let folder: string;
let file: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'mailkeep-config-')));
  file = path.join(folder, 'config.json');
  writeFileSync(file, JSON.stringify(CONTENT), { mode: 0o600 });
});

describe('config show', () => {
  test('has every field with its value, and says which are defaults; no secret is in it', async () => {
    const shown = await mailkeep(['config', 'show', '--json'], { cwd: folder });
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    const { fields, ...place }: { fields: { path: string }[] } = JSON.parse(shown.stdout);
    expect(place).toEqual({ file, source: 'search', dataDir: path.join(folder, 'data') });
    const text = (await mailkeep(['config', 'show'], { cwd: folder })).stdout;
    for (const secret of Object.values(SECRETS)) {
      for (const part of secret.match(/[a-z]+-47\d\d|[a-z]+-token-47\d\d/g) ?? []) {
        expect(shown.stdout + text).not.toContain(part);
      }
    }
    expect(fields).toEqual(
      expect.arrayContaining([
        { path: 'dataDir', value: './data', isDefault: true },
        { path: 'accounts[0].token', value: '***', isDefault: false },
        { path: 'accounts[0].platform.token', value: '***', isDefault: false },
        { path: 'accounts[0].platform.orderId', value: 'O1', isDefault: false },
        { path: 'accounts[0].folders.include', value: ['*'], isDefault: true },
        { path: 'accounts[0].folders.exclude', value: ['INBOX.Junk'], isDefault: false },
        { path: 'accounts[1].token', value: { env: 'SECOND_TOKEN' }, isDefault: false },
        { path: 'rateLimit.requestsPerMinute', value: 60, isDefault: false },
        { path: 'rateLimit.concurrency', value: 4, isDefault: true },
        { path: 'webhook.listen', value: '127.0.0.1:8025', isDefault: true },
        { path: 'webhook.publicUrl', value: '***', isDefault: false },
        { path: 'health', value: null, isDefault: true },
        { path: 'notify.command', value: '***', isDefault: false },
        { path: 'notify.url', value: '***', isDefault: false },
      ]),
    );
    expect(text.split('\n').slice(0, 2)).toEqual([
      `${file} (found in the current folder)`,
      `archive: ${path.join(folder, 'data')}`,
    ]);
    expect(text).toMatch(/^rateLimit\.concurrency +4 +default$/m);
    expect(text).toMatch(/^rateLimit\.requestsPerMinute +60$/m);
  });

  test.each([
    [{ notify: { command: ' curl -H secret-4716 https://example.net' } }, 'notify.command', '***'],
    [{ notify: { command: 'TOKEN=secret-4717 notify' } }, 'notify.command', '***'],
    [
      { webhook: { publicUrl: 'https://hooks.example.net/secret-4718' } },
      'webhook.publicUrl',
      'https://hooks.example.net/***',
    ],
    [
      { webhook: { publicUrl: 'https://hooks.example.net/?key=secret-4719' } },
      'webhook.publicUrl',
      'https://hooks.example.net/***',
    ],
    [
      { webhook: { publicUrl: 'https://hooks.example.net' } },
      'webhook.publicUrl',
      'https://hooks.example.net',
    ],
  ])('a secret may stand anywhere: %j', async (content, name, value) => {
    writeFileSync(file, JSON.stringify({ accounts: CONTENT.accounts, ...content }));
    const { code, stdout } = await mailkeep(['config', 'show', '--json'], { cwd: folder });
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/secret-47/);
    expect(JSON.parse(stdout)).toMatchObject({
      fields: expect.arrayContaining([{ path: name, value, isDefault: false }]),
    });
  });

  test('says who named the file, and where the archive is for this command', async () => {
    const elsewhere = path.join(folder, 'elsewhere');
    const env = { MAILKEEP_CONFIG: file };
    const named = await mailkeep(['config', 'show', '--data', elsewhere, '--json'], { env });
    expect(JSON.parse(named.stdout)).toMatchObject({
      source: 'MAILKEEP_CONFIG',
      dataDir: elsewhere,
    });
    const option = await mailkeep(['config', 'show', '--config', file]);
    expect(option.stdout).toContain(`${file} (named by --config)`);
  });
});

describe('config check', () => {
  test('is content with a configuration, and warns of tokens that cannot be read', async () => {
    const { code, stdout } = await mailkeep(['config', 'check', '--json'], { cwd: folder });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      file,
      source: 'search',
      ok: true,
      accounts: 2,
      warnings: [
        {
          code: 'token-missing',
          message: expect.stringContaining('account second: There is no token'),
        },
      ],
    });
    const env = { SECOND_TOKEN: 'token' };
    const silent = await mailkeep(['config', 'check'], { cwd: folder, env });
    expect(silent.stdout).toBe(`${file} is in order (found in the current folder; 2 accounts).\n`);
  });

  test('takes the file of a node of a fleet, which has no accounts', async () => {
    const fleet = {
      ...{ registry: { env: 'REGISTRY' }, store: { bucket: 'mail' } },
      ...{ keyFile: 'keys', node: 'node-1' },
    };
    writeFileSync(file, JSON.stringify({ fleet }), { mode: 0o600 });
    const { code, stdout } = await mailkeep(['config', 'check'], { cwd: folder });
    expect([code, stdout]).toEqual([
      0,
      `${file} is in order (found in the current folder; a node of a fleet).\nwarning: The address of the registry cannot be read from the environment variable REGISTRY: it does not exist.\n`,
    ]);
    const env = { REGISTRY: 'postgresql://u:hush@db/fleet' };
    const read = await mailkeep(['config', 'check', '--json'], { cwd: folder, env });
    expect(JSON.parse(read.stdout)).toMatchObject({ ok: true, accounts: 0, warnings: [] });
    const shown = await mailkeep(['config', 'show'], { cwd: folder, env });
    expect(shown.stdout).toMatch(/^fleet\.node +"node-1"$/m);
    const local = await mailkeep(['sync'], { cwd: folder, env });
    expect([local.code, local.stderr]).toEqual([
      2,
      expect.stringContaining('accounts: found nothing'),
    ]);
  });

  test('reports every wrong field, with 2', async () => {
    writeFileSync(file, JSON.stringify({ ...CONTENT, acounts: [], minFreeBytes: -1 }));
    for (const what of ['check', 'show']) {
      const { code, stdout, stderr } = await mailkeep(['config', what], { cwd: folder });
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toContain('Unknown field "acounts". Did you mean "accounts"?');
      expect(stderr).toContain('minFreeBytes: found -1');
      expect(stderr).not.toContain(SECRETS.literal);
    }
  });

  test('asks neither the service nor the archive, and names the places where there is no file', async () => {
    mkdirSync(path.join(folder, 'empty'));
    const cwd = path.join(folder, 'empty');
    const { code, stderr } = await mailkeep(['config', 'check'], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain(path.join(cwd, 'config.json'));
  });
});

test('config alone asks which', async () => {
  const { code, stderr } = await mailkeep(['config']);
  expect(code).toBe(2);
  expect(stderr).toContain('mailkeep config <check|show>');
});
