import { afterEach, beforeEach, expect, test } from 'vitest';
import { fill, mail, type Request, type Served, serveEmpty } from './client.ts';

let served: Served;
beforeEach(async () => {
  served = await serveEmpty();
});
afterEach(() => served.close());

function control(route: string, request: Request = {}) {
  const [method = '', path = ''] = route.split(' ');
  return served.call(`${method} /control/${path}`, {
    token: served.sandbox.control.token,
    ...request,
  });
}

const inbox = () => `GET ${served.m}/folders/INBOX/messages`;

test('takes its own token only', async () => {
  for (const token of [null, served.sandbox.tokens.mailbox, served.sandbox.tokens.platform]) {
    expect(await control('GET requests', { token })).toMatchObject({
      status: 401,
      json: { code: 'ERR_UNAUTHORIZED' },
    });
  }
  expect(
    (await served.call('GET /api/v1/me', { token: served.sandbox.control.token })).status,
  ).toBe(401);
  expect((await control('GET nothing')).status).toBe(404);
});

test('counts the requests of clients, and not its own', async () => {
  await served.call('GET /api/v1/me');
  await served.call('GET /api/v1/me', { token: null });
  await served.call('GET /nowhere');
  const { json } = await control('GET requests');
  expect(json).toEqual({
    data: {
      total: 3,
      byOperation: { getCurrentAccount: 2, unknown: 1 },
      byStatus: { 200: 1, 401: 1, 404: 1 },
      byOutcome: { 'getCurrentAccount 200': 1, 'getCurrentAccount 401': 1, 'unknown 404': 1 },
      last: [
        expect.objectContaining({
          operation: 'getCurrentAccount',
          status: 200,
          path: '/api/v1/me',
        }),
        expect.objectContaining({ operation: 'getCurrentAccount', status: 401 }),
        expect.objectContaining({ operation: 'unknown', method: 'GET', status: 404 }),
      ],
    },
  });
  expect((await control('DELETE requests')).status).toBe(204);
  expect(served.sandbox.requests().total).toBe(0);
});

test('sets, lists and clears faults', async () => {
  const made = await control('POST faults', { body: { kind: 'status', status: 500, times: 1 } });
  expect([made.status, made.json]).toEqual([201, { data: { id: 1 } }]);
  expect((await served.call('GET /api/v1/me')).status).toBe(500);
  expect((await control('GET faults')).json).toEqual({
    data: [
      { id: 1, rule: { kind: 'status', status: 500, times: 1, operation: '*' }, seen: 1, hits: 1 },
    ],
  });
  await control('DELETE faults');
  expect((await control('GET faults')).json).toEqual({ data: [] });
  expect((await control('POST faults', { body: { kind: 'meteor' } })).status).toBe(422);
});

test('delivers mail, as text or as bytes', async () => {
  const arrived: number[] = [];
  served.sandbox.service.store.events.on('arrived', ({ uid }) => arrived.push(uid));
  const first = await control('POST deliver', {
    body: { mailbox: 'ada@example.org', source: mail('Grüße'), received: '2020-05-06T07:08:09Z' },
  });
  expect([first.status, first.json]).toEqual([201, { data: { uid: 1 } }]);
  await control('POST deliver', {
    body: {
      mailbox: served.sandbox.mailboxes[0]?.resourceId,
      folder: 'INBOX.Lists.New',
      base64: Buffer.from([0, 255]).toString('base64'),
      flags: ['\\Seen'],
    },
  });
  expect(arrived).toEqual([1, 1]);
  expect((await served.call(inbox())).json).toMatchObject({
    data: [{ uid: 1, subject: 'Grüße', date: '2020-05-06T07:08:09.000Z' }],
  });
  const { bytes } = await served.call(`GET ${served.m}/folders/INBOX.Lists.New/messages/1/source`);
  expect(bytes).toEqual(Buffer.from([0, 255]));
  expect((await control('POST deliver', { body: { mailbox: 'nobody', source: '' } })).status).toBe(
    422,
  );
});

test('changes mailboxes behind a client', async () => {
  fill(served, [mail('one'), mail('two'), mail('three')]);
  const change = (body: object) =>
    control('POST change', { body: { mailbox: 'ada@example.org', ...body } });
  await change({ action: 'delete', uids: [1] });
  await change({ action: 'flags', uids: [2], add: ['\\Seen'] });
  expect((await change({ action: 'move', uids: [3, 9], to: 'INBOX.Trash' })).json).toEqual({
    data: { uids: [1, null] },
  });
  expect((await served.call(inbox())).json).toMatchObject({
    data: [{ uid: 2, flags: ['\\Seen'] }],
    pagination: { total: 1 },
  });
  const source = `GET ${served.m}/folders/INBOX.Kept/messages/1/source`;
  expect((await change({ action: 'copy', uids: [2, 9], to: 'INBOX.Kept' })).json).toEqual({
    data: { uids: [1, null] },
  });
  expect((await served.call(inbox())).json).toMatchObject({ pagination: { total: 1 } });
  expect((await served.call(source)).bytes).toEqual(Buffer.from(mail('two')));
  await change({ action: 'renumber', firstUid: 40 });
  expect((await served.call(inbox())).json).toMatchObject({ data: [{ uid: 40, subject: 'two' }] });
});

test('makes and revokes tokens', async () => {
  const orderId = [...served.sandbox.service.store.mailboxes.values()][0]?.orderId;
  const made = await control('POST tokens', {
    body: { surface: 'mailbox', token: 'made-for-a-test', orderId },
  });
  expect(made.status).toBe(204);
  expect((await served.call('GET /api/v1/me', { token: 'made-for-a-test' })).status).toBe(200);
  await control('POST tokens/revoke', { body: { token: 'made-for-a-test' } });
  expect((await served.call('GET /api/v1/me', { token: 'made-for-a-test' })).status).toBe(401);
});
