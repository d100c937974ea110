import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { openState } from '../../src/core/state.ts';
import type { OwnWebhook } from '../../src/daemon/delivery-watch.ts';
import { storeDeliveries, watchDeliveries } from '../../src/daemon/delivery-watch.ts';
import { PlatformClient } from '../../src/service/client.ts';
import { json, startOrigin } from '../api/local-origin.ts';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import { statuses } from '../sandbox/webhooks/receiver.ts';
import { jsonLines, mailkeep, type Workplace, workplace } from './child.ts';
import { bothSurfaces } from './platform-config.ts';

const ADA = 'ada@example.org';
const OFFICE = 'office@example.org';
const stored = z.object({
  id: z.string(),
  url: z.string(),
  mailboxId: z.string(),
  secret: z.string(),
});
const created = z.object({ id: z.string(), secretFile: z.string() });

let here: Hooked;
beforeEach(async () => {
  here = await hooked();
});
afterEach(() => here.close());

/** Runs `mailkeep webhooks`, and keeps all it said. */
function commands(place: Workplace) {
  const said: string[] = [];
  const webhooks = async (...args: string[]) => {
    const ended = await mailkeep(['webhooks', ...args, '--config', place.config]);
    said.push(ended.stdout, ended.stderr);
    return ended;
  };
  return { webhooks, said };
}

