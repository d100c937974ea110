import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { field, HOOK, P, type Platform, platform } from './platform.ts';

let p: Platform;
beforeEach(async () => {
  p = await platform();
});
afterEach(() => p.close());

describe('webhooks', () => {
  test('creating one returns everything, its secret once', async () => {
    const answer = await p.call(`POST ${P}/mailboxes/${p.idOf(0)}/webhooks`, {
      body: { ...HOOK, description: 'd' },
    });
    const shown = {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      mailbox: { id: p.idOf(0), address: 'ada@example.org' },
      name: 'n',
      description: 'd',
      events: ['message.received'],
      status: 'active',
      url: 'https://example.net/hook',
      created_at: '2026-01-01T00:00:00.000Z',
      updated_at: '2026-01-01T00:00:00.000Z',
    };
    expect(answer.json).toEqual({ ...shown, secret: expect.stringMatching(/^whsec_.{40,}$/) });
    const id = field(answer, 'id');
    expect((await p.call(`GET ${P}/webhooks/${id}`)).json).toEqual(shown);
    expect((await p.call(`GET ${P}/orders/${p.orderId}/webhooks`)).json).toEqual({
      data: [shown],
      meta: { current_page: 1, per_page: 50, total: 1 },
    });
  });

  test('are the same on both surfaces', async () => {
    const id = await p.created();
    const other = await p.served.call(`GET ${p.served.m}/webhooks/${id}`);
    expect(other).toMatchObject({ status: 200, json: { data: { id, name: 'n' } } });
    await p.served.call(`PATCH ${p.served.m}/webhooks/${id}`, { body: { name: 'm' } });
    expect((await p.call(`GET ${P}/webhooks/${id}`)).json).toMatchObject({ name: 'm' });
    expect((await p.call(`DELETE ${P}/webhooks/${id}`)).json).toEqual({
      message: expect.stringMatching(/./),
    });
    expect((await p.served.call(`GET ${p.served.m}/webhooks/${id}`)).status).toBe(404);
  });

  test('updating changes what is named, and only that', async () => {
    const id = await p.created(p.idOf(0), { description: 'd' });
    p.pass(5000);
    const answer = await p.call(`PATCH ${P}/webhooks/${id}`, {
      body: { status: 'paused', description: null },
    });
    expect(answer).toMatchObject({
      status: 200,
      json: {
        name: 'n',
        status: 'paused',
        description: null,
        created_at: '2026-01-01T00:00:00.000Z',
        updated_at: '2026-01-01T00:00:05.000Z',
      },
    });
    expect(answer.json).not.toHaveProperty('secret');
  });

  test('a new secret replaces the old one', async () => {
    const first = await p.call(`POST ${P}/mailboxes/${p.idOf(0)}/webhooks`, { body: HOOK });
    const again = await p.call(`POST ${P}/webhooks/${field(first, 'id')}/regenerate-secret`);
    expect(again.status).toBe(200);
    expect(field(again, 'secret')).not.toBe(field(first, 'secret'));
  });

  test('the list can be narrowed to a mailbox and a status, and is paged', async () => {
    const ids = [
      await p.created(p.idOf(0)),
      await p.created(p.idOf(1)),
      await p.created(p.idOf(0)),
    ];
    await p.call(`PATCH ${P}/webhooks/${ids[2]}`, { body: { status: 'disabled' } });
    const list = async (query: string) => {
      const { json } = await p.call(`GET ${P}/orders/${p.orderId}/webhooks${query}`);
      return json;
    };
    const page = (all: readonly unknown[], total: number, perPage = 50, current = 1) => ({
      data: all.map((id) => expect.objectContaining({ id })),
      meta: { current_page: current, per_page: perPage, total },
    });
    expect(await list('')).toEqual(page(ids, 3));
    expect(await list(`?mailbox_id=${p.idOf(0)}`)).toEqual(page([ids[0], ids[2]], 2));
    expect(await list(`?mailbox_id=${p.idOf(0)}&status=active`)).toEqual(page([ids[0]], 1));
    expect(await list('?mailbox_id=AC0000')).toEqual(page([], 0));
    expect(await list('?per_page=2&page=2')).toEqual(page([ids[2]], 3, 2, 2));
    expect(await list('?per_page=2&page=3')).toEqual(page([], 3, 2, 3));
  });

  test('plain http and this machine are refused where the service says so', async () => {
    await p.close();
    p = await platform({ localWebhooks: false });
    for (const url of ['http://example.net/', 'https://127.0.0.1/']) {
      const answer = await p.call(`POST ${P}/mailboxes/${p.idOf(0)}/webhooks`, {
        body: { ...HOOK, url },
      });
      expect(answer).toMatchObject({
        status: 422,
        json: { errors: { url: [expect.stringMatching(/^The url must/)] } },
      });
    }
  });

  test('a suspended mailbox takes no new one, and its mail is out of reach', async () => {
    const { control } = p.served.sandbox;
    const suspend = (status: string) =>
      p.served.call('POST /control/standing', {
        token: control.token,
        body: { mailbox: p.idOf(0), status },
      });
    expect((await suspend('suspended')).status).toBe(204);
    const create = () => p.call(`POST ${P}/mailboxes/${p.idOf(0)}/webhooks`, { body: HOOK });
    expect(await create()).toMatchObject({ status: 409, json: { message: expect.any(String) } });
    expect(await p.served.call(`GET ${p.served.m}/folders`)).toMatchObject({
      status: 403,
      json: { code: 'ERR_MAILBOX_SUSPENDED' },
    });
    expect((await p.call(`GET ${P}/orders/${p.orderId}/mailboxes?search=ada`)).json).toMatchObject({
      data: [{ status: 'suspended' }],
    });
    await suspend('active');
    expect((await create()).status).toBe(201);
    expect((await p.served.call(`GET ${p.served.m}/folders`)).status).toBe(200);
  });
});
