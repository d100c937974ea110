import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { archiveOf, letter, Served } from './served.ts';

const served = new Served();
let cookie: string;

beforeAll(async () => {
  const letters = Object.fromEntries(
    Array.from({ length: 12 }, (_, i) => [
      `n${i}`,
      letter(`Lease ${i}`, i < 3 ? 'The deposit of the lease.' : 'The lease alone.'),
    ]),
  );
  await served.start(await archiveOf(letters));
  cookie = await served.signIn();
});
afterAll(() => served.close());
beforeEach(() => {
  expect(served.errors).toEqual([]);
});

const COUNTS = z.object({
  data: z.object({
    all: z.object({ count: z.number() }),
    nothing: z
      .object({
        notes: z.array(z.string()),
        without: z
          .object({
            term: z.string(),
            query: z.string(),
            found: z.object({ count: z.number(), complete: z.boolean() }),
          })
          .nullable(),
      })
      .optional(),
  }),
});

async function nothing(query: string) {
  const { text } = await served.ask(`/api/counts?q=${encodeURIComponent(query)}`, {
    headers: served.own(cookie),
  });
  return COUNTS.parse(JSON.parse(text)).data;
}

test('the term that is in the way is named, with what there is without it', async () => {
  const { all, nothing: found } = await nothing('deposit lease has:attachment');
  expect(all.count).toBe(0);
  expect(found).toEqual({
    notes: [],
    without: {
      term: 'has:attachment',
      query: 'deposit lease',
      found: { count: 3, complete: true },
    },
  });
  const again = await nothing('deposit lease');
  expect(again.all.count).toBe(3);
  expect(again.nothing).toBeUndefined();
});

test('of several terms, the one that leaves the fewest messages', async () => {
  const { nothing: found } = await nothing('lease deposit "lease alone"');
  // Without "lease" nothing is found either; without deposit there are nine.
  expect(found?.without).toMatchObject({ term: '"lease alone"', found: { count: 3 } });
});

test.each(['zebra', 'zebra has:attachment giraffe', 'zebra OR giraffe', 'zebra asof:2030'])(
  'where no single term is in the way of %s, none is named',
  async (query) => {
    expect((await nothing(query)).nothing).toEqual({ notes: [], without: null });
  },
);

test('a name of another time is named as on the command line', async () => {
  const { nothing: found } = await nothing('lease thread:ffffffffffff');
  expect(found?.notes).toEqual(['The archive has no message "ffffffffffff".']);
  expect(found?.without).toMatchObject({ term: 'thread:ffffffffffff', found: { count: 12 } });
});

test('the page says so without a script', async () => {
  const { status, text } = await served.ask('/mail?q=deposit+has%3Aattachment', {
    headers: { cookie },
  });
  expect(status).toBe(200);
  expect(text).toContain('Nothing found');
  expect(text).toContain('<bdi class="mono">has:attachment</bdi>');
  expect(text).toContain('href="/mail?q=deposit">3 messages</a>');
});