describe.each([
  ['the mailbox surface', () => workplace(here.served.sandbox)],
  ['the platform surface', () => bothSurfaces(here.served.sandbox)],
])('over %s', (surface, place) => {
  test('a webhook is created, listed, tested, paused, resumed and deleted; its secret is in a file only', async () => {
    const at = place();
    const { webhooks, said } = commands(at);
    const receiver = await here.receiver();

    const create = await webhooks('create', '--mailbox', ADA, '--url', receiver.url, '--json');
    expect([create.code, create.stderr]).toEqual([0, '']);
    expect(jsonLines(create.stdout)).toEqual([
      {
        id: expect.any(String),
        mailbox: ADA,
        mailboxId: here.served.sandbox.mailboxes[0]?.resourceId,
        account: 'main',
        name: 'mailkeep',
        events: ['message.received'],
        status: 'active',
        url: receiver.url,
        secretFile: expect.stringContaining(path.join(at.data, 'webhooks')),
        test: { success: true, httpStatus: 200, error: null },
      },
    ]);
    const again = await webhooks('create', '--mailbox', ADA, '--url', receiver.url, '--json');
    const { test: _, ...same } = JSON.parse(create.stdout);
    expect([again.code, jsonLines(again.stdout)]).toEqual([
      0,
      [{ ...same, test: null, existing: true }],
    ]);
    expect(here.served.sandbox.requests().byOperation.createWebhook).toBe(1);
    const { id, secretFile } = created.parse(JSON.parse(create.stdout));
    expect(statSync(secretFile).mode & 0o777).toBe(0o600);
    expect(statSync(path.dirname(secretFile)).mode & 0o777).toBe(0o700);
    const { secret, ...rest } = stored.parse(JSON.parse(readFileSync(secretFile, 'utf8')));
    expect(rest).toEqual({
      id,
      url: receiver.url,
      mailboxId: here.served.sandbox.mailboxes[0]?.resourceId,
    });
    await here.arrive();
    await receiver.count(2);
    expect(receiver.got.map(({ headers }) => headers.authorization)).toEqual(
      Array.from({ length: 2 }, () => `Bearer ${secret}`),
    );

    const line = { id, mailbox: ADA, account: 'main', status: 'active', url: receiver.url };
    const list = await webhooks('list', '--json');
    expect(jsonLines(list.stdout)).toEqual([expect.objectContaining(line)]);
    const table = await webhooks('list', '--mailbox', ADA);
    expect(table.stdout).toMatch(
      /^STATUS +MAILBOX +NAME +URL +ID\nactive +ada@example\.org +mailkeep +http/,
    );
    expect((await webhooks('list', '--mailbox', OFFICE)).stderr).toBe('There are no webhooks.\n');

    const paused = await webhooks('pause', id.slice(0, 20), '--json');
    expect(jsonLines(paused.stdout)).toEqual([expect.objectContaining({ id, status: 'paused' })]);
    expect(jsonLines((await webhooks('list', '--json', '--status', 'active')).stdout)).toEqual([]);
    await here.arrive();
    expect((await webhooks('resume', '--mailbox', ADA)).stdout).toMatch(/: active\n$/);
    const tested = await webhooks('test', id, '--json');
    expect(tested.code).toBe(0);
    expect(jsonLines(tested.stdout)).toEqual([
      { id, mailbox: ADA, url: receiver.url, success: true, httpStatus: 200, error: null },
    ]);
    await receiver.count(3);
    expect(receiver.got).toHaveLength(3);

    const asked = await webhooks('delete', id);
    expect([asked.code, asked.stdout]).toEqual([2, '']);
    expect(existsSync(secretFile)).toBe(true);
    const deleted = await webhooks('delete', id, '--yes', '--json');
    expect(jsonLines(deleted.stdout)).toEqual([expect.objectContaining({ id, deleted: true })]);
    expect(existsSync(secretFile)).toBe(false);
    expect(jsonLines((await webhooks('list', '--json')).stdout)).toEqual([]);
    expect(said.join('\n')).not.toContain(secret);
    const { tokens } = here.served.sandbox;
    expect(said.join('\n')).not.toContain(tokens.mailbox);
    expect(said.join('\n')).not.toContain(tokens.platform);
    const requests = here.served.sandbox.requests().byOperation;
    const over = surface === 'the platform surface' ? 'platform.deleteWebhook' : 'deleteWebhook';
    expect(requests[over]).toBe(1);
  });

  test.each([
    [
      'whose rows cannot be read',
      (file: string) => writeFileSync(file, readFileSync(file).fill(0xff, 4_096)),
    ],
    ['that is no database', (file: string) => writeFileSync(file, 'no database')],
  ])('webhooks are listed with a state %s, with a warning', async (_, damage) => {
    const at = place();
    const { webhooks } = commands(at);
    const { id } = await here.createHook('http://127.0.0.1:9/');
    mkdirSync(at.data, { recursive: true });
    const file = path.join(at.data, 'state.sqlite');
    const state = openState(at.data);
    const entry = { at: Date.now(), mailbox: ADA, url: 'http://127.0.0.1:9/', success: true };
    storeDeliveries(state, 'main', [{ ...entry, attempts: 1, mostAttempts: 6, durationMs: 1 }]);
    state.close();
    const before = await webhooks('list');
    expect([before.code, before.stderr]).toEqual([0, '']);
    damage(file);
    const bytes = readFileSync(file);
    const table = await webhooks('list');
    expect([table.code, table.stdout]).toEqual([0, before.stdout]);
    expect(table.stderr).toMatch(
      /^warning: The deliveries stored by the daemon were not read\. The state .*state\.sqlite .*\.\n$/,
    );
    const lines = await webhooks('list', '--json');
    expect(lines.code).toBe(0);
    expect(jsonLines(lines.stderr)).toEqual([
      { warning: expect.objectContaining({ code: 'deliveries-unread' }) },
    ]);
    expect(jsonLines(lines.stdout)).toEqual([expect.objectContaining({ id })]);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });
});

test('a test that fails is exit 1, and the webhook stays with its secret', async () => {
  const place = workplace(here.served.sandbox);
  const { webhooks } = commands(place);
  const receiver = await here.receiver(statuses(500));
  const create = await webhooks('create', '--mailbox', ADA, '--url', receiver.url, '--name', 'x');
  expect(create.code).toBe(1);
  expect(create.stdout).toMatch(/Its secret is in .*\.json \(0600\)/);
  expect(create.stdout).toContain('Test delivery: failed with status 500');
  const [name = ''] = readdirSync(path.join(place.data, 'webhooks'));
  const again = await webhooks('test', name.replace(/\.json$/, ''));
  expect([again.code, again.stdout]).toEqual([
    1,
    expect.stringContaining('failed with status 500'),
  ]);
});

