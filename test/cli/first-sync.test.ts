import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, screen, start, workplace } from './child.ts';
import { ran } from './surface.ts';

const MESSAGES = 60;
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 3, mail: { messages: MESSAGES } });
});
afterAll(() => sandbox.close());

test('init, sync, list, show and status: a mailbox comes in, and its sources out, byte for byte', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-init-'));
  const init = await mailkeep(['init', '--base-url', sandbox.mailboxUrl, '--json', '--yes'], {
    cwd: folder,
    input: `${sandbox.tokens.mailbox}\n`,
  });
  expect(init).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(init.stdout)).toMatchObject({
    config: path.join(folder, 'config.json'),
    dataDir: path.join(folder, 'data'),
    mailboxes: [{ address: 'ada@example.org' }, { address: 'office@example.org' }],
    firstSync: { messages: MESSAGES },
  });
  for (const name of ['config.json', 'token']) {
    expect(statSync(path.join(folder, name)).mode & 0o777).toBe(0o600);
  }
  expect(readFileSync(path.join(folder, 'config.json'), 'utf8')).not.toContain(
    sandbox.tokens.mailbox,
  );
  quicken(path.join(folder, 'config.json'));

  const sync = await mailkeep(['sync'], { cwd: folder });
  expect(sync.code, sync.stderr).toBe(0);
  expect(sync.stdout).toMatch(
    new RegExp(
      `^Total: ${MESSAGES} messages at the service = ${MESSAGES} stored, in \\d+ folders; `,
      'm',
    ),
  );

  const list = await mailkeep(['list', '--json'], { cwd: folder });
  const places = jsonLines(list.stdout);
  expect(places).toHaveLength(MESSAGES);
  for (const place of places) {
    expect(place).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{64}$/),
      mailbox: expect.stringMatching(/^(ada|office)@example\.org$/),
      folder: expect.stringMatching(/^INBOX/),
      uid: expect.any(Number),
      flags: expect.any(Array),
      size: expect.any(Number),
      date: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      subject: expect.anything(),
      from: { name: expect.any(String), address: expect.any(String) },
      messageId: expect.anything(),
      firstSeen: expect.stringMatching(/Z$/),
      endedAt: null,
    });
  }

  for (const place of places.slice(0, 5)) {
    const { bytes } = await mailkeep(['show', listed(place).id, '--raw'], { cwd: folder });
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(listed(place).id);
    expect(bytes.length).toBe(listed(place).size);
  }
  const { id, size } = listed(places[0]);
  const shown = await mailkeep(['show', id.slice(0, 10), '--json'], { cwd: folder });
  expect(JSON.parse(shown.stdout)).toMatchObject({ id, size, subject: expect.any(String) });

  const status = await mailkeep(['status', '--json', '--max-age', '1h'], { cwd: folder });
  expect(status.code).toBe(0);
  expect(JSON.parse(status.stdout)).toMatchObject({
    messages: expect.any(Number),
    fresh: true,
    stale: [],
    mailboxes: [{ complete: true }, { complete: true }],
  });

  const again = await mailkeep(['init', '--base-url', sandbox.mailboxUrl, '--yes'], {
    cwd: folder,
    input: 'another',
  });
  expect(again.code).toBe(2);
  expect(again.stderr).toContain('exists already; it was left as it is');
  expect(readFileSync(path.join(folder, 'token'), 'utf8').trim()).toBe(sandbox.tokens.mailbox);
});

test('sync --json is the one object of the contract, and nothing else', async () => {
  const { config } = workplace(sandbox);
  const { code, stdout, stderr } = await mailkeep(['--json', 'sync', '--config', config]);
  expect([code, stderr]).toEqual([0, '']);
  const lines = jsonLines(stdout);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({
    mailboxes: [
      {
        address: 'ada@example.org',
        folders: expect.any(Number),
        added: expect.any(Number),
        ended: 0,
        flagsChanged: 0,
        relinked: 0,
        quarantined: 0,
        held: 0,
        bytes: expect.any(Number),
      },
      { address: 'office@example.org' },
    ],
    requests: expect.any(Number),
    requestsByOperation: { getCurrentAccount: 1, listFolders: 2, getMessageSource: MESSAGES },
    timings: { fetchMs: expect.any(Number), indexMs: expect.any(Number) },
    durationMs: expect.any(Number),
    failures: [],
    certificates: expect.arrayContaining(
      [
        {
          mailbox: 'ada@example.org',
          folder: 'INBOX',
          originTotal: expect.any(Number),
          stored: expect.any(Number),
          assumed: 0,
          quarantined: 0,
          held: 0,
          complete: true,
        },
      ].map((certificate) => expect.objectContaining(certificate)),
    ),
  });
});

