import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { program, start } from '../cli/child.ts';
import { mail } from '../sandbox/client.ts';
import { receive, statuses } from '../sandbox/webhooks/receiver.ts';

/** `mailkeep sandbox` as it is installed: bundled, a process of its own, known by its first line only. */

const hello = z.strictObject({
  mailboxUrl: z.url(),
  platformUrl: z.url(),
  mcpUrl: z.url(),
  tokens: z.strictObject({ mailbox: z.string(), platform: z.string() }),
  mailboxes: z.array(z.strictObject({ resourceId: z.string(), address: z.string() })).min(1),
  control: z.strictObject({ url: z.url(), token: z.string() }),
});

async function served(...args: string[]) {
  expect(program).toContain('dist');
  const { child, ended } = start(['sandbox', '--port', '0', ...args]);
  onTestFinished(async () => {
    child.kill();
    await ended;
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, 'line'),
    ended.then(({ stderr }): never => {
      throw new Error(`it ended: ${stderr}`);
    }),
  ]);
  const { mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes, control } = hello.parse(
    JSON.parse(line),
  );
  const [first = { resourceId: '', address: '' }] = mailboxes;
  const asking = (base: string, token: string) => async (route: string, body?: unknown) => {
    const [method = '', at = ''] = route.split(' ');
    const answer = await fetch(`${base}${at}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    const json: unknown = text === '' ? null : JSON.parse(text);
    return { status: answer.status, json };
  };
  return {
    child,
    ended,
    first,
    mcpUrl,
    token: tokens.mailbox,
    m: `/api/v1/mailboxes/${first.resourceId}`,
    mailbox: asking(mailboxUrl, tokens.mailbox),
    platform: asking(platformUrl, tokens.platform),
    /** With any token of the mailbox surface. */
    asker: (secret: string) => asking(mailboxUrl, secret),
    control: asking(control.url, control.token),
  };
}

function oneMessage(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-one-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(path.join(folder, '1'), mail('the only one'));
  return folder;
}

test('four folders exist whatever it is filled with, and it exits when asked to', async () => {
  const { mailbox, m, child, ended } = await served('--from', oneMessage());
  const { json } = await mailbox(`GET ${m}/folders`);
  expect(json).toMatchObject({
    data: [
      { path: 'INBOX', messageCount: 1 },
      { path: 'INBOX.Drafts', specialUse: '\\Drafts' },
      { path: 'INBOX.Sent', specialUse: '\\Sent' },
      { path: 'INBOX.Trash', specialUse: '\\Trash' },
    ],
  });
  child.kill('SIGINT');
  expect(await ended).toMatchObject({ signal: null, stderr: '' });
});

test('a webhook delivers, is retried, and its log shows it', async () => {
  const { mailbox, platform, m, first } = await served('--from', oneMessage());
  const receiver = await receive(statuses(200, 500, 200));
  onTestFinished(() => receiver.close());
  const created = await mailbox(`POST ${m}/webhooks`, {
    name: 'n',
    url: receiver.url,
    events: ['message.received'],
  });
  expect(created.status).toBe(201);
  const { id, secret } = z
    .object({ data: z.object({ id: z.string(), secret: z.string() }) })
    .parse(created.json).data;
  expect(await mailbox(`POST ${m}/webhooks/${id}/test`)).toEqual({
    status: 200,
    json: { data: { httpStatus: 200, success: true, error: null } },
  });
  const sent = await mailbox(`POST ${m}/send`, { to: [first.address], subject: 'to myself' });
  expect(sent.status).toBe(204);
  await receiver.count(3);
  expect(receiver.got.map(({ headers }) => headers.authorization)).toEqual(
    Array.from({ length: 3 }, () => `Bearer ${secret}`),
  );
  const { orderResourceId } = z
    .object({ data: z.object({ orderResourceId: z.string() }) })
    .parse((await mailbox('GET /api/v1/me')).json).data;
  const logs = `GET /api/mail/v1/orders/${orderResourceId}/webhooks/delivery-logs`;
  // The receiver knows of its answer before the service does.
  await expect
    .poll(async () => (await platform(logs)).json, { timeout: 30_000 })
    .toMatchObject({
      data: [
        { is_successful: true, retry_count: 1, mailbox_address: first.address },
        { is_successful: true, retry_count: 0 },
      ],
    });
});

test('the MCP client lists the tools at {mcpUrl}/mcp, and calls one', async () => {
  const { mcpUrl, token, first } = await served('--from', oneMessage());
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${mcpUrl}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    }),
  );
  onTestFinished(() => client.close());
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain('searchMessages');
  const found = await client.callTool({
    name: 'searchMessages',
    arguments: { mailboxResourceId: first.resourceId, folder: 'INBOX', subject: 'only' },
  });
  expect(JSON.stringify(found.content)).toContain('the only one');
});

test('the control endpoint of the first line delivers mail, adds faults, and decides about tokens and mailboxes', async () => {
  const { mailbox, asker, control, m, first } = await served('--from', oneMessage());
  const delivered = { mailbox: first.address, source: mail('from outside') };
  expect(await control('POST /deliver', delivered)).toMatchObject({ status: 201 });
  const { json } = await mailbox(`GET ${m}/folders/INBOX/messages?perPage=1`);
  expect(json).toMatchObject({ data: [{ subject: 'from outside' }], pagination: { total: 2 } });
  const fault = { kind: 'status', status: 502, operation: 'getQuota', times: 1 };
  expect(await control('POST /faults', fault)).toMatchObject({ status: 201 });
  expect((await mailbox(`GET ${m}/quota`)).status).toBe(502);
  expect((await mailbox(`GET ${m}/quota`)).status).toBe(200);
  const { orderResourceId } = z
    .object({ data: z.object({ orderResourceId: z.string() }) })
    .parse((await mailbox('GET /api/v1/me')).json).data;
  const token = { surface: 'mailbox', token: 'short-lived', orderId: orderResourceId };
  const me = () => asker('short-lived')('GET /api/v1/me');
  expect((await control('POST /tokens', token)).status).toBe(204);
  expect((await me()).status).toBe(200);
  const expired = { ...token, expiresAt: '2026-01-01T00:00:00Z' };
  expect((await control('POST /tokens', expired)).status).toBe(204);
  expect((await me()).status).toBe(401);
  const suspended = { mailbox: first.resourceId, status: 'suspended' };
  expect((await control('POST /standing', suspended)).status).toBe(204);
  expect(await mailbox(`GET ${m}/folders`)).toMatchObject({
    status: 403,
    json: { code: 'ERR_MAILBOX_SUSPENDED' },
  });
});

test('--allow refuses mail to anybody else', async () => {
  const allowed = ['--allow', '@example.org', '--allow', 'bea@example.net'];
  const { mailbox, m } = await served('--from', oneMessage(), ...allowed);
  const send = async (...to: string[]) => (await mailbox(`POST ${m}/send`, { to })).status;
  expect(await send('ada@example.org', 'bea@example.net')).toBe(204);
  expect(await send('ada@example.org', 'eve@example.net')).toBe(422);
});

test('--allow wants an address or a domain', async () => {
  const { ended } = start(['sandbox', '--allow', 'example.org']);
  const { code, stderr } = await ended;
  expect(code).toBe(2);
  expect(stderr).toContain('--allow');
  expect(stderr).toContain('@example.org');
});

test('--webhook-retries, --webhook-retry and --webhook-timeout decide how deliveries are tried', async () => {
  const timing = ['--webhook-retries', '1', '--webhook-retry', '1', '--webhook-timeout', '50'];
  const { mailbox, platform, control, m, first } = await served('--from', oneMessage(), ...timing);
  // Takes what arrives and never answers. On a busy machine nothing may arrive in time, which is a failure as well.
  const receiver = await receive(() => {});
  onTestFinished(() => receiver.close());
  const hook = { name: 'n', url: receiver.url, events: ['message.received'] };
  const created = await mailbox(`POST ${m}/webhooks`, hook);
  const { id } = z.object({ data: z.object({ id: z.string() }) }).parse(created.json).data;
  const late = expect.stringMatching(/within 50 ms|Timeout Error/);
  expect(await mailbox(`POST ${m}/webhooks/${id}/test`)).toMatchObject({
    json: { data: { httpStatus: 0, success: false, error: late } },
  });
  await control('POST /deliver', { mailbox: first.address, source: mail('new') });
  const { orderResourceId } = z
    .object({ data: z.object({ orderResourceId: z.string() }) })
    .parse((await mailbox('GET /api/v1/me')).json).data;
  const logs = `GET /api/mail/v1/orders/${orderResourceId}/webhooks/delivery-logs`;
  await expect
    .poll(async () => (await platform(logs)).json, { timeout: 30_000 })
    .toMatchObject({
      data: [
        { is_successful: false, retry_count: 1, max_retry_count: 1 },
        { is_successful: false, retry_count: 0, max_retry_count: 0 },
      ],
    });
});

test('--rpm refuses what goes beyond it with 429', async () => {
  const { mailbox } = await served('--from', oneMessage(), '--rpm', '2');
  const answered: number[] = [];
  for (let n = 0; n < 3; n += 1) answered.push((await mailbox('GET /api/v1/me')).status);
  expect(answered).toEqual([200, 200, 429]);
});
