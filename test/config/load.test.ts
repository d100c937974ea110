import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { withScheme } from '../../src/core/address.ts';
import { loadConfig } from '../../src/core/config.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { readToken } from '../../src/core/secrets.ts';

const account = { name: 'main', baseUrl: 'https://mail.example', token: 'hush-hush-1' };

function written(content: unknown, folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-config-'))) {
  const file = path.join(folder, 'config.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), {
    mode: 0o600,
  });
  return file;
}

function refusal(content: unknown): MailkeepError {
  try {
    loadConfig(written(content));
  } catch (error) {
    if (error instanceof MailkeepError) return error;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

/** Path, found and expected of each problem, one line each. */
function problems(content: unknown): string[] {
  const { facts, code } = refusal(content);
  expect(code).toBe('config-invalid');
  const [paths, found, expected] = [facts.paths, facts.found, facts.expected];
  if (!Array.isArray(paths) || !Array.isArray(found) || !Array.isArray(expected)) {
    throw new Error('the problems are not three lists');
  }
  return paths.map((at, i) => `${at}: ${found[i]} / ${expected[i]}`);
}

test('only accounts are required, the rest has the documented defaults', () => {
  const file = written({ accounts: [account] });
  const { settings } = loadConfig(file);
  expect(settings).toMatchObject({
    file,
    dataDir: path.join(path.dirname(file), 'data'),
    rateLimit: { requestsPerMinute: 60, concurrency: 4 },
    schedule: {
      sync: '*/5 * * * *',
      sweep: '0 3 * * *',
      verify: '0 4 * * 0',
      timezone: 'local',
      jitterSeconds: 0,
    },
    brake: { maxEndedShare: 0.3, minMessages: 50, confirmAfterMs: 6 * 3_600_000 },
    retention: {
      endedAfterDays: null,
      draftsAfterDays: null,
      rules: [],
      keepAtLeast: 0,
      hold: [],
    },
    webhook: null,
    health: null,
    web: null,
    notify: { command: null, url: null },
    minFreeBytes: 1_073_741_824,
    log: { level: 'info' },
  });
  expect(settings.accounts[0]).toMatchObject({
    mailboxes: { include: ['*'], exclude: [] },
    folders: { include: ['*'], exclude: [] },
    platform: null,
  });
});

test('every field of the contract is taken, paths relative to the file', () => {
  const file = written({
    $schema: './config.schema.json',
    dataDir: '../mail',
    accounts: [
      {
        name: 'main',
        baseUrl: 'https://mail.example/',
        token: { file: './token' },
        platform: { url: 'https://api.example', token: { env: 'PLATFORM' }, orderId: 'OR1' },
        mailboxes: { include: ['a@x.example'], exclude: ['b@x.example'] },
        folders: { include: ['*'], exclude: ['INBOX.Spam'] },
      },
    ],
    rateLimit: { requestsPerMinute: 10_000_000, concurrency: 32 },
    schedule: { sync: '*/30 * * * * *', timezone: 'Europe/Vilnius' },
    webhook: { listen: '127.0.0.1:0' },
    health: { listen: '[::1]:0' },
    web: { listen: ':0', publicUrl: 'https://mail.example.org' },
  });
  const { settings } = loadConfig(file);
  const folder = path.dirname(file);
  expect(settings.dataDir).toBe(path.join(path.dirname(folder), 'mail'));
  expect(settings.accounts[0]).toMatchObject({
    kind: 'api',
    baseUrl: 'https://mail.example',
    token: { kind: 'file', name: path.join(folder, 'token') },
  });
  expect(settings.webhook).toEqual({ listen: { host: '127.0.0.1', port: 0 }, publicUrl: null });
  expect(settings.health).toEqual({ listen: { host: '::1', port: 0 }, hosts: [] });
  expect(settings.web).toEqual({
    listen: { host: '0.0.0.0', port: 0 },
    publicUrl: 'https://mail.example.org',
  });
});

test('every wrong field is named at once, with what was found and what belongs there', () => {
  const found = problems({
    accounts: [
      { ...account, name: 'a b', extra: 1 },
      { name: 'second', baseUrl: 17 },
      { ...account, name: 'second', folders: { include: [3] } },
    ],
    schedule: { sync: '@daily', timezone: 'Mars/Olympus' },
    brake: { confirmAfter: '6 hours', maxEndedShare: 2 },
    rateLimit: { requestsPerMinute: 0 },
    webhook: { listen: '0.0.0.0:8030' },
    health: { listen: '127.0.0.1:8030' },
    log: { level: 'loud' },
    dataDirectory: 'x',
  });
  expect(found).toEqual([
    'accounts[0].name: "a b" / a name of 1 to 64 letters, digits, dots, dashes and underscores',
    expect.stringMatching(/^accounts\[0\]\.extra: {2}\/ name, baseUrl, /),
    'accounts[1].baseUrl: 17 / an http or https address without user name, password, query or fragment',
    'accounts[2].folders.include[0]: 3 / a name or a pattern with *',
    'rateLimit.requestsPerMinute: 0 / a number above 0, at most 10000000',
    'schedule.sync: "@daily" / a cron expression of 5 fields, or 6 with seconds',
    'schedule.timezone: "Mars/Olympus" / "local" or a zone name such as Europe/Vilnius',
    'brake.maxEndedShare: 2 / a number from 0 to 1',
    'brake.confirmAfter: "6 hours" / a duration such as 90s, 15m, 26h or 7d',
    'log.level: "loud" / one of trace, debug, info, warn, error, fatal, silent',
    expect.stringMatching(/^dataDirectory: {2}\/ dataDir, accounts, /),
    'accounts[1].token: nothing / a token, or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
    'accounts[2].name: "second" / a name that no other account has',
    'health.listen: port 8030 / another port than webhook.listen, which faces the internet',
  ]);
});

test('problems of fields, values and addresses name what was probably meant', () => {
  const { facts } = refusal({
    acounts: [],
    accounts: [{ ...account, baseUrl: '127.0.0.1:4010', folders: { includ: [] } }],
    archive: { codec: 'zstdd' },
    log: { level: 'wran' },
  });
  const { paths, suggestions } = facts;
  if (!Array.isArray(paths) || !Array.isArray(suggestions)) throw new Error('no lists');
  const pairs = paths.map((at, i) => [at, suggestions[i]]);
  expect(Object.fromEntries(pairs)).toEqual({
    acounts: 'accounts',
    'accounts[0].baseUrl': 'http://127.0.0.1:4010',
    'accounts[0].folders.includ': 'include',
    'archive.codec': 'zstd',
    'log.level': 'warn',
  });
});

test.each([
  ['127.0.0.1:4010', 'http://127.0.0.1:4010'],
  ['localhost:4010', 'http://localhost:4010'],
  ['[::1]:4010', 'http://[::1]:4010'],
  ['mail-api.example.com', 'https://mail-api.example.com'],
  ['mail-api.example.com/v1', 'https://mail-api.example.com/v1'],
  ['mail', null],
  ['user:secret@mail.example.com', null],
  ['mail.example.com?token=x', null],
  ['https://mail.example.com', null],
])('%s was probably meant as %s', (text, meant) => {
  expect(withScheme(text)).toBe(meant);
});

test('defaults count when webhook and health are compared', () => {
  expect(problems({ accounts: [account], webhook: {}, health: { listen: ':8025' } })).toEqual([
    expect.stringMatching(/^health\.listen: port 8025/),
  ]);
  const zero = { listen: '127.0.0.1:0' };
  expect(() =>
    loadConfig(written({ accounts: [account], webhook: zero, health: zero })),
  ).not.toThrow();
});

test.each(['http://127.0.0.1:4010', 'http://localhost:4010', 'http://[::1]:4010'])(
  '%s is taken, since it never leaves this machine',
  (baseUrl) => {
    expect(() => loadConfig(written({ accounts: [{ ...account, baseUrl }] }))).not.toThrow();
  },
);

test('http elsewhere needs insecure, on the account or for all', () => {
  const far = { ...account, baseUrl: 'http://mail.example' };
  expect(problems({ accounts: [far] })).toEqual([
    expect.stringMatching(/^accounts\[0\]\.baseUrl: "http:\/\/mail\.example" \/ https/),
  ]);
  expect(() => loadConfig(written({ accounts: [{ ...far, insecure: true }] }))).not.toThrow();
  expect(() => loadConfig(written({ insecure: true, accounts: [far] }))).not.toThrow();
});

test('no error repeats a secret, wherever it was written', () => {
  const secret = 'hunter2-hunter2';
  const contents: unknown[] = [
    { accounts: [{ ...account, token: { env: secret, file: secret } }] },
    { accounts: [{ ...account, token: [secret] }] },
    { accounts: [{ ...account, apiToken: secret }] },
    { accounts: [{ ...account, token: { value: secret } }] },
    { accounts: [{ ...account, baseUrl: `https://user:${secret}@mail.example` }] },
    { accounts: [{ ...account, baseUrl: `https://mail.example/?key=${secret}` }] },
    { accounts: [account], notify: { url: `ftp://${secret}` } },
    { accounts: secret },
    `{"accounts": [{"token": "${secret}" oops}]}`,
    `{"accounts": [{"token": "${secret}`,
    { accounts: [account], notify: { url: `https://user:${secret}@hooks.example/x` } },
    { accounts: [account], notify: { url: `https://${secret}@hooks.example/x` } },
  ];
  for (const content of contents.filter((_, i) => i !== 7)) {
    const error = refusal(content);
    expect(`${error.message} ${error.stack} ${JSON.stringify(error.facts)}`).not.toContain(secret);
  }
});

test('a file that is no JSON is told with the place, not with its text', () => {
  expect(refusal('{\n  "accounts": [,]\n}').facts).toMatchObject({ line: 2, column: 16 });
  expect(refusal('').code).toBe('config-not-json');
});

test('settings are frozen, and print without their secrets', () => {
  const { settings } = loadConfig(
    written({ accounts: [account], notify: { url: 'https://hooks.example/hush-hush-1' } }),
  );
  for (const text of [inspect(settings, { depth: 9 }), JSON.stringify(settings), `${settings}`]) {
    expect(text).not.toContain('hush-hush-1');
  }
  expect(Object.isFrozen(settings.accounts[0]?.mailboxes)).toBe(true);
});

test('a readable file with a token in it, or a readable token file, is warned of', () => {
  if (process.platform === 'win32') return;
  const file = written({ accounts: [account] });
  expect(loadConfig(file).warnings).toEqual([]);
  chmodSync(file, 0o644);
  expect(loadConfig(file).warnings).toEqual([
    { code: 'secret-readable-by-others', file, mode: '644' },
  ]);
  const other = written({ accounts: [{ ...account, token: { file: 'token' } }] });
  chmodSync(other, 0o644);
  const token = path.join(path.dirname(other), 'token');
  writeFileSync(token, 'x');
  chmodSync(token, 0o640);
  expect(loadConfig(other).warnings).toEqual([
    { code: 'secret-readable-by-others', file: token, mode: '640' },
  ]);
});

test('a token is read when it is asked for, and again when asked again', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-token-'));
  const file = path.join(folder, 'token');
  const source = { kind: 'file', name: file } as const;
  await expect(readToken(source, {})).rejects.toMatchObject({ code: 'token-missing' });
  writeFileSync(file, 'first\n');
  expect((await readToken(source, {})).reveal()).toBe('first');
  writeFileSync(file, '\uFEFFsecond\r\n');
  expect((await readToken(source, {})).reveal()).toBe('second');
  writeFileSync(file, '\n');
  await expect(readToken(source, {})).rejects.toMatchObject({ code: 'token-empty' });
  writeFileSync(file, 'two words');
  await expect(readToken(source, {})).rejects.toMatchObject({ code: 'token-unusable' });
  await expect(readToken({ kind: 'file', name: folder }, {})).rejects.toMatchObject({
    code: 'token-unreadable',
    facts: { reason: 'EISDIR' },
  });
});

test('tokens come from the environment and from systemd credentials', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-credentials-'));
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'api'), 'from-credential');
  const credential = { kind: 'credential', name: 'api' } as const;
  const variable = { kind: 'env', name: 'TOKEN' } as const;
  expect((await readToken(credential, { CREDENTIALS_DIRECTORY: folder })).reveal()).toBe(
    'from-credential',
  );
  await expect(readToken(credential, {})).rejects.toMatchObject({ code: 'token-missing' });
  expect((await readToken(variable, { TOKEN: 'from-env' })).reveal()).toBe('from-env');
  await expect(readToken(variable, {})).rejects.toMatchObject({
    code: 'token-missing',
    facts: { source: 'env', name: 'TOKEN' },
  });
  await expect(readToken(variable, { TOKEN: ' ' })).rejects.toMatchObject({ code: 'token-empty' });
});