test('a refused token is exit 6, and the token is in no output', async () => {
  const secret = 'hunter2hunter2hunter2';
  const { folder, config } = workplace(sandbox);
  writeFileSync(path.join(folder, 'token'), secret);
  for (const args of [['sync'], ['sync', '--json'], ['sync', '--quiet']]) {
    const { code, stdout, stderr } = await mailkeep([...args, '--config', config]);
    expect(code).toBe(6);
    if (args.includes('--json')) {
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'auth.refused' } });
      expect(JSON.parse(stdout)).toMatchObject({ failures: [{ code: 'auth.refused' }] });
    } else {
      expect(stderr).toContain('refused the token');
    }
    expect(stdout + stderr).not.toContain(secret);
  }
});

test('an unreachable host is exit 1 and named', async () => {
  const port = await freePort();
  const { config } = workplace(sandbox, (content) => ({
    ...content,
    accounts: content.accounts.map((account) => ({
      ...account,
      baseUrl: `http://127.0.0.1:${port}`,
    })),
  }));
  const { code, stdout, stderr } = await mailkeep(['sync', '--config', config]);
  expect(code).toBe(1);
  expect(stderr).toContain(`127.0.0.1:${port} cannot be reached: connection refused`);
  expect(stdout).toContain('No folder was compared');
});

test('a wrong address is exit 1, and says where to look', async () => {
  const { config } = workplace(sandbox, (content) => ({
    ...content,
    accounts: content.accounts.map((account) => ({
      ...account,
      baseUrl: `${account.baseUrl}/somewhere`,
    })),
  }));
  const { code, stdout, stderr } = await mailkeep(['sync', '--config', config]);
  expect(code).toBe(1);
  expect(stdout + stderr).toContain('baseUrl');
});

test('a wrong field of the configuration is exit 2, before anything is asked or written', async () => {
  const { config, data } = workplace(sandbox, (content) => ({
    ...content,
    rateLimit: { requestsPerMinute: -1 },
  }));
  const before = sandbox.requests().total;
  const { code, stdout, stderr } = await mailkeep(['sync', '--config', config]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(
    'rateLimit.requestsPerMinute: found -1, expected a number above 0, at most 10000000',
  );
  expect(existsSync(data)).toBe(false);
  expect(sandbox.requests().total).toBe(before);
});

test('no configuration at all is exit 2, and names the places that were looked at', async () => {
  const { code, stderr } = await mailkeep(['sync']);
  expect(code).toBe(2);
  expect(stderr).toContain('config.json');
  expect(stderr).toContain('mailkeep init');
});

test('a token file that others may read is warned of', async () => {
  if (process.platform === 'win32') return;
  const { folder, config } = workplace(sandbox);
  chmodSync(path.join(folder, 'token'), 0o644);
  const { code, stderr } = await mailkeep(['sync', '--config', config, '--dry-run']);
  expect(code).toBe(0);
  expect(stderr).toContain(`chmod 600 ${path.join(folder, 'token')}`);
});

test('a disk without enough room stops before it is full: exit 1', async () => {
  const { config } = workplace(sandbox, (content) => ({
    ...content,
    minFreeBytes: Number.MAX_SAFE_INTEGER,
  }));
  const { code, stderr } = await mailkeep(['sync', '--config', config]);
  expect(code).toBe(1);
  expect(stderr).toContain('minFreeBytes');
});

test('names on the command line narrow a pass; a name that nobody has is exit 2', async () => {
  const { config } = workplace(sandbox);
  const inbox = ['sync', '--json', '--config', config, '--folder', 'INBOX'];
  const narrow = await mailkeep([...inbox, '--mailbox', 'office@example.org']);
  expect(narrow.code).toBe(0);
  expect(JSON.parse(narrow.stdout)).toMatchObject({
    mailboxes: [{ address: 'office@example.org', folders: 1 }],
    certificates: [{ mailbox: 'office@example.org', folder: 'INBOX', complete: true }],
  });
  for (const [refusal, ...names] of [
    ['usage-unreachable-mailbox', '--mailbox', 'nobody@example.org'],
    ['usage-unlisted-folder', '--folder', 'INBOX.Nowhere'],
  ] as const) {
    const { code, stderr } = await mailkeep(['sync', '--json', '--config', config, ...names]);
    expect([names, code]).toEqual([names, 2]);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: refusal } });
  }
});

