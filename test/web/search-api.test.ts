import { expect, test } from 'vitest';
import { saveSearch } from '../../src/catalog/saved-searches.ts';
import type { CompletionRow } from '../../src/web/typed-word.ts';
import { archiveOf, letter, serveForAll } from './served.ts';

/** A message of a minute of 2026, or of another year. */
const dated = (i: number, year = 2026) =>
  letter(`Number ${i}`, `text ${i % 2 === 0 ? 'even' : 'odd'}`).replace(
    /Date: .*/,
    `Date: ${new Date(Date.UTC(year, i % 12, 1 + (i % 28), 10, i % 60)).toUTCString()}`,
  );
const EVIL = '<img src=x onerror=alert(1)> "quoted" \u202e';
const people = letter('From others', 'Hello').replace(
  'Anna Berg <anna@example.org>',
  `=?utf-8?B?${Buffer.from(EVIL).toString('base64')}?= <evil.name@example.net>`,
);

const served = serveForAll(async () => {
  const letters: Record<string, string> = { people };
  for (let i = 0; i < 130; i += 1) letters[`n${i}`] = dated(i, i % 5 === 0 ? 2024 : 2025);
  const dataDir = await archiveOf(letters);
  saveSearch(dataDir, 'evens', 'even', () => {});
  return dataDir;
});
served.now = Date.UTC(2030, 0, 15);

const crowd = serveForAll(() => {
  const mail = [
    ...Array.from({ length: 5 }, () => ['Bruno Haible <bruno@clisp.org>', 'bob@example.org']),
    ...Array.from({ length: 3 }, () => ['clem@example.org', 'bob@example.org']),
    ['clio@example.org', 'Club <club@example.net>'],
    ['Clara Berg <zz@example.org>', 'club@example.net, clio@example.org'],
    ['Ada Reed <ada@example.org>', 'gardeners@lists.example.org'],
    ['Bo Reed via Gardeners <gardeners@lists.example.org>', 'bob@example.org'],
  ];
  const letters = mail.map(([from, to], i) => {
    const source = dated(0).replace(/Subject: .*/, `Subject: Crowd ${i}`);
    const time = new Date(Date.UTC(2026, 0, 1, 10, i)).toUTCString();
    return [
      `c${i}`,
      source
        .replace(/From: .*/, `From: ${from}`)
        .replace(/To: .*/, `To: ${to}`)
        .replace(/Date: .*/, `Date: ${time}`)
        .replace(/Message-ID: .*/, `Message-ID: <crowd-${i}@example.org>`),
    ] as const;
  });
  return archiveOf(Object.fromEntries(letters));
});

const data = <T>(address: string): Promise<T> => served.data(address);

const query = (path: string, parameters: Record<string, string>) =>
  `/api/${path}?${new URLSearchParams(parameters)}`;

const complete = (text: string, from = served): Promise<CompletionRow[]> => {
  const at = text.indexOf('|');
  return from.data(query('complete', { q: text.replace('|', ''), at: String(at) }));
};
const inserted = async (text: string) => (await complete(text)).map(({ insert }) => insert);

interface Rows {
  readonly hits: readonly { readonly line: { readonly id: string; readonly date: string } }[];
  readonly next: string | null;
  readonly previous: string | null;
}
const rows = (parameters: Record<string, string>): Promise<Rows> => data(query('rows', parameters));
const idsOf = ({ hits }: Rows) => hits.map(({ line }) => line.id);

test.each(['newest', 'oldest'])(
  'pages follow each other in both directions, %s first',
  async (sort) => {
    const all = await rows({ q: 'text', sort, limit: '200' });
    const ids = idsOf(all);
    expect(ids.length).toBe(130);
    expect([all.next, all.previous]).toEqual([null, null]);
    const forth: string[] = [];
    for (let next: string | null = ''; next !== null; ) {
      const page: Rows = await rows({
        q: 'text',
        sort,
        limit: '40',
        ...(next === '' ? {} : { after: next }),
      });
      forth.push(...idsOf(page));
      next = page.next;
    }
    expect(forth).toEqual(ids);
    const back: string[] = [];
    for (let previous: string | null = ids.at(-1) ?? ''; previous !== null; ) {
      const page: Rows = await rows({ q: 'text', sort, limit: '40', before: previous });
      back.unshift(...idsOf(page));
      previous = page.previous;
    }
    expect(back).toEqual(ids.slice(0, -1));
  },
);