test('the web interface has a port of its own, and other machines reach it only by https', () => {
  const found = (web: object, health?: object) =>
    problems({ accounts: [account], web, ...(health === undefined ? {} : { health }) });
  expect(found({ listen: '127.0.0.1:8026' }, {})).toEqual([
    'web.listen: port 8026 / another port than health.listen',
  ]);
  expect(found({ listen: ':8027' })).toEqual([
    'web.listen: 0.0.0.0 / 127.0.0.1, or the https address of a reverse proxy in web.publicUrl',
  ]);
  const expected = 'an https address without a path, or null';
  for (const publicUrl of ['http://mail.example.org', 'https://mail.example.org/mail', 'mail'])
    expect(found({ publicUrl })).toEqual([expect.stringMatching(/^web\.publicUrl: /)]);
  expect(found({ publicUrl: 'mail' })[0]).toContain(expected);
});

const copyProblems = (copies: unknown) => problems({ accounts: [account], copies });

test('copies have the address that the command line gives them, and when they are made', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-config-'));
  const load = (copies?: unknown) =>
    loadConfig(written({ accounts: [account], copies }, folder)).settings.copies;
  expect(load()).toEqual([]);
  expect(
    load([
      {
        to: 'S3://bucket/mail/',
        every: '6h',
        lockDays: 90,
        limitRate: '2M/s',
        verify: { sample: '1.5%' },
      },
      { to: '../disk', schedule: '0 3 * * *', keep: 7, verify: { sample: 3, full: '30d' } },
      { to: '/media/disk', every: '1m', encrypt: true, verify: { full: '0 5 1 * *' } },
    ]),
  ).toEqual([
    {
      ...{ to: 's3://bucket/mail', rhythm: { everyMs: 6 * 3_600_000 }, encrypt: false, keep: 1 },
      ...{ lockDays: 90, limitRate: '2M/s', sample: '1.5%', full: null },
    },
    {
      ...{
        to: path.join(folder, '../disk'),
        rhythm: { cron: '0 3 * * *' },
        encrypt: false,
        keep: 7,
      },
      ...{ lockDays: null, limitRate: null, sample: '3', full: { everyMs: 30 * 86_400_000 } },
    },
    {
      ...{ to: '/media/disk', rhythm: { everyMs: 60_000 }, encrypt: true, keep: 1 },
      ...{ lockDays: null, limitRate: null, sample: null, full: { cron: '0 5 1 * *' } },
    },
  ]);
});

