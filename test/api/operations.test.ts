import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { MailboxClient, PlatformClient } from '../../src/service/client.ts';
import { findOperation, OPERATIONS } from '../../src/service/platform-wire.ts';
import { type Sample, samples } from '../wire/sample.ts';
import { type Answer, json, raw, startOrigin } from './local-origin.ts';
import { mailboxClient, platformClient, serving, servingPlatform } from './test-clients.ts';

const BOX = 'AC4b1d7e90';
const ORDER = 'OR_7f2c9d';
const HOOK = '0195a7a0-5c3e-7c1a-9a51-0123456789ab';
const inbox = { mailbox: BOX, folder: 'INBOX' };
const message = { ...inbox, uid: 4710 };
const hook = { mailbox: BOX, webhookId: HOOK };

/** How a program calls each operation to send what the sample shows. */
const MAILBOX_CALLS: Record<string, (client: MailboxClient) => Promise<unknown>> = {
  getCurrentAccount: (c) => c.getCurrentAccount(),
  submitFeedback: (c) => c.submitFeedback(BOX, { score: 9, message: 'Clear paging.' }),
  getQuota: (c) => c.getQuota(BOX),
  listFolders: (c) => c.listFolders(BOX, { page: 1 }),
  createFolder: (c) => c.createFolder(BOX, 'INBOX.Räume'),
  updateFolder: (c) => c.updateFolder({ mailbox: BOX, folder: 'INBOX.Räume' }, 'INBOX.Halls'),
  deleteFolder: (c) => c.deleteFolder({ mailbox: BOX, folder: 'INBOX.Old/New' }),
  listMessages: (c) => c.listMessages(inbox, { page: 1, perPage: 2, sort: '-uid' }),
  deleteAllMessages: (c) => c.deleteAllMessages({ mailbox: BOX, folder: 'INBOX.Trash' }),
  searchMessages: (c) =>
    c.searchMessages(
      inbox,
      { uid: '4700:*', since: '2026-02-28', flags: ['\\Seen'], subject: 'Angebot' },
      { page: 1, sort: 'uid' },
    ),
  updateMessageFlags: (c) =>
    c.updateMessageFlags(inbox, {
      uids: [4710, 4711, 9],
      addFlags: ['\\Seen'],
      removeFlags: ['\\Flagged'],
    }),
  moveMessages: (c) => c.moveMessages(inbox, [4710, 4711], 'INBOX.Trash'),
  deleteMessages: (c) => c.deleteMessages({ mailbox: BOX, folder: 'INBOX.Trash' }, [12, 13]),
  getMessage: (c) => c.getMessage(message),
  patchMessage: (c) => c.patchMessage(message, { addFlags: ['\\Flagged'] }),
  deleteMessage: (c) => c.deleteMessage(message),
  getMessageSource: (c) => c.getMessageSource(message),
  getMessageText: (c) => c.getMessageText(message),
  getMessageAttachment: (c) => c.getMessageAttachment({ ...inbox, uid: 4711 }, 'part/2'),
  moveMessage: (c) => c.moveMessage(message, 'INBOX.Halls'),
  sendEmail: (c) =>
    c.sendEmail(BOX, {
      to: ['bjorn@example.net'],
      subject: 'Re: Angebot für März',
      text: 'Einverstanden.',
      attachments: [{ filename: 'ja.txt', content: 'amE=', contentType: 'text/plain' }],
      inReplyTo: { uid: 4711, folder: 'INBOX' },
    }),
  listWebhooks: (c) => c.listWebhooks(BOX, { page: 1, status: 'active' }),
  createWebhook: (c) =>
    c.createWebhook(BOX, {
      name: 'mirror',
      url: 'https://hooks.example.org/in',
      events: ['message.received'],
      description: 'new mail',
      status: 'active',
    }),
  getWebhook: (c) => c.getWebhook(hook),
  updateWebhook: (c) => c.updateWebhook(hook, { status: 'paused' }),
  deleteWebhook: (c) => c.deleteWebhook(hook),
  regenerateWebhookSecret: (c) => c.regenerateWebhookSecret(hook),
  testWebhook: (c) => c.testWebhook(hook),
};

const PLATFORM_CALLS: Record<string, (client: PlatformClient) => Promise<unknown>> = {
  listWebhooks: (c) => c.listWebhooks(ORDER, { mailboxId: BOX, status: 'active', page: 1 }),
  createWebhook: (c) =>
    c.createWebhook(BOX, {
      name: 'mirror',
      url: 'https://hooks.example.org/in',
      events: ['message.received'],
    }),
  getWebhook: (c) => c.getWebhook(HOOK),
  updateWebhook: (c) => c.updateWebhook(HOOK, { description: null, status: 'active' }),
  deleteWebhook: (c) => c.deleteWebhook(HOOK),
  regenerateWebhookSecret: (c) => c.regenerateWebhookSecret(HOOK),
  testWebhook: (c) => c.testWebhook(HOOK),
  listDeliveryLogs: (c) => c.listDeliveryLogs(ORDER, { mailboxId: BOX, page: 1 }),
  listMailboxes: (c) => c.listMailboxes(ORDER, { search: 'ana@', sort: '-address', page: 1 }),
};