test.each(['newest', 'oldest'])(
  'a list begins at a message or a moment, and knows where that is, %s first',
  async (sort) => {
    const { hits } = await rows({ q: 'text', sort, limit: '200' });
    for (const at of [0, 1, 57, 129]) {
      const line = hits[at]?.line;
      const page = await rows({ q: 'text', sort, limit: '10', at: line?.id ?? '' });
      expect(idsOf(page)).toEqual(hits.slice(at, at + 10).map((hit) => hit.line.id));
      const position = await data(query('position', { q: 'text', sort, at: line?.id ?? '' }));
      expect(position).toEqual({
        before: { count: at, complete: true },
        all: { count: 130, complete: true },
      });
      const [first] = (await rows({ q: 'text', sort, limit: '10', at: line?.date ?? '' })).hits;
      expect(first?.line.date).toBe(line?.date);
    }
    const between = await rows({ q: 'text', sort, at: '2025-06-15T12:00:00Z', limit: '1' });
    const date = between.hits[0]?.line.date ?? '';
    expect(date < '2025-06-15T12').toBe(sort === 'newest');
    expect(await data(query('position', { q: 'text', sort, at: 'nothing' }))).toBeNull();
  },
);

test('operators are offered after two letters', async () => {
  expect(await complete('f|')).toEqual([]);
  expect(await inserted('fr|')).toEqual(['from:']);
  expect(await inserted('ferry -be|')).toEqual(['before:']);
  const [row] = await complete('ferry fr|om:anna');
  expect(row).toMatchObject({ from: 6, to: 11, kind: 'operator', count: null });
});

test('people are found by address and by name, and their numbers are those of the query', async () => {
  for (const typed of ['from:an|', 'from:ber|', 'from:<anna|', 'from:"anna ber|']) {
    const [row] = await complete(typed);
    expect(row, typed).toMatchObject({
      ...{ insert: '<anna@example.org>', label: 'Anna Berg', detail: 'anna@example.org' },
      ...{ count: 130, kind: 'person' },
    });
    const counts = await data(query('counts', { q: `from:${row?.insert}` }));
    expect(counts).toMatchObject({ all: { count: row?.count } });
  }
  expect((await complete('recip:bo|'))[0]).toMatchObject({
    insert: '<bob@example.org>',
    count: 131,
  });
  // They never were in Cc or Bcc.
  for (const operator of ['cc', 'bcc']) expect(await complete(`${operator}:bo|`)).toEqual([]);
  for (const operator of ['to', 'contact']) {
    const [row] = await complete(`${operator}:bo|`);
    const counts = await data(query('counts', { q: `${operator}:${row?.insert}` }));
    expect(counts, operator).toMatchObject({ all: { count: row?.count } });
  }
  expect((await complete('to:bo|'))[0]).toMatchObject({ insert: 'bob@example.org', count: 131 });
  expect(await inserted('from:m|')).toEqual(['me']);
});

test('people come in the order of what they sent, or what was sent to them', async () => {
  const labels = async (text: string) =>
    (await complete(text, crowd)).map(({ label, detail, count }) => [detail || label, count]);
  const bruno = ['bruno@clisp.org', 5];
  expect(await labels('from:cl|')).toEqual([
    // Their names or addresses start with it; of those who wrote as often, the one who wrote last is first.
    ...[['clem@example.org', 3], ['zz@example.org', 1], ['clio@example.org', 1], bruno],
  ]);
  expect(await labels('to:cl|')).toEqual([
    ['club@example.net', 2],
    ['clio@example.org', 1],
  ]);
  expect(await labels('cc:cl|')).toEqual([]);
  expect(await labels('contact:clu|')).toEqual([['club@example.net', 2]]);
  for (const typed of ['from:gard|', 'to:gard|', 'from:ada|'])
    expect((await complete(typed, crowd))[0], typed).toMatchObject({
      label: typed === 'from:ada|' ? 'Ada Reed' : 'Gardeners',
    });
});

test('a hostile name is only text, and cannot break out of a query', async () => {
  const [row] = await complete('from:evil|');
  expect(row).toMatchObject({ insert: '<evil.name@example.net>', label: EVIL.trim() });
  const [byName] = await complete('from:quot|');
  expect(byName).toEqual({ ...row, to: 9 });
});