describe('what the daemon knows of deliveries', () => {
  const HOUR = 3_600_000;
  const shown = z.object({
    id: z.string(),
    status: z.string(),
    delivery: z
      .object({
        state: z.string(),
        failures: z.number(),
        lastSuccessAt: z.string().nullable(),
      })
      .nullable(),
  });
  beforeEach(async () => {
    await here.close();
    here = await hooked({ now: Date.now });
  });

  /** What the daemon's watch over webhooks finds, with what it keeps of the delivery log. */
  async function daemonFinds(at: Workplace, own: readonly OwnWebhook[]) {
    const { platformUrl, tokens } = here.served.sandbox;
    const platform = new PlatformClient({
      baseUrl: platformUrl,
      token: () => Promise.resolve(tokens.platform),
    });
    mkdirSync(at.data, { recursive: true });
    const memory = openState(at.data);
    try {
      const { signal } = new AbortController();
      const { orderId } = here;
      const asked = { account: 'main', orderId, platform, own, memory, now: Date.now, signal };
      return await watchDeliveries(asked);
    } finally {
      memory.close();
      await platform.close();
    }
  }

  test('is what the list shows: one that fails is not active', async () => {
    const at = bothSurfaces(here.served.sandbox);
    const { webhooks } = commands(at);
    const failing = await here.receiver(statuses(500));
    const sound = await here.receiver();
    const [box] = here.served.sandbox.mailboxes;
    const place = { account: 'main', mailboxId: box?.resourceId ?? '', mailbox: ADA };
    const own: OwnWebhook[] = [];
    for (const { url } of [failing, sound]) {
      own.push({ ...place, id: (await here.createHook(url)).id, url });
    }
    const list = async () => {
      const { code, stdout } = await webhooks('list', '--json');
      expect(code).toBe(0);
      return jsonLines(stdout).map((line) => shown.parse(line));
    };
    const well = { status: 'active', delivery: { state: 'well', failures: 0 } };
    expect(await list()).toMatchObject([well, well]);
    for (let n = 0; n < 3; n += 1) await here.arrive();
    const found = await daemonFinds(at, own);
    expect(found.map(({ state }) => state)).toEqual(['failing', 'well']);
    const listed = await list();
    expect(listed.map(({ id, delivery }) => [id, delivery?.state, delivery?.failures])).toEqual(
      found.map(({ webhook, state, failures }) => [webhook.id, state, failures]),
    );
    const table = await webhooks('list');
    expect(table.stdout).toMatch(/^STATUS +MAILBOX .*\nfailing +ada@.*\nactive +ada@/);
    expect(table.stderr).toContain(
      `The last 3 deliveries of webhook ${own[0]?.id} failed: only scheduled syncs find new mail.`,
    );

    // Without the service's log, what the daemon kept of it counts.
    here.served.sandbox.fault({
      kind: 'status',
      status: 404,
      operation: 'platform.listDeliveryLogs',
    });
    expect((await list()).map(({ delivery }) => delivery?.state)).toEqual(['failing', 'well']);
    expect((await webhooks('list')).stderr).toContain('The delivery log was not read.');
  });

  test('covers webhooks that the service has lost, and nothing is claimed without a log', async () => {
    const at = bothSurfaces(here.served.sandbox);
    const receiver = await here.receiver();
    const { webhooks } = commands(at);
    const create = await webhooks('create', '--mailbox', ADA, '--url', receiver.url, '--json');
    const { id } = created.parse(JSON.parse(create.stdout));
    const other = commands(workplace(here.served.sandbox));
    const [line] = jsonLines((await other.webhooks('list', '--json')).stdout);
    expect(shown.parse(line)).toEqual({ id, status: 'active', delivery: null });

    await here.served.call(`DELETE ${here.served.m}/webhooks/${id}`);
    const lost = `The service no longer has webhook ${id}`;
    expect((await webhooks('list')).stderr).toContain(lost);
    expect((await webhooks('list', '--mailbox', ADA)).stderr).toContain(lost);
    expect((await webhooks('list', '--mailbox', OFFICE)).stderr).not.toContain(lost);
    // A listing of one status does not show the others.
    expect((await webhooks('list', '--status', 'active')).stderr).not.toContain(lost);
  });

  test('is forgotten after a day: what failed then says nothing of today', async () => {
    const at = bothSurfaces(here.served.sandbox);
    const { id } = await here.createHook('http://127.0.0.1:9/');
    mkdirSync(at.data, { recursive: true });
    const state = openState(at.data);
    const entry = { mailbox: ADA, url: 'http://127.0.0.1:9/', success: false, durationMs: 1 };
    const tried = { ...entry, attempts: 6, mostAttempts: 6 };
    storeDeliveries(state, 'main', [{ ...tried, at: Date.now() - 25 * HOUR }]);
    const states = async () =>
      jsonLines((await commands(at).webhooks('list', '--json')).stdout)
        .map((line) => shown.parse(line))
        .map((hook) => [hook.id, hook.delivery?.state]);
    expect(await states()).toEqual([[id, 'well']]);
    storeDeliveries(state, 'main', [{ ...tried, at: Date.now() - HOUR }]);
    expect(await states()).toEqual([[id, 'failing']]);
    state.close();
  });
});

