import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { configSchema, toSettings } from '../../src/core/config-schema.ts';
import { openState, type StateFile } from '../../src/core/state.ts';
import { startHealthServer } from '../../src/daemon/metrics.ts';
import { startReceiver } from '../../src/daemon/receiver.ts';
import { DaemonState } from '../../src/verify/facts.ts';
import { verificationStatus } from '../../src/verify/verification.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
import { archiveOf, letter, NOW, Served } from '../web/served.ts';

interface Listener {
  readonly name: string;
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const served = new Served();
const listeners: Listener[] = [];
const closers: (() => unknown)[] = [];
let state: StateFile;

beforeAll(async () => {
  const data = await archiveOf({ ferry: letter('Ferry', 'When does it leave?') });
  state = openState(data);
  await served.start(data, { state });
  const named = { name: 'test', mailboxes: null, expiresAt: null };
  const { secret } = new ApiTokens(state).create(named, NOW);
  const daemon = new DaemonState(NOW);
  daemon.enter('ready');
  const health = await startHealthServer({
    listen: { host: '127.0.0.1', port: 0 },
    hosts: healthHosts(['node-1.example.org', 'Prometheus']),
    state: daemon,
    status: () => {
      throw new Error('no status is asked for');
    },
    known: () => ({ verification: verificationStatus(null), copies: [] }),
    now: () => NOW,
    metrics: { text: async () => 'mailkeep_mailbox_address 1\n' },
    onError: (error) => {
      throw error;
    },
  });
  const receiver = await startReceiver({
    listen: { host: '127.0.0.1', port: 0 },
    publicUrl: 'https://hooks.example.org/mail',
    secrets: () => Promise.resolve([]),
    onHint: () => {},
    log: () => {},
    now: () => NOW,
  });
  closers.push(
    () => health.close(),
    () => receiver.close(),
    () => served.close(),
    () => state.close(),
  );
  const web = served.web.address.port;
  const json = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  listeners.push(
    { ...get('health', health.address.port, '/healthz') },
    { ...get('metrics', health.address.port, '/metrics?addresses=1') },
    { ...get('webhook', receiver.address.port, '/mail'), method: 'POST' },
    { ...get('web', web, '/enter') },
    { ...get('api', web, '/api/v1/me'), headers: json },
    {
      ...get('mcp', web, '/mcp'),
      method: 'POST',
      headers: { ...json, accept: 'application/json, text/event-stream' },
      body: JSON.stringify(list),
    },
  );
});
afterAll(async () => {
  for (const close of closers) await close();
});

function get(name: string, port: number, path: string): Listener {
  return { name, port, path, method: 'GET', headers: {} };
}

/** The names as the daemon gets them from a configuration. */
function healthHosts(hosts: readonly string[]): readonly string[] {
  const account = { name: 'main', baseUrl: 'https://mail.example.org', token: { env: 'TOKEN' } };
  const file = configSchema.parse({ accounts: [account], health: { hosts } });
  return toSettings(file, '/nowhere/config.json').health?.hosts ?? [];
}

function ask(
  { port, method, path, headers, body }: Listener,
  more: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const at = { host: '127.0.0.1', port, method, path, agent: false };
    const asked = httpRequest({ ...at, headers: { ...headers, ...more } });
    asked.on('error', reject);
    asked.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asked.end(body);
  });
}

type Row = readonly [host: string, monitoring: boolean, pages: boolean];
const HOSTS: readonly Row[] = [
  ['127.0.0.1:PORT', true, true],
  ['localhost:PORT', true, true],
  ['LocalHost:PORT', true, true],
  ['[::1]:PORT', true, true],
  // A port that a container or a proxy publishes.
  ['127.0.0.1', true, false],
  ['127.0.0.1:9', true, false],
  ['192.168.7.9:8026', true, false],
  ['[2001:db8::1]:8026', true, false],
  ['node-1.example.org:8026', true, false],
  ['NODE-1.example.org.', true, false],
  ['prometheus', true, false],
  ['evil.example', false, false],
  ['evil.example:PORT', false, false],
  ['127.0.0.1.evil.example:PORT', false, false],
  ['localhost.evil.example:PORT', false, false],
  ['node-1.example.org.evil.example', false, false],
  ['evil-node-1.example.org', false, false],
  ['localhost@evil.example:PORT', false, false],
  ['hooks.example.org', false, false],
];

test.each(HOSTS)('Host: %s', async (host, monitoring, pages) => {
  for (const listener of listeners) {
    const { name, port } = listener;
    const { status, text } = await ask(listener, { host: host.replace('PORT', String(port)) });
    const isMonitoring = name === 'health' || name === 'metrics';
    // A secret decides for webhooks, whatever name a proxy uses. A host with a user is not a host.
    const isWebhook = name === 'webhook' && !host.includes('@');
    const isAdmitted = isWebhook || (isMonitoring ? monitoring : pages);
    expect([name, [400, 403, 421].includes(status)]).toEqual([name, !isAdmitted]);
    if (!isAdmitted) expect(text).not.toContain('mailkeep');
  }
});

const PAGES: readonly Readonly<Record<string, string>>[] = [
  { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
  { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' },
  { origin: 'null', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' },
  { origin: 'http://127.0.0.1:1', 'sec-fetch-site': 'same-site' },
];

test.each(PAGES)('a page elsewhere: %j', async (headers) => {
  for (const listener of listeners) {
    const { status, text } = await ask(listener, {
      host: `127.0.0.1:${listener.port}`,
      ...headers,
    });
    expect([listener.name, status]).toEqual([listener.name, 403]);
    expect(text).not.toContain('mailkeep_');
  }
});

test('an old browser sends Origin alone', async () => {
  for (const listener of listeners.filter(({ name }) => name !== 'web')) {
    const headers = { host: `127.0.0.1:${listener.port}`, origin: 'https://evil.example' };
    expect([listener.name, (await ask(listener, headers)).status]).toEqual([listener.name, 403]);
  }
});

test('monitoring that uses a name without permission gets the reason', async () => {
  const [health] = listeners;
  if (health === undefined) throw new Error('no listener');
  const { status, text } = await ask(health, { host: 'node-2.example.org:8026' });
  expect([status, text]).toEqual([421, expect.stringContaining('this name')]);
});

test.each([['node-1.example.org:8026'], ['http://node-1'], [''], ['[::1]']])(
  'health.hosts refuses %j',
  (host) => {
    expect(() => healthHosts([host])).toThrow(/host name without a port/);
  },
);
