import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep } from '../cli/child.ts';
import { NEVER, RunningDaemon } from '../daemon/running-daemon.ts';
import { freePort } from '../peers/ports.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { RawClient } from './raw-client.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const USER = 'anna@home.example';

/** A configuration with an account of each kind. */
async function place(address = USER) {
  const server = await startDovecot({ users: [USER] });
  closing.push(() => server.stop());
  const sandbox = await startSandbox({ mail: { messages: 30 }, addresses: ['ada@example.org'] });
  closing.push(() => sandbox.close());
  const client = await RawClient.login(server);
  for (let n = 1; n <= 5; n += 1) {
    await client.append('INBOX', `Message-ID: <${n}@x>\r\nSubject: letter ${n}\r\n\r\nx\r\n`);
  }
  client.close();
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-both-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const health = await freePort();
  const config = path.join(folder, 'mailkeep.json');
  const { host, port, user, password } = server;
  const content = {
    accounts: [
      { name: 'hosted', baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox },
      { name: 'home', imap: { host, port, tls: 'none', user, address, password } },
    ],
    rateLimit: { requestsPerMinute: 1_000_000 },
    schedule: { sync: NEVER, sweep: NEVER, verify: NEVER },
    health: { listen: `127.0.0.1:${health}` },
    log: { level: 'debug' },
    minFreeBytes: 0,
  };
  writeFileSync(config, JSON.stringify(content), { mode: 0o600 });
  const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
  return { folder, config, health, run };
}

test.skipIf(withoutDovecot())(
  'commands work with accounts of both kinds',
  async () => {
    const { run } = await place();
    const plan = await run('sync', '--dry-run');
    expect(plan.code).toBe(0);
    expect(plan.stdout).toMatch(
      /anna@home\.example \/ INBOX: walk through it, fetch 5 messages \(not in the archive yet\); about \d+ B\n/,
    );
    expect(plan.stdout).toMatch(/ada@example\.org \/ INBOX: .*; \d+ requests\n/);
    expect(plan.stdout).toMatch(/to accounts with an API\. Over IMAP, it is about \d+ B\./);
    const planned: unknown = JSON.parse((await run('sync', '--dry-run', '--json')).stdout);
    expect(planned).toMatchObject({ traffic: { limit: null, speed: null } });

    const first = await run('sync', '--json');
    expect(first).toMatchObject({ code: 0, stderr: '' });
    const { requestsByOperation } = JSON.parse(first.stdout);
    expect(requestsByOperation).toMatchObject({ LIST: 1, 'UID FETCH': expect.any(Number) });
    expect(requestsByOperation.listFolders).toBeGreaterThan(0);
    for (const args of [
      ['sync'],
      ['sync', '--full'],
      ['status'],
      ['quarantine'],
      ['verify'],
      ['verify', '--origin'],
      ['doctor'],
      ['config', 'check'],
      ['stats', '--by', 'mailbox'],
      ['search', 'account:home letter'],
    ]) {
      expect([args, (await run(...args)).code]).toEqual([args, 0]);
    }
    expect(
      (await run('search', 'account:home letter', '--json')).stdout.trim().split('\n'),
    ).toHaveLength(5);

    const ensured = await run('webhooks', 'ensure', '--url', 'http://127.0.0.1:9/', '--no-test');
    expect(ensured.stderr).toContain(
      'Left out: home. IMAP accounts have no webhooks; the daemon watches them itself.',
    );
    const refused = await run('webhooks', 'list', '--account', 'home');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('The account home is an IMAP account');
    for (const line of [
      ['move', 'hosted', '--host', 'x'],
      ['login', 'hosted'],
    ]) {
      const { code, stderr } = await run('account', ...line);
      expect(code).toBe(2);
      expect(stderr).toContain('The account hosted is an account of the hosted mail service');
      expect(stderr).toContain('Choose an IMAP account.');
      expect(stderr).not.toMatch(/restore|To sign in with OAuth/);
    }
    const checked = (await run('doctor')).stdout;
    for (const shown of ['password (home)', 'server (home)', 'token (hosted)', 'service (hosted)'])
      expect(checked).toContain(shown);
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'logs and metrics contain no address of an IMAP user',
  async () => {
    const { folder, config, health } = await place();
    const daemon = new RunningDaemon({ folder, config, data: path.join(folder, 'data') });
    closing.push(() => daemon.end());
    await daemon.line(({ msg }) => msg === 'an account is watched for changes');
    const metrics = async (query = '') =>
      (await fetch(`http://127.0.0.1:${health}/metrics${query}`)).text();
    const text = await metrics();
    expect(text).toContain('surface="imap",operation="LIST",status="200"');
    expect(text).toContain('mailkeep_imap_day_bytes{account="home",host="127.0.0.1"}');
    expect(text).not.toContain('anna');
    expect(await metrics('?addresses=1')).toContain(`address="${USER}"`);
    expect(JSON.stringify(daemon.lines)).not.toContain('anna');
    await daemon.end();
    expect(JSON.stringify(daemon.lines)).not.toContain('anna');
  },
  60_000,
);

test.skipIf(withoutDovecot())('one address at two servers is shown as two mailboxes', async () => {
  const { run } = await place('ada@example.org');
  const plan = await run('sync', '--dry-run');
  expect(plan.stdout).toMatch(/^ada@example\.org \/ INBOX \(account hosted\): /m);
  expect(plan.stdout).toMatch(/^ada@example\.org \/ INBOX \(account home\): /m);
  const { stdout } = await run('sync');
  expect(stdout).toMatch(/^ada@example\.org \(account hosted\): 30 new /m);
  expect(stdout).toMatch(/^ada@example\.org \(account home\): 5 new /m);
  const status = (await run('status')).stdout;
  expect(status).toMatch(/^ada@example\.org \(\S+ at 127\.0\.0\.1\) {2}30 places, /m);
  expect(status).toMatch(
    /^ada@example\.org \(127\.0\.0\.1:\d+\/anna@home\.example\) {2}5 places, /m,
  );
});
