import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Served, serveEmpty } from './client.ts';

let served: Served;
let now = Date.UTC(2026, 0, 1);
beforeEach(async () => {
  now = Date.UTC(2026, 0, 1);
  served = await serveEmpty({ now: () => now });
});
afterEach(() => served.close());

const FIELDS = { name: 'n', url: 'https://example.net/hook', events: ['message.received'] };
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

interface Created {
  readonly data: { readonly id: string; readonly secret: string };
}

function isCreated(json: unknown): json is Created {
  return typeof json === 'object' && json !== null && 'data' in json;
}

async function create(fields: object = {}): Promise<Created['data']> {
  const { status, json } = await served.call(`POST ${served.m}/webhooks`, {
    body: { ...FIELDS, ...fields },
  });
  expect(status).toBe(201);
  if (!isCreated(json)) throw new Error('no webhook');
  return json.data;
}

describe('webhooks', () => {
  test('creating one returns everything, its secret once', async () => {
    const made = await create({ description: 'd' });
    const shown = {
      id: expect.stringMatching(UUID_V7),
      accountResourceId: served.sandbox.mailboxes[0]?.resourceId,
      mailbox: 'ada@example.org',
      name: 'n',
      description: 'd',
      events: ['message.received'],
      status: 'active',
      url: 'https://example.net/hook',
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:00.000Z',
    };
    expect(made).toEqual({ ...shown, secret: expect.stringMatching(/.{32,}/) });
    const got = await served.call(`GET ${served.m}/webhooks/${made.id}`);
    expect([got.status, got.json]).toEqual([200, { data: shown }]);
    const list = await served.call(`GET ${served.m}/webhooks`);
    expect(list.json).toEqual({
      data: [shown],
      pagination: { page: 1, perPage: 50, total: 1, totalPages: 1 },
    });
    expect(list.bytes.toString()).not.toContain(made.secret);
  });

  test('updating changes what is named, and only that', async () => {
    const { id } = await create();
    now += 5000;
    const { status, json } = await served.call(`PATCH ${served.m}/webhooks/${id}`, {
      body: { status: 'paused', description: null },
    });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      data: {
        id,
        name: 'n',
        status: 'paused',
        description: null,
        updatedAt: '2026-01-01T00:00:05.000Z',
      },
    });
    expect(json).not.toHaveProperty('data.secret');
  });

  test('the list can be narrowed to a status, and holds up to 1000 a page', async () => {
    const { id } = await create();
    await create({ status: 'disabled' });
    const ids = async (query: string) => {
      const { json } = await served.call(`GET ${served.m}/webhooks${query}`);
      return JSON.stringify(json);
    };
    expect(await ids('?status=active&perPage=1000')).toContain(id);
    expect(await ids('?status=paused')).toContain('"total":0');
    expect(await ids('?status=disabled')).toContain('"total":1');
    for (const query of ['?status=broken', '?perPage=1001', '?page=0']) {
      expect((await served.call(`GET ${served.m}/webhooks${query}`)).status).toBe(422);
    }
  });

  test('a new secret replaces the old one', async () => {
    const { id, secret } = await create();
    const { status, json } = await served.call(`POST ${served.m}/webhooks/${id}/regenerate-secret`);
    expect(status).toBe(200);
    expect(json).toMatchObject({ data: { id, secret: expect.not.stringMatching(secret) } });
  });

  test('a deleted one is gone, and one of another mailbox was never there', async () => {
    const { id } = await create();
    const other = `/api/v1/mailboxes/${served.sandbox.mailboxes[1]?.resourceId ?? ''}/webhooks/${id}`;
    expect(await served.call(`GET ${other}`)).toMatchObject({
      status: 404,
      json: { code: 'ERR_WEBHOOK_NOT_FOUND' },
    });
    expect((await served.call(`DELETE ${other}`)).status).toBe(404);
    expect((await served.call(`DELETE ${served.m}/webhooks/${id}`)).status).toBe(204);
    expect((await served.call(`DELETE ${served.m}/webhooks/${id}`)).status).toBe(404);
  });

  test.each([
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(256) }, 'name'],
    [{ url: 'not a url' }, 'url'],
    [{ url: 'ftp://example.net/' }, 'url'],
    [{ url: `https://example.net/${'x'.repeat(2048)}` }, 'url'],
    [{ events: [] }, 'events'],
    [{ events: ['message.deleted'] }, 'events.0'],
    [{ status: 'on' }, 'status'],
    [{ description: 7 }, 'description'],
  ])('%j is 422', async (fields, field) => {
    const wrong = {
      status: 422,
      json: {
        code: 'ERR_VALIDATION_FAILED',
        params: { fields: { [field]: [expect.any(String)] } },
      },
    };
    const { id } = await create();
    expect(
      await served.call(`POST ${served.m}/webhooks`, { body: { ...FIELDS, ...fields } }),
    ).toMatchObject(wrong);
    expect(await served.call(`PATCH ${served.m}/webhooks/${id}`, { body: fields })).toMatchObject(
      wrong,
    );
  });

  test('plain http is refused where the service says so', async () => {
    await served.close();
    served = await serveEmpty({ settings: { localWebhooks: false } });
    const body = { ...FIELDS, url: 'http://127.0.0.1:9/' };
    expect((await served.call(`POST ${served.m}/webhooks`, { body })).status).toBe(422);
  });
});

describe('testWebhook', () => {
  test('really delivers, with the secret, and says what came of it', async () => {
    const got: { headers: IncomingMessage['headers']; body: unknown }[] = [];
    let status = 200;
    const receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        got.push({ headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString()) });
        response.writeHead(status).end('ok');
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const { id, secret } = await create({ url: `http://127.0.0.1:${port}/hook` });
    const run = () => served.call(`POST ${served.m}/webhooks/${id}/test`);
    expect(await run()).toMatchObject({
      status: 200,
      json: { data: { httpStatus: 200, success: true, error: null } },
    });
    expect(got[0]?.headers.authorization).toBe(`Bearer ${secret}`);
    expect(got[0]?.headers['content-type']).toBe('application/json');
    expect(got[0]?.body).toMatchObject({ event: 'message.received', data: { uid: 1 } });
    receiver.once('connection', (socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    });
    expect(await run()).toMatchObject({ json: { data: { httpStatus: 0, success: false } } });
    status = 503;
    expect((await run()).json).toEqual({
      data: { httpStatus: 503, success: false, error: expect.any(String) },
    });
    await new Promise<void>((resolve) => {
      receiver.close(() => resolve());
      receiver.closeAllConnections();
    });
    expect((await run()).json).toEqual({
      data: { httpStatus: 0, success: false, error: expect.any(String) },
    });
  });
});
