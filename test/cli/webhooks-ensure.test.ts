import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import type { Receiver } from '../sandbox/webhooks/receiver.ts';
import { jsonLines, mailkeep, type Workplace, workplace } from './child.ts';
import { bothSurfaces } from './platform-config.ts';

const NAMES = ['ada@example.org', 'office@example.org', 'zoe@example.org'];
const line = z.looseObject({
  mailbox: z.string(),
  action: z.string().default(''),
  id: z.string().optional(),
  url: z.string().optional(),
  status: z.string().optional(),
});

let here: Hooked;
let receiver: Receiver;
let place: Workplace;
beforeEach(async () => {
  here = await hooked({ addresses: NAMES });
  receiver = await here.receiver();
});
afterEach(async () => {
  await here.close();
  rmSync(place.folder, { recursive: true, force: true });
});

async function webhooks(...args: string[]) {
  const ended = await mailkeep(['webhooks', ...args, '--config', place.config]);
  const lines = args.includes('--json')
    ? jsonLines(ended.stdout).map((one) => line.parse(one))
    : [];
  return { ...ended, lines };
}

const ensure = (...args: string[]) => webhooks('ensure', '--url', receiver.url, '--json', ...args);
const actions = (lines: readonly z.output<typeof line>[]): string[] =>
  lines.map(({ mailbox, action }) => `${mailbox.split('@')[0]} ${action}`);
const secrets = (): string[] => readdirSync(path.join(place.data, 'webhooks')).sort();

test.each([
  ['the mailbox surface', () => workplace(here.served.sandbox)],
  ['the platform surface', () => bothSurfaces(here.served.sandbox)],
])(
  'over %s, ensure creates what is missing, resumes what is paused and keeps the rest',
  async (_, at) => {
    place = at();
    await here.createHook(receiver.url, { name: 'of somebody else' });
    const first = await ensure();
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(actions(first.lines)).toEqual([
      'ada created',
      'office created',
      'zoe created',
      'ada other',
    ]);
    // One test is enough: all deliver to one address.
    expect(receiver.got).toHaveLength(1);
    expect(secrets()).toHaveLength(3);
    const again = await ensure();
    expect(actions(again.lines)).toEqual(['ada kept', 'office kept', 'zoe kept', 'ada other']);
    expect([again.code, receiver.got.length]).toEqual([0, 1]);

    const [, office, zoe] = first.lines.map(({ id = '' }) => ({ id }));
    if (office === undefined || zoe === undefined) throw new Error('too few were created');
    const { service } = here.served.sandbox;
    const hookOf = (id: string) => {
      const hook = service.webhooks.get(id);
      if (hook === null) throw new Error(`no webhook ${id}`);
      return hook;
    };
    service.webhooks.update(hookOf(office.id), { status: 'disabled' });
    service.webhooks.remove(hookOf(zoe.id));
    const repaired = await ensure();
    expect(actions(repaired.lines)).toEqual([
      'ada kept',
      'office resumed',
      'zoe created',
      'ada other',
    ]);
    expect(repaired.lines[1]).toMatchObject({ id: office.id, status: 'active' });
    expect(repaired.lines[2]).toMatchObject({ replaces: [zoe.id], test: { success: true } });
    expect(secrets()).toHaveLength(3);
    expect(secrets().join()).not.toContain(zoe.id);
    await here.arrive(2);
    expect(receiver.got.at(-1)?.headers.authorization).toMatch(/^Bearer /);
  },
);

describe('with several accounts', () => {
  let there: Hooked;
  beforeEach(async () => {
    there = await hooked({ addresses: ['max@example.net'] });
    const { mailboxUrl: baseUrl, tokens } = there.served.sandbox;
    place = workplace(here.served.sandbox, (config) => ({
      ...config,
      accounts: [...config.accounts, { name: 'other', baseUrl, token: tokens.mailbox }],
    }));
  });
  afterEach(() => there.close());

  const changes = (): number[] =>
    [here, there].map((at) => at.served.sandbox.requests().byOperation.createWebhook ?? 0);

  test('named mailboxes get theirs in the accounts that have them', async () => {
    const one = await ensure('--mailbox', 'MAX@example.net');
    expect([one.code, one.stderr, actions(one.lines)]).toEqual([0, '', ['max created']]);
    expect(changes()).toEqual([0, 1]);
    const two = await ensure('--mailbox', 'max@example.net', '--mailbox', 'zoe@example.org');
    expect([two.code, actions(two.lines)]).toEqual([0, ['zoe created', 'max kept']]);
    const said = await webhooks('ensure', '--url', receiver.url, '--mailbox', 'max@example.net');
    expect([said.code, said.stderr]).toEqual([0, '1 mailbox: 0 created, 0 resumed, 1 in order.\n']);
  });

  test('a mailbox that no account has is wrong usage before anything is changed', async () => {
    const args = ['--url', receiver.url, '--mailbox', 'max@example.net', '--mailbox', 'mex@b.test'];
    const unknown = await webhooks('ensure', ...args);
    expect([unknown.code, unknown.stdout]).toEqual([2, '']);
    expect(unknown.stderr).toBe(
      'mailkeep: No account of the configuration reaches mex@b.test; together they reach ada@example.org, office@example.org, zoe@example.org, max@example.net.\n',
    );
    expect(changes()).toEqual([0, 0]);
    const narrowed = await webhooks('ensure', ...args.slice(0, 4), '--account', 'main');
    expect([narrowed.code, narrowed.stdout]).toEqual([2, '']);
    expect(narrowed.stderr).toMatch(/^mailkeep: The token of account "main" cannot reach max@/);
    expect(narrowed.stderr).not.toContain('0 mailboxes');
    expect(changes()).toEqual([0, 0]);
  });

  test('an account that does not answer may have it: nothing is changed then', async () => {
    there.served.sandbox.fault({ kind: 'status', status: 401, operation: 'getCurrentAccount' });
    const unsure = await ensure('--mailbox', 'zoe@example.org', '--mailbox', 'max@example.net');
    expect([unsure.code, unsure.stdout]).toEqual([6, '']);
    expect(changes()).toEqual([0, 0]);
    const found = await ensure('--mailbox', 'zoe@example.org');
    expect([found.code, actions(found.lines)]).toEqual([6, ['zoe created']]);
  });
});