test('a wrong field of a copy is named with what was found and what belongs there', () => {
  expect(
    copyProblems([
      { to: 's3://b', every: '59s', keep: 0, lockDays: 36501, limitRate: '0', secret: true },
      { to: '', schedule: '@daily', verify: { sample: '0%', full: 'monthly' } },
      { to: '/a', every: '1h', limitRate: 5, verify: { sample: 1.5, full: '30s' } },
    ]),
  ).toEqual([
    'copies[0].to: "s3://b" / "s3://BUCKET/PREFIX", or the path of a folder',
    'copies[0].every: "59s" / a duration of at least 1m, such as 15m, 6h or 7d',
    'copies[0].keep: 0 / a whole number from 1 to 10000',
    'copies[0].lockDays: 36501 / a whole number from 1 to 36500, or null',
    'copies[0].limitRate: "0" / a number of bytes a second such as "500k" or "2M", or null',
    'copies[0].secret:  / to, every, schedule, encrypt, keep, lockDays, limitRate, verify',
    'copies[1].to: an empty text / "s3://BUCKET/PREFIX", or the path of a folder',
    'copies[1].schedule: "@daily" / a cron expression of 5 fields, or 6 with seconds',
    'copies[1].verify.sample: "0%" / a whole number from 1 to 1000000, a share such as "1%", or null',
    'copies[1].verify.full: "monthly" / a duration of at least 1m, such as 15m, 6h or 7d, a cron expression, or null',
    'copies[2].limitRate: 5 / a number of bytes a second such as "500k" or "2M", or null',
    'copies[2].verify.sample: 1.5 / a whole number from 1 to 1000000, a share such as "1%", or null',
    'copies[2].verify.full: "30s" / a duration of at least 1m, such as 15m, 6h or 7d, a cron expression, or null',
  ]);
});

test('a copy needs one time, a place of its own, and a bucket to be locked', () => {
  expect(
    copyProblems([
      { to: 's3://bucket/mail' },
      { to: 's3://bucket/mail/', every: '1h', schedule: '0 3 * * *' },
      { to: './disk', every: '1h' },
      { to: 'disk/', every: '2h', lockDays: 30 },
    ]),
  ).toEqual([
    'copies[0]: neither every nor schedule / when to copy: "every": "1h", or a cron expression in "schedule"',
    'copies[1].schedule: both every and schedule / one of them',
    'copies[1].to: the same place / another place than copies[0].to',
    'copies[3].lockDays: a lock in a folder / null: only buckets lock',
    'copies[3].to: the same place / another place than copies[2].to',
  ]);
});

test('credentials in an address are never shown', () => {
  expect(
    JSON.stringify(copyProblems([{ to: 's3://user:hush@bucket', every: '1h' }])),
  ).not.toContain('hush');
});
