import { afterEach, beforeEach, expect, test } from 'vitest';
import { Store } from '../../../src/sandbox/store.ts';
import { type Delivery, DeliveryLog } from '../../../src/sandbox/webhooks.ts';
import { type Hooked, hooked } from './hooked.ts';
import { statuses } from './receiver.ts';

let h: Hooked;
beforeEach(async () => {
  h = await hooked();
});
afterEach(() => h.close());

function delivery(id: string, state: Delivery['state']): Delivery {
  return {
    id,
    webhook: 'w',
    mailbox: 'AC1',
    url: 'http://127.0.0.1/',
    createdAt: 0,
    state,
    attempts: 1,
    maxAttempts: 6,
    durationMs: 1,
    nextAt: null,
    body: state === 'queued' ? '{}' : null,
  };
}

test('finished deliveries are kept up to a number, queued ones however many', () => {
  const store = new Store();
  const log = new DeliveryLog(store, 2);
  for (const id of ['q1', 'q2', 'q3']) log.put(delivery(id, 'queued'));
  for (const id of ['f1', 'f2', 'f3']) log.put(delivery(id, 'failed'));
  log.put(delivery('q1', 'delivered'));
  expect(log.finished().map(({ id }) => id)).toEqual(['f3', 'q1']);
  expect(log.queued().map(({ id }) => id)).toEqual(['q2', 'q3']);
  const again = new DeliveryLog(store, 2);
  expect(new Set(again.finished().map(({ id }) => id))).toEqual(new Set(['f3', 'q1']));
  expect(again.queuedCount).toBe(2);
});

test('the log is listed newest first, in pages, for all mailboxes of an order or for one', async () => {
  const receiver = await h.receiver(statuses(200));
  await h.createHook(receiver.url);
  const other = h.served.sandbox.mailboxes[1]?.resourceId ?? '';
  await h.served.call(`POST /api/v1/mailboxes/${other}/webhooks`, {
    body: { name: 'n', url: receiver.url, events: ['message.received'] },
  });
  for (let n = 0; n < 27; n += 1) {
    await h.arrive(n % 3 === 0 ? 1 : 0);
    h.clock.pass(1000);
  }
  const first = await h.log();
  expect(first.meta).toEqual({ current_page: 1, per_page: 25, total: 27 });
  expect(first.data).toHaveLength(25);
  const second = await h.log('?page=2');
  expect(second.meta).toEqual({ current_page: 2, per_page: 25, total: 27 });
  const times = [...first.data, ...second.data].map(({ created_at }) => created_at);
  expect(times).toHaveLength(27);
  expect(times).toEqual([...times].sort().reverse());
  expect((await h.log('?page=3')).data).toEqual([]);
  const ofOther = await h.log(`?mailbox_id=${other}&per_page=100`);
  expect(ofOther.data.map(({ mailbox_address }) => mailbox_address)).toEqual(
    Array.from({ length: 9 }, () => 'office@example.org'),
  );
  expect((await h.log('?mailbox_id=')).meta).toMatchObject({ total: 27 });
  expect((await h.log('?mailbox_id=AC0')).meta).toMatchObject({ total: 0 });
});
