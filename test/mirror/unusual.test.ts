import { hash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { KnownMailbox } from '../../src/catalog/folders.ts';
import { mailboxKey } from '../../src/core/state.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mirroredMailboxes } from '../../src/web/mirror.ts';
import { mailkeep } from '../cli/child.ts';
import { mail } from '../sandbox/client.ts';
import { NOW } from '../web/served.ts';
import { asking, deliver, type Mirrored, mirrored } from './mirrored.ts';

const EMPTY = { seed: 7, mail: { messages: 0 } };
const page = z.object({
  data: z.array(z.object({ uid: z.int(), subject: z.string().nullable() })),
  pagination: z.object({ total: z.int() }),
});
const counted = z.object({
  data: z.array(z.object({ path: z.string(), messageCount: z.int(), unreadCount: z.int() })),
});

async function subjects({ mirror, m }: Mirrored, rest = 'sort=uid') {
  const { body } = await mirror('GET', `${m}/folders/INBOX/messages?${rest}`);
  const { data, pagination } = page.parse(body);
  expect(pagination.total).toBe(data.length);
  return data.map(({ subject }) => subject);
}

async function countOf({ mirror, m }: Mirrored): Promise<number | undefined> {
  const { body } = await mirror('GET', `${m}/folders`);
  return counted.parse(body).data.find(({ path: name }) => name === 'INBOX')?.messageCount;
}

test('a message in quarantine is listed and counted, and its source is 502', async () => {
  const both = await mirrored(EMPTY);
  const { sandbox, m, mirror, origin } = both;
  try {
    deliver(sandbox, mail('held back'));
    sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource' });
    await both.sync([1]);
    sandbox.clearFaults();
    const one = `${m}/folders/INBOX/messages/1`;
    expect(await subjects(both)).toEqual(['held back']);
    expect(await countOf(both)).toBe(1);
    expect(await mirror('GET', one)).toEqual(await origin('GET', one));
    for (const rest of ['source', 'text', 'attachments/part-2'])
      expect([rest, await mirror('GET', `${one}/${rest}`)]).toMatchObject([
        rest,
        { status: 502, body: { code: 'ERR_QUARANTINED', params: { uid: 1 } } },
      ]);
    const search = `${m}/folders/INBOX/messages/search`;
    const found = async (criteria: object) =>
      page.parse((await mirror('POST', search, criteria)).body).pagination.total;
    expect(await found({ smaller: 1_000_000 })).toBe(1);
    expect(await found({ subject: 'held' })).toBe(0);
    // It is stored now, and what takes its row in the catalog is another message.
    await both.sync();
    deliver(sandbox, mail('the next one'));
    sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource' });
    await both.sync([1]);
    expect(await subjects(both)).toEqual(['held back', 'the next one']);
    expect((await mirror('GET', `${one}/source`)).status).toBe(200);
    expect((await mirror('GET', `${m}/folders/INBOX/messages/2/source`)).status).toBe(502);
  } finally {
    await both.close();
  }
});

test('a forgotten message is absent and not counted, also as of before, and its record is no other one', async () => {
  const both = await mirrored(EMPTY);
  const { sandbox, m, mirror } = both;
  try {
    const secret = mail('secret');
    deliver(sandbox, mail('kept'));
    await both.sync();
    deliver(sandbox, secret);
    await both.sync();
    const before = encodeURIComponent(new Date().toISOString());
    expect(await subjects(both)).toEqual(['kept', 'secret']);
    const id = hash('sha256', Buffer.from(secret, 'latin1'));
    const { code, stderr } = await mailkeep(['forget', id, '--yes', '--data', both.place.data]);
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    expect(await subjects(both)).toEqual(['kept']);
    expect(await subjects(both, `sort=uid&asOf=${before}`)).toEqual(['kept']);
    expect(await countOf(both)).toBe(1);
    for (const rest of ['', '/source', '/text'])
      expect((await mirror('GET', `${m}/folders/INBOX/messages/2${rest}`)).status).toBe(404);
    // Whatever row of the catalog the next one gets, its record is its own.
    deliver(sandbox, mail('later'));
    await both.sync();
    expect(await subjects(both)).toEqual(['kept', 'later']);
  } finally {
    await both.close();
  }
});

test('a mailbox that is gone at the service stays readable', async () => {
  const both = await mirrored({ seed: 8, mail: { messages: 20 } });
  const { sandbox, mirror, m } = both;
  try {
    const ask = async () => [
      await mirror('GET', '/api/v1/me'),
      await mirror('GET', `${m}/folders`),
      await mirror('GET', `${m}/folders/INBOX/messages`),
      await mirror('GET', `${m}/quota`),
    ];
    const before = await ask();
    sandbox.service.store.mailboxes.delete(sandbox.mailboxes[0]?.resourceId ?? '');
    await both.sync([0, 1]);
    expect(before.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await ask()).toEqual(before);
  } finally {
    await both.close();
  }
});

test('mailboxes of two hosts with one resource id: the second has a suffix, unless it is the only one in reach', async () => {
  const second = await startSandbox(EMPTY);
  const keys = path.join(tmpdir(), `mailkeep-second-token-${process.pid}`);
  mkdirSync(keys, { recursive: true });
  writeFileSync(path.join(keys, 'token'), second.tokens.mailbox, { mode: 0o600 });
  const both = await mirrored(EMPTY, (config) => ({
    ...config,
    accounts: [
      ...(config.accounts ?? []),
      {
        name: 'second',
        baseUrl: second.mailboxUrl.replace('127.0.0.1', 'localhost'),
        token: { file: path.join(keys, 'token') },
      },
    ],
  }));
  const { sandbox, tokens, mirror, served } = both;
  try {
    const id = sandbox.mailboxes[0]?.resourceId ?? '';
    expect(second.mailboxes[0]?.resourceId).toBe(id);
    deliver(sandbox, mail('of the first'));
    deliver(second, mail('of the second'));
    await both.sync();
    const { body } = await mirror('GET', '/api/v1/me');
    const resourceIds = z
      .object({ data: z.object({ mailboxes: z.array(z.object({ resourceId: z.string() })) }) })
      .parse(body)
      .data.mailboxes.map(({ resourceId }) => resourceId);
    const other = `${id}~localhost`;
    expect(resourceIds).toEqual(expect.arrayContaining([id, other]));
    const of = async (ask: typeof mirror, mailbox: string) => {
      const m = `/api/v1/mailboxes/${mailbox}`;
      const { status, body: listed } = await ask('GET', `${m}/folders/INBOX/messages`);
      return status === 200 ? page.parse(listed).data.map(({ subject }) => subject) : status;
    };
    expect(await of(mirror, id)).toEqual(['of the first']);
    expect(await of(mirror, other)).toEqual(['of the second']);
    // A suffix would show that there is another one.
    const key = mailboxKey({ host: 'localhost', mailbox: id });
    const made = tokens.create({ name: 'narrow', mailboxes: [key], expiresAt: null }, NOW);
    const narrow: typeof mirror = asking(both.pool, made.secret);
    expect(await of(narrow, id)).toEqual(['of the second']);
    expect(await of(narrow, other)).toBe(403);
    expect(JSON.stringify(await narrow('GET', '/api/v1/me'))).not.toContain('~');
    expect(served.errors).toEqual([]);
  } finally {
    await both.close();
    await second.close();
  }
});

test('a host that calls its mailbox like the second of others takes no place of theirs', () => {
  const mailbox = (host: string, name: string): KnownMailbox => ({
    ...{ id: 0, host, mailbox: name, address: `${name}@${host}` },
  });
  const served = mirroredMailboxes([
    mailbox('first', 'AC1'),
    mailbox('evil', 'AC1~second'),
    mailbox('second', 'AC1'),
    mailbox('third', 'AC1'),
  ]);
  expect(served.map(({ host, resourceId }) => [host, resourceId])).toEqual([
    ['first', 'AC1'],
    ['evil', 'AC1~second'],
    ['second', 'AC1~second~second'],
    ['third', 'AC1~third'],
  ]);
});
