import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { mailkeep } from '../cli/child.ts';
import { archiveOf, letter, serveForAll, withoutHaste } from './served.ts';

const served = serveForAll(() =>
  archiveOf(
    Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [
        `n${i}`,
        letter(`Lease ${i}`, i < 3 ? 'The deposit of the lease, allone.' : 'The lease alone.'),
      ]),
    ),
  ),
);
beforeEach(withoutHaste);

const other = z
  .object({
    term: z.string(),
    query: z.string(),
    found: z.object({ count: z.number(), complete: z.boolean() }),
  })
  .nullable();
const COUNTS = z.object({
  all: z.object({ count: z.number() }),
  nothing: z.object({ notes: z.array(z.string()), without: other, beginning: other }).optional(),
});
const SPELLING = z.object({
  nothing: z.object({
    spelling: z.object({ query: z.string(), found: z.object({ count: z.number() }) }).nullable(),
  }),
});

const nothing = async (query: string) =>
  COUNTS.parse(await served.data(`/api/counts?q=${encodeURIComponent(query)}`));

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
    beginning: null,
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
    expect((await nothing(query)).nothing).toEqual({
      notes: [],
      without: null,
      beginning: null,
    });
  },
);

test('a name of another time is named as on the command line', async () => {
  const { nothing: found } = await nothing('lease thread:ffffffffffff');
  expect(found?.notes).toEqual(['The archive has no message "ffffffffffff".']);
  expect(found?.without).toMatchObject({ term: 'thread:ffffffffffff', found: { count: 12 } });
});

test.each([
  ['leases', 'lease*', 'lease*', 12],
  ['deposits subject:lease', 'deposit*', 'deposit* subject:lease', 3],
  ['subject:leasing alone', 'subject:leas*', 'subject:leas* alone', 9],
  ['depos', 'depos*', 'depos*', 3],
])('the longest beginning of %s that is found is named', async (query, term, whole, count) => {
  const { nothing: found } = await nothing(query);
  expect(found?.beginning).toEqual({ term, query: whole, found: { count, complete: true } });
});

test.each(['"leases"', '-lease', 'from:leases', 'leas1', 'alo', 'leases OR deposits', 'zeb*'])(
  'nothing is cut off the end of %s',
  async (query) => {
    const { all, nothing: found } = await nothing(query);
    expect([all.count, found?.beginning]).toEqual([0, null]);
  },
);

test.each([
  ['leaze', 'lease', 12],
  ['Lease depsoit', 'Lease deposit', 3],
  ['subject:leaes', 'subject:lease', 12],
  ['from:Brg (leaze OR zebra)', 'from:Brg (leaze OR zebra)', 0],
  ['from:Anna (leaze OR zebra)', 'from:Anna (lease OR zebra)', 12],
  ['depozit leaze has:attachment', 'depozit leaze has:attachment', 0],
  ['depozit leaze -zebra', 'deposit lease -zebra', 3],
  // Both words are in the archive, but not together.
  // The archive has this word, but only with the other one.
  ['allone -deposit', 'alone -deposit', 9],
])('similar words are offered for %s', async (query, meant, count) => {
  const found = SPELLING.parse(await served.data(`/api/counts?q=${encodeURIComponent(query)}`));
  const offered = count === 0 ? null : { query: meant, found: { count } };
  expect(found.nothing.spelling).toEqual(offered);
});

test.each(['"leaze"', '-lease', 'leaze*', 'laeze', 'les', 'zebra'])(
  'no other spelling is offered for %s',
  async (query) => {
    const found = SPELLING.parse(await served.data(`/api/counts?q=${encodeURIComponent(query)}`));
    expect(found.nothing.spelling).toBeNull();
  },
);

test('the page and the command line offer the spelling', async () => {
  const { text } = await served.get('/mail?q=leaze+deposit');
  expect(text).toContain('href="/mail?q=lease+deposit"><bdi class="mono">lease deposit</bdi></a>');
  const found = await mailkeep(['search', '--data', served.dataDir, 'leaze', 'deposit']);
  expect([found.code, found.stderr]).toEqual([0, 'Nothing found. Did you mean lease deposit?\n']);
  const listed = ['search', '--data', served.dataDir, '--json', 'leaze'];
  expect((await mailkeep(listed)).stderr).not.toContain('lease');
});

test('the page says so without a script', async () => {
  const { status, text } = await served.get('/mail?q=deposit+has%3Aattachment');
  expect(status).toBe(200);
  expect(text).toContain('Nothing found');
  expect(text).toContain('<bdi class="mono">has:attachment</bdi>');
  expect(text).toContain('href="/mail?q=deposit">3 messages</a>');
});

test('the page names the beginning of a word without a script', async () => {
  const { text } = await served.get('/mail?q=deposits');
  expect(text).toContain('<bdi class="mono">deposit*</bdi>');
  expect(text).toContain('href="/mail?q=deposit*">3 messages</a>');
});