test('the log shows the outcome of deliveries, and needs the platform surface', async () => {
  const receiver = await here.receiver(statuses(500, 200));
  await here.createHook(receiver.url);
  await here.arrive();
  await here.arrive();
  const { webhooks } = commands(bothSurfaces(here.served.sandbox, { orderId: here.orderId }));
  const log = await webhooks('log', '--mailbox', ADA, '--json');
  expect(log.code).toBe(0);
  const lines = jsonLines(log.stdout);
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    expect(line).toEqual({
      createdAt: expect.stringMatching(/Z$/),
      mailbox: ADA,
      url: receiver.url,
      success: expect.any(Boolean),
      durationMs: expect.any(Number),
      ...{ attempts: 1, retryCount: 0 },
      maxRetryCount: expect.any(Number),
    });
  }
  expect(
    lines.map((line) => z.object({ success: z.boolean() }).parse(line).success).sort(),
  ).toEqual([false, true]);
  expect(jsonLines((await webhooks('log', '--limit', '1', '--json')).stdout)).toEqual(
    lines.slice(0, 1),
  );
  expect((await webhooks('log')).stdout).toMatch(/^TIME +OUTCOME +TRIES +TOOK +MAILBOX +URL\n/);
  expect((await webhooks('log', '--mailbox', OFFICE)).stderr).toBe('Nothing was delivered yet.\n');

  const without = await commands(workplace(here.served.sandbox)).webhooks('log');
  expect([without.code, without.stdout]).toEqual([2, '']);
  expect(without.stderr).toContain('account "main" has no token for it');
});

test.each(['regenerateWebhookSecret', 'platform.regenerateWebhookSecret'])(
  '%s replaces the stored secret, and the next delivery carries it',
  async (operation) => {
    const at = bothSurfaces(here.served.sandbox);
    const { webhooks } = commands(at);
    const receiver = await here.receiver();
    const create = await webhooks('create', '--mailbox', ADA, '--url', receiver.url, '--json');
    const { id, secretFile } = created.parse(JSON.parse(create.stdout));
    const before = stored.parse(JSON.parse(readFileSync(secretFile, 'utf8')));
    const params = ['--param', `webhookId=${id}`];
    if (!operation.startsWith('platform.')) params.push('--param', `mailboxResourceId=${ADA}`);
    const renewed = await mailkeep(['api', operation, ...params, '--yes', '--config', at.config]);
    expect([renewed.code, renewed.stderr]).toEqual([0, expect.stringContaining('was replaced')]);
    const after = stored.parse(JSON.parse(readFileSync(secretFile, 'utf8')));
    expect(after).toEqual({ ...before, secret: expect.any(String) });
    expect(after.secret).not.toBe(before.secret);
    expect(statSync(secretFile).mode & 0o777).toBe(0o600);
    await here.arrive();
    await receiver.count(2);
    expect(receiver.got.at(-1)?.headers.authorization).toBe(`Bearer ${after.secret}`);
    expect(readdirSync(path.dirname(secretFile))).toEqual([path.basename(secretFile)]);
  },
);

