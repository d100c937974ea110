import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { validRequest } from './cases.ts';
import { LIMITS, type Limit } from './limits.ts';
import { type Row, TABLE } from './table.ts';
import { type Change, callRow, type World, world } from './world.ts';

let w: World;
beforeAll(async () => {
  w = await world();
});
afterAll(() => w.close());

const rowOf = ({ operation }: Pick<Limit, 'operation'>): Row => {
  const row = TABLE.find(({ surface, name }) => `${surface}.${name}` === operation);
  if (row === undefined) throw new Error(`no operation ${operation}`);
  return row;
};

/** Between requests more time goes by than any rate limit lasts. */
async function statusOf(row: Row, change: Change): Promise<number> {
  w.pass(60_000);
  const valid = validRequest(row);
  const values = { ...valid.values, ...change.values };
  return (await callRow(w, row, { ...valid, ...change, values })).status;
}

describe.each(LIMITS)('$operation: $limit', (limit) => {
  const row = rowOf(limit);

  test('what is beyond is refused', async () => {
    expect(limit.refused).not.toEqual([]);
    for (const change of limit.refused) {
      expect([change, await statusOf(row, change)]).toEqual([change, 422]);
    }
  });

  test('what is within is taken', async () => {
    for (const change of limit.taken) {
      // What one request used up must not be missing in the next one.
      const fresh = await world();
      const shared = w;
      w = fresh;
      try {
        const status = await statusOf(row, change);
        expect([change, status]).toEqual([
          change,
          expect.toSatisfy((s) => row.success.includes(s)),
        ]);
      } finally {
        w = shared;
        await fresh.close();
      }
    }
  });
});

describe('pages without a size have', () => {
  test.each([
    ['mailbox.listFolders', 'pagination', { page: 1, perPage: 50 }],
    ['mailbox.listMessages', 'pagination', { page: 1, perPage: 25 }],
    ['mailbox.searchMessages', 'pagination', { page: 1, perPage: 25 }],
    ['mailbox.listWebhooks', 'pagination', { page: 1, perPage: 50 }],
    ['platform.listWebhooks', 'meta', { current_page: 1, per_page: 50 }],
    ['platform.listDeliveryLogs', 'meta', { current_page: 1, per_page: 25 }],
    ['platform.listMailboxes', 'meta', { current_page: 1, per_page: 50 }],
  ])('%s: %s %j', async (operation, field, expected) => {
    const row = rowOf({ operation });
    const { json } = await callRow(w, row, validRequest(row));
    expect(json).toMatchObject({ [field]: expected });
  });
});