function answerOf({ response }: Sample): Answer {
  if (response.bytes !== undefined) {
    return raw(response.status, response.bytes, { 'content-type': response.contentType ?? '' });
  }
  return response.body === undefined
    ? raw(response.status, '')
    : json(response.status, response.body);
}

const record = z.record(z.string(), z.unknown());

/** What a program gets for a sample: records as they came, messages as listings, bytes as bytes. */
function resultOf(name: string, { response }: Sample): unknown {
  const operation = findOperation(name);
  const kind = operation?.response.kind;
  if (kind === 'empty') return undefined;
  if (kind === 'bytes') {
    return expect.objectContaining({
      kind: 'buffer',
      bytes: Buffer.from(response.bytes ?? ''),
      contentLength: Buffer.byteLength(response.bytes ?? ''),
    });
  }
  if (kind === 'bare') return response.body;
  const { data, pagination, meta } = record.parse(response.body);
  if (kind === 'data') return isMessage(data) ? listing(data) : data;
  const pages = z
    .object({ page: z.number(), perPage: z.number(), total: z.number() })
    .or(
      z
        .object({ current_page: z.number(), per_page: z.number(), total: z.number() })
        .transform((m) => ({ page: m.current_page, perPage: m.per_page, total: m.total })),
    )
    .parse(pagination ?? meta);
  const items = z
    .array(z.unknown())
    .parse(data)
    .map((item) => (isMessage(item) ? listing(item) : item));
  return { items, page: pages.page, perPage: pages.perPage, total: pages.total };
}

function isMessage(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'uid' in value && 'flags' in value;
}

function listing(message: unknown): unknown {
  const { path, unseen, flags, ...rest } = record.parse(message);
  expect([typeof path, typeof unseen]).toEqual(['string', 'boolean']);
  return { ...rest, flags: z.array(z.string()).parse(flags).sort(), extra: {} };
}

describe('the mailbox surface', () => {
  test.each([...samples('mailbox')])('%s', async (name, sample) => {
    const { origin, client } = await serving(answerOf(sample));
    expect(await MAILBOX_CALLS[name]?.(client)).toEqual(resultOf(name, sample));
    expectSent(origin.seen, sample, 'secret-token');
  });
});

describe('the platform surface', () => {
  test.each([...samples('platform')])('%s', async (name, sample) => {
    const { origin, client } = await servingPlatform(answerOf(sample));
    const result = await PLATFORM_CALLS[name]?.(client);
    expect(result).toEqual(resultOf(`platform.${name}`, sample));
    expectSent(origin.seen, sample, 'platform-token');
  });
});

function expectSent(
  seen: readonly {
    readonly method: string;
    readonly path: string;
    readonly body: string;
    readonly headers: Record<string, unknown>;
  }[],
  { request }: Sample,
  token: string,
): void {
  expect(seen).toHaveLength(1);
  const [sent] = seen;
  expect(`${sent?.method} ${sent?.path}`).toBe(`${request.method} ${request.path}`);
  expect(sent?.body === '' ? undefined : JSON.parse(sent?.body ?? '')).toEqual(request.body);
  expect(sent?.headers).toMatchObject({
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'user-agent': 'mailkeep',
  });
}

test('every operation can be called by its entry in the table, and its answer is left as it came', async () => {
  for (const operation of OPERATIONS) {
    const sample = samples(operation.surface).get(operation.name.replace('platform.', ''));
    if (sample === undefined) throw new Error(`no sample of ${operation.name}`);
    const origin = await startOrigin(answerOf(sample));
    const { client } =
      operation.surface === 'mailbox' ? mailboxClient(origin.url) : platformClient(origin.url);
    const [path = '', query = ''] = sample.request.path.split('?');
    const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
    const pattern = new RegExp(`^${operation.path.replace(/\{\w+\}/g, '([^/]+)')}$`);
    const values = pattern.exec(path)?.slice(1).map(decodeURIComponent) ?? [];
    const params = Object.fromEntries([
      ...names.map((name, i) => [name, values[i]]),
      ...new URLSearchParams(query),
    ]);
    const answer = await client.call(operation, params, sample.request.body);
    expect(answer.status).toBe(sample.response.status);
    if (answer.kind === 'json') expect(answer.json).toEqual(sample.response.body);
    else if (answer.kind === 'bytes') expect(answer.body).toMatchObject({ kind: 'buffer' });
    else expect(sample.response.body).toBeUndefined();
    expect(origin.seen[0]?.path).toBe(sample.request.path);
  }
});