test('webhooks are named without guessing', async () => {
  const { webhooks } = commands(workplace(here.served.sandbox));
  const first = await here.createHook('http://127.0.0.1:9/a');
  const second = await here.createHook('http://127.0.0.1:9/b');
  const shared = first.id.slice(0, 8);
  expect(second.id.startsWith(shared)).toBe(true);
  for (const [args, words] of [
    [['delete', '', '--yes'], /The argument <id> is empty/],
    [['delete', '--yes'], /name webhooks by their ids, or all of a mailbox/i],
    [['delete', shared, '--yes'], /Several ids begin with/],
    [['delete', first.id, '--yes', '--mailbox', OFFICE], /no webhook whose id begins/],
    [
      ['delete', 'ffffffff', '--yes'],
      /no webhook whose id begins with "ffffffff" in account "main"/,
    ],
    [
      ['pause', '--mailbox', 'ben@example.org'],
      /cannot reach ben@example\.org; it reaches ada@example\.org/,
    ],
    [['lst'], /Unknown command 'lst'\. Did you mean list\?/],
    [[], /^mailkeep: No command given\.\nUsage: mailkeep webhooks <list\|create\|/],
    [['list', '--nonsense'], /unknown option '--nonsense'\.\n"mailkeep webhooks --help"/i],
    [['create', '--mailbox', ADA], /an address is missing: give --url/i],
    [['create', '--mailbox', ADA, '--url', 'ftp://x'], /does not take this as "url"/],
  ] as const) {
    const { code, stdout, stderr } = await webhooks(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(words);
  }
  const { byOperation } = here.served.sandbox.requests();
  expect([byOperation.deleteWebhook, byOperation.updateWebhook]).toEqual([undefined, undefined]);
});

describe('a secret that cannot be stored', () => {
  test('is found out before the webhook is created', async () => {
    const place = workplace(here.served.sandbox);
    writeFileSync(place.data, 'a file instead of the folder');
    const { webhooks } = commands(place);
    const ended = await webhooks('create', '--mailbox', ADA, '--url', 'http://127.0.0.1:9/');
    expect([ended.code, ended.stdout]).toEqual([1, '']);
    expect(ended.stderr).toContain('No webhook was created.');
    expect(here.served.sandbox.requests().byOperation.createWebhook).toBeUndefined();
  });

  test.each([
    [204, 'The webhook was deleted.'],
    [404, 'its secret is lost'],
  ])('takes the webhook back when it is found out later (%d)', async (status, words) => {
    let data = '';
    const origin = await startOrigin((request, response) => {
      const { method } = request;
      if (method === 'GET' && request.path.includes('/webhooks')) {
        return json(200, { data: [], pagination: { page: 1, perPage: 100, total: 0 } })(
          request,
          response,
        );
      }
      if (method === 'GET') {
        const mailboxes = [{ resourceId: 'AC1', address: ADA }];
        return json(200, { data: { orderResourceId: 'OR1', mailboxes } })(request, response);
      }
      if (method === 'DELETE') {
        response.writeHead(status).end();
        return undefined;
      }
      rmSync(path.join(data, 'webhooks'), { recursive: true });
      const webhook = { id: 'hook-1', url: 'http://127.0.0.1:9/', secret: 'whsec_lost' };
      return json(201, { data: webhook })(request, response);
    });
    const place = workplace({
      mailboxUrl: origin.url,
      tokens: { mailbox: 'token', platform: 'token' },
    });
    data = place.data;
    const ended = await commands(place).webhooks(
      ...['create', '--mailbox', ADA, '--url', 'http://127.0.0.1:9/'],
    );
    expect([ended.code, ended.stdout]).toEqual([1, '']);
    expect(ended.stderr).toContain(words);
    expect(ended.stderr).not.toContain('whsec_lost');
    expect(origin.seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST', 'DELETE']);
  });
});

test('a webhook that does the same is shown, and no second one is created', async () => {
  const { webhooks } = commands(workplace(here.served.sandbox));
  const { id } = await here.createHook('http://127.0.0.1:9/mail');
  const again = await webhooks('create', '--mailbox', ADA, '--url', 'http://127.0.0.1:9/mail');
  expect(again.code).toBe(0);
  expect(again.stdout).toContain(`Webhook ${id} reports new mail for ${ADA}`);
  expect(again.stdout).toContain('Its secret is not stored here');
  expect(again.stdout).toContain(`mailkeep webhooks delete ${id}`);
  // Another path is another address, and another mailbox another webhook.
  for (const args of [
    ['--mailbox', ADA, '--url', 'http://127.0.0.1:9/other'],
    ['--mailbox', OFFICE, '--url', 'http://127.0.0.1:9/mail'],
  ]) {
    expect((await webhooks('create', ...args, '--no-test')).stdout).toContain('(0600)');
  }
  expect((await webhooks('pause', id)).code).toBe(0);
  const paused = await webhooks('create', '--mailbox', ADA, '--url', 'http://127.0.0.1:9/mail');
  expect(paused.stdout).toContain(`It is paused. To resume it: mailkeep webhooks resume ${id}`);
});