test('an address that is spelled otherwise is the same, and is registered as it was asked for', async () => {
  place = workplace(here.served.sandbox);
  const asked = new URL(receiver.url).origin;
  const first = await webhooks('ensure', '--json', '--no-test', '--url', asked);
  expect([first.code, first.lines.map(({ action }) => action)]).toEqual([
    0,
    ['created', 'created', 'created'],
  ]);
  expect(first.lines.map(({ url }) => url)).toEqual([asked, asked, asked]);
  const again = await webhooks('ensure', '--json', '--no-test', '--url', `${asked}/`);
  expect([again.code, again.lines.map(({ action }) => action)]).toEqual([
    0,
    ['kept', 'kept', 'kept'],
  ]);
  expect(again.lines.map(({ url }) => url)).toEqual([asked, asked, asked]);
});

test('create --all creates where there is none and resumes nothing', async () => {
  place = workplace(here.served.sandbox);
  const one = await webhooks(
    'create',
    '--mailbox',
    NAMES[1] ?? '',
    '--url',
    receiver.url,
    '--json',
  );
  const { id = '' } = one.lines.map((said) => said)[0] ?? {};
  expect((await webhooks('pause', id)).code).toBe(0);
  const all = await webhooks('create', '--all', '--no-test', '--url', receiver.url);
  expect([all.code, all.stderr]).toEqual([0, '3 mailboxes: 2 created, 1 there already.\n']);
  expect(all.stdout.split('\n').filter((text) => text.startsWith('created'))).toHaveLength(2);
  const listed = await webhooks('list', '--json', '--status', 'paused');
  expect(jsonLines(listed.stdout)).toHaveLength(1);
  for (const args of [[], ['--all', '--mailbox', 'x']]) {
    const wrong = await webhooks('create', ...args, '--url', receiver.url);
    expect([wrong.code, wrong.stdout]).toEqual([2, '']);
    expect(wrong.stderr).toContain('either --mailbox, or --all');
  }
});

test('a mailbox that the service refuses is named, and the others get theirs', async () => {
  place = workplace(here.served.sandbox);
  const { service, mailboxes } = here.served.sandbox;
  const office = service.store.mailboxes.get(mailboxes[1]?.resourceId ?? '');
  if (office === undefined) throw new Error('no such mailbox');
  service.standings.setStatus(office, 'suspended');
  const { code, lines } = await ensure();
  expect(code).toBe(1);
  expect(actions(lines)).toEqual(['office failed', 'ada created', 'zoe created']);
  expect(lines[0]).toMatchObject({ error: { code: 'origin.forbidden' } });
  const again = await webhooks('ensure', '--url', receiver.url);
  expect([again.code, again.stderr]).toEqual([
    1,
    '3 mailboxes: 0 created, 0 resumed, 2 in order, 1 failed.\n',
  ]);
  expect(again.stdout).toMatch(/^failed {4}office@example\.org: .+\n$/);
  const named = await ensure('--mailbox', NAMES[2] ?? '');
  expect([named.code, actions(named.lines)]).toEqual([0, ['zoe kept']]);
});

test('where the service does not say whether a webhook is there, no second one is created', async () => {
  place = workplace(here.served.sandbox);
  const { sandbox } = here.served;
  const first = await ensure();
  const zoe = first.lines.find(({ mailbox }) => mailbox === NAMES[2]);
  const hook = sandbox.service.webhooks.get(zoe?.id ?? '');
  if (hook === null) throw new Error('no webhook');
  sandbox.service.webhooks.remove(hook);
  sandbox.fault({ kind: 'status', status: 403, operation: 'getWebhook' });
  const unsure = await ensure();
  expect(unsure.code).toBe(1);
  expect(actions(unsure.lines).sort()).toEqual(['ada kept', 'office kept', 'zoe failed']);
  expect(secrets()).toHaveLength(3);
  sandbox.clearFaults();
  expect(actions((await ensure()).lines)).toEqual(['ada kept', 'office kept', 'zoe created']);
});