test('--log writes JSON Lines to standard error: no addresses, subjects or tokens', async () => {
  const { config } = workplace(sandbox, (content) => ({ ...content, log: { level: 'trace' } }));
  const { code, stderr } = await mailkeep(['sync', '--log', '--config', config]);
  expect(code).toBe(0);
  const lines = jsonLines(stderr);
  expect(lines.length).toBeGreaterThan(MESSAGES);
  expect(lines.at(-1)).toMatchObject({
    level: 'info',
    msg: 'pass',
    added: MESSAGES,
    complete: true,
  });
  expect(stderr).not.toContain('@example.org');
  expect(stderr).not.toContain(sandbox.tokens.mailbox);
});

test('an interrupted sync is exit 130, keeps what it has, and the next one fetches the rest only', async () => {
  const slow = await startSandbox({
    seed: 4,
    mail: { messages: 400 },
    settings: { latencyMs: 20 },
  });
  try {
    const { config } = workplace(slow);
    const { child, ended } = start(['sync', '--config', config]);
    await until(() => (slow.requests().byOperation.getMessageSource ?? 0) > 150);
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(stderr).toContain('The next sync continues where this one stopped.');
    const kept = jsonLines((await mailkeep(['list', '--json', '--config', config])).stdout).length;
    expect(kept).toBeGreaterThan(0);
    const before = slow.requests().byOperation.getMessageSource ?? 0;
    const rest = await mailkeep(['sync', '--json', '--config', config]);
    expect(rest.code).toBe(0);
    expect((slow.requests().byOperation.getMessageSource ?? 0) - before).toBe(400 - kept);
  } finally {
    await slow.close();
  }
});

test('a second writer is exit 5; readers go on', async () => {
  const slow = await startSandbox({
    seed: 5,
    mail: { messages: 300 },
    settings: { latencyMs: 30 },
  });
  try {
    const { config } = workplace(slow);
    const { child, ended } = start(['sync', '--config', config]);
    await until(() => (slow.requests().byOperation.getMessageSource ?? 0) > 20);
    const second = await mailkeep(['sync', '--json', '--config', config]);
    expect(second.code).toBe(5);
    expect(JSON.parse(second.stderr)).toMatchObject({
      error: {
        code: 'archive-in-use',
        message: expect.stringContaining(`process ${child.pid} (mailkeep sync), since 20`),
      },
    });
    expect((await mailkeep(['status', '--config', config])).code).toBe(0);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(130);
  } finally {
    await slow.close();
  }
});

function quicken(config: string): void {
  const content: unknown = JSON.parse(readFileSync(config, 'utf8'));
  writeFileSync(
    config,
    JSON.stringify({
      ...(typeof content === 'object' ? content : {}),
      rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
      minFreeBytes: 0,
    }),
  );
}

function listed(line: unknown): { id: string; size: number } {
  if (typeof line === 'object' && line !== null && 'id' in line && 'size' in line) {
    const { id, size } = line;
    if (typeof id === 'string' && typeof size === 'number') return { id, size };
  }
  throw new Error('not a line of list');
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

test('after the first sync, a person is told what to do next, and nobody else ever', async () => {
  // It replaces the line of progress, so no line end is before it.
  const next = /Now: mailkeep search --config (\S+) WORDS, or mailkeep web --config \1$/m;
  const sync = async (place: { config: string }, ...args: string[]) => {
    const { stream: stderr, text } = screen(1_000);
    const line = ['sync', '--config', place.config, ...args];
    expect((await ran(line, { stderr, now: Date.now })).code).toBe(0);
    return next.test(stripVTControlCharacters(text()));
  };
  const place = workplace(sandbox);
  expect(await sync(place)).toBe(true);
  expect(await sync(place)).toBe(false);
  expect(await sync(workplace(sandbox), '--quiet')).toBe(false);
  expect(await sync(workplace(sandbox), '--json')).toBe(false);
  const piped = await ran(['sync', '--config', workplace(sandbox).config], { now: Date.now });
  expect(piped.stderr).not.toContain('Now:');
});