test('folders, mailboxes, values, types and saved searches are offered', async () => {
  await served.get('/mail');
  const [folder] = await complete('in:inb|');
  expect(folder).toMatchObject({ kind: 'folder', detail: 'imported' });
  const found = await data(query('counts', { q: `in:${folder?.insert}` }));
  expect(found).toMatchObject({ all: { count: folder?.count } });
  expect(await inserted('mailbox:imp|')).toEqual(['imported']);
  expect(await inserted('account:imp|')).toEqual(['import.invalid']);
  expect(await inserted('is:un|')).toEqual(['unread', 'unstarred', 'unanswered']);
  expect(await inserted('has:|')).toEqual(['attachment', 'inline']);
  expect((await complete('is:del|'))[0]).toMatchObject({ insert: 'deleted', count: null });
  expect((await complete('@ev|'))[0]).toMatchObject({ insert: '@evens', detail: 'even' });
});

test('dates have the numbers of the queries that they write, now and not of the past', async () => {
  const offered = await complete('date:|');
  expect(offered.map(({ label }) => label)).toEqual([
    ...['today', 'this month', 'last month', '2026', '2025', '2024'],
  ]);
  const months = await complete('date:2025-0|');
  expect(months.length).toBe(8);
  for (const { insert, count } of [...offered, ...months]) {
    if (count === null) continue;
    const counts = await data(query('counts', { q: `date:${insert}` }));
    expect(counts, insert).toMatchObject({ all: { count } });
  }
  const past = await complete('asof:2026-01-01 date:|');
  expect(past.every(({ count }) => count === null)).toBe(true);
  expect(await inserted('asof:y|')).toEqual(['yesterday']);
});

test('the timeline has the numbers of the list, in any zone', async () => {
  interface Timeline {
    readonly unit: string;
    readonly messages: number;
    readonly complete: boolean;
    readonly bars: readonly {
      readonly from: number;
      readonly to: number;
      readonly messages: number;
    }[];
  }
  for (const tz of ['UTC', 'Pacific/Auckland', 'Nowhere/None'])
    for (const q of ['', 'even', 'in:anywhere', 'date:2025-03', 'date:2025']) {
      const timeline = await data<Timeline>(query('timeline', { q, tz }));
      const counts = await data(query('counts', { q }));
      expect(counts).toMatchObject({ all: { count: timeline.messages } });
      expect(timeline.bars.reduce((sum, { messages }) => sum + messages, 0)).toBe(
        timeline.messages,
      );
      if (q !== 'even')
        expect(timeline.unit).toBe(
          q === 'date:2025-03' ? 'day' : q === 'date:2025' ? 'week' : 'month',
        );
    }
  expect(await data(query('timeline', { q: 'from:(' }))).toMatchObject({ problem: {} });
});

test('changes add up to the archive, and their steps lead from one to the next', async () => {
  interface Changes {
    readonly first: number;
    readonly last: number;
    readonly columns: readonly { readonly came: number; readonly ended: number }[];
  }
  const { first, last, columns } = await data<Changes>(query('changes', { columns: '50' }));
  expect(columns.length).toBe(50);
  expect(columns.reduce((sum, { came }) => sum + came, 0)).toBe(131);
  const [one] = (
    await data<Changes>(
      query('changes', { from: String(first - 9), to: String(first - 1), columns: '1' }),
    )
  ).columns;
  expect(one).toEqual({ came: 0, ended: 0 });
  let came = 0;
  for (let than = first - 1; ; ) {
    const step = await data<{ time: number; came: number } | null>(
      query('changes/next', { than: String(than) }),
    );
    if (step === null) break;
    came += step.came;
    const before = await data(query('changes/previous', { than: String(step.time + 1) }));
    expect(before).toEqual(step);
    than = step.time;
  }
  expect(came).toBe(131);
  const moment = await data(query('moment', { at: new Date(last).toISOString() }));
  expect(moment).toMatchObject({
    past: { messages: 131, ended: 0 },
    since: { came: 0, ended: 0 },
    next: null,
  });
  const start = await data(query('moment', { at: String(first - 1000) }));
  expect(start).toMatchObject({ inForce: null, past: { messages: 0 }, since: { came: 131 } });
  expect(await data(query('moment', { at: 'x' }))).toBeNull();
});
