import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { mailboxKey } from '../../src/core/state.ts';
import type { DashboardData } from '../../src/web/dashboard.ts';
import { dashboardData } from '../../src/web/dashboard.ts';
import { RANGES, type Range } from '../../src/web/dashboard-data.ts';
import { sumAtService } from '../../src/web/issues.ts';
import { withHistory } from '../catalog/dated-history.ts';
import { START } from '../catalog/history.ts';
import { ACTS, steps } from '../catalog/model.ts';

const ZONES = ['UTC', 'Pacific/Kiritimati', 'America/St_Johns', 'Pacific/Niue', 'Asia/Kathmandu'];
const QUERIES = [
  '',
  'mailbox:one@example.net',
  'mailbox:one OR mailbox:two',
  '-mailbox:one@example.net',
  'mailbox:one@example.net mailbox:two@example.net',
  'account:imap.example.net',
];
/** The turn of a year, days before and after one, and days to months after the commits. */
const NOWS = [
  START + 86_400_000,
  START + 9 * 86_400_000,
  START + 100 * 86_400_000,
  Date.UTC(2024, 11, 31, 23, 30),
  Date.UTC(2024, 2, 1, 0, 30),
  Date.UTC(2023, 0, 16, 11, 0),
];
const SCOPES = [null, ['AC1'], ['AC2']] as const;

interface Asked {
  readonly query: string;
  readonly zone: string;
  readonly range: Range | null;
  readonly now: number;
  readonly mailboxes: readonly string[] | null;
}

const asks: fc.Arbitrary<Asked> = fc.record({
  // Half of them ask for all mail: of what the others find, little changes.
  query: fc.oneof(fc.constant(''), fc.constantFrom(...QUERIES)),
  zone: fc.constantFrom(...ZONES),
  range: fc.constantFrom(null, ...RANGES),
  now: fc.constantFrom(...NOWS),
  mailboxes: fc.oneof(fc.constant(null), fc.constantFrom(...SCOPES)),
});

/** A dashboard of an archive without a state, and what counts what a query finds in it. */
function made(catalog: WritableCatalog, db: Database.Database, asked: Asked) {
  const dataDir = path.dirname(db.name);
  mkdirSync(path.join(dataDir, 'log'), { recursive: true });
  const { query, zone, range, now, mailboxes } = asked;
  const host = db.prepare<[], string>('SELECT host FROM mailboxes LIMIT 1').pluck().get() ?? '';
  const { node } = parseQuery(query === '' ? '*' : query, { now });
  const keys = mailboxes?.map((mailbox) => ({ host, mailbox })) ?? null;
  const limited = keys === null ? catalog : catalog.within(keys);
  const filter = limited.charts.filterOf(node, new Map());
  if (filter === undefined) throw new Error(`no filter of ${query}`);
  const base = node.kind === 'or' ? `(${query})` : query;
  const narrow = (...terms: readonly string[]): string =>
    [base, ...terms].filter((term) => term !== '').join(' ');
  const view = { filter, narrow, range, zone, whole: sumAtService(limited, () => true) };
  const data = dashboardData(
    {
      ...{ catalog: limited, dataDir, catalogBehind: null },
      sources: () => expect.fail('no source is read'),
      refresh: () => undefined,
      close: () => undefined,
      mailboxes: keys?.map(mailboxKey) ?? null,
    },
    undefined,
    view,
    now,
  );
  const count = (text: string): number => {
    const { node: wanted, asOf } = parseQuery(text === '' ? '*' : text, { now });
    return limited.prepare({ node: wanted, ...(asOf === null ? {} : { asOf }) }).count();
  };
  return { data, count, narrow, limited };
}

/** Every number that says what finds it, wherever it stands. */
function* countedIn(value: unknown): Generator<readonly [query: string, count: number]> {
  if (typeof value !== 'object' || value === null) return;
  if ('query' in value && typeof value.query === 'string') {
    if ('count' in value && typeof value.count === 'number') yield [value.query, value.count];
    if ('messages' in value && typeof value.messages === 'number')
      yield [value.query, value.messages];
  }
  for (const part of Object.values(value)) yield* countedIn(part);
}

function sum(numbers: readonly (number | null)[]): number {
  return numbers.reduce<number>((total, one) => total + (one ?? 0), 0);
}

describe('the numbers of the dashboard', () => {
  test('are what the queries behind them count, in every zone, range, filter and scope', async () => {
    let followed = 0;
    let changed = 0;
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge'], 30), asks, (played, asked) =>
        withHistory(played, (catalog, db) => {
          const { data, count, narrow } = made(catalog, db, asked);
          const why = (query: string): string => `${query} ${JSON.stringify(asked)}`;
          const { rhythm } = data;
          if (rhythm.query !== null)
            expect(count(rhythm.query), why(rhythm.query)).toBe(sum(rhythm.counts.flat()));
          for (const [query, expected] of countedIn(data)) {
            expect(count(query), why(query)).toBe(expected);
            if (expected > 0) followed += 1;
          }
          const { periods, mailboxes, ended, total } = data.kept;
          for (const { query, counts } of [...mailboxes, ended, total])
            for (const [at, { term }] of periods.entries()) {
              if (counts[at] === 0 && at % 7 > 0) continue;
              const text = `${query} ${term}`.trim();
              expect(count(text), why(text)).toBe(counts[at]);
              if (counts[at] !== 0) followed += 1;
            }
          const { changes } = data;
          for (const [at, { stored, ended: gone }] of changes.found.entries()) {
            for (const [query, expected] of [
              [stored, changes.stored[at]],
              [gone, changes.ended[at]],
            ] as const) {
              if (expected == null || (expected === 0 && at % 7 > 0)) continue;
              expect(count(query), why(query)).toBe(expected);
              if (expected > 0) changed += 1;
            }
          }
          expect(count(changes.all.stored)).toBe(sum(changes.stored));
          expect(count(changes.all.ended)).toBe(sum(changes.ended));
          expect(count(data.consistency.endedQuery)).toBe(data.consistency.ended);
          const { people, term } = data.correspondents;
          for (const { from, to, fromQuery, toQuery } of people) {
            expect(count(narrow(fromQuery ?? '', term)), why(fromQuery ?? '')).toBe(from);
            expect(count(narrow(toQuery ?? '', term)), why(toQuery ?? '')).toBe(to);
            followed += 1;
          }
        }),
      ),
      { numRuns: 80 },
    );
    // Random histories give about five times as many.
    expect(followed).toBeGreaterThan(50);
    expect(changed).toBeGreaterThan(10);
  });

  test('of types are those of the attachments of the messages that are shown, each content once', async () => {
    let parts = 0;
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'purge'], 30), asks, (played, asked) =>
        withHistory(played, (catalog, db) => {
          const { data, limited } = made(catalog, db, asked);
          const { node } = parseQuery(asked.query === '' ? '*' : asked.query, { now: asked.now });
          const docids = [...limited.prepare({ node }).docids()];
          const sizes = db
            .prepare<[string], number>(
              `SELECT max(size) FROM attachments WHERE docid IN (SELECT value FROM json_each(?))
               GROUP BY hash, type`,
            )
            .pluck()
            .all(JSON.stringify(docids));
          expect(sum((data.storage.types ?? []).map(({ bytes }) => bytes))).toBe(sum(sizes));
          const all = db.prepare<[], number>('SELECT sum(bytes) FROM attachment_types').pluck();
          if (sum(sizes) > 0 && sum(sizes) < (all.get() ?? 0)) parts += 1;
        }),
      ),
      { numRuns: 60 },
    );
    // Histories are random, as above.
    expect(parts).toBeGreaterThan(0);
  });

  test('of bars add up to all that was received, changed or ended', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), asks, (played, given) =>
        withHistory(played, (catalog, db, times) => {
          // The range ends now: some messages are dated after the last commit of a short history.
          const newest = db.prepare<[], number | null>('SELECT max(docid) FROM messages').pluck();
          const latest = Math.max(times.at(-1) ?? START, ((newest.get() ?? 0) / 64) * 1000);
          const now = latest + 3_600_000;
          const asked: Asked = { ...given, query: '', mailboxes: null, range: 'all', now };
          const { data, count } = made(catalog, db, asked);
          const sizes = db.prepare<[], number>('SELECT size FROM messages').pluck().all();
          expect(data.kept.total.count).toBe(sizes.length);
          expect(data.gigabytes.mailNow).toBe(sum(sizes));
          expect(data.gigabytes.mail.at(-1) ?? 0).toBe(sum(sizes));
          expect(sum(data.rhythm.counts.flat())).toBe(sizes.length);
          expect(sum(data.changes.stored)).toBe(sizes.length);
          expect(sum(data.changes.ended)).toBe(data.consistency.ended);
          let stored = 0;
          for (const [at, query] of data.changes.asOf.entries()) {
            stored += data.changes.stored[at] ?? 0;
            expect(count(query), query).toBe(stored);
          }
        }),
      ),
      {
        numRuns: 40,
        examples: [
          [
            Array.from({ length: 11 }, () => ({ act: 'arrive', a: 0, b: 0 }) as const),
            { query: '', zone: 'UTC', range: null, now: 0, mailboxes: null },
          ],
        ],
      },
    );
  });

  test('of hours are those that clocks of the zone showed', async () => {
    await fc.assert(
      fc.asyncProperty(steps(ACTS), fc.constantFrom(...ZONES), (played, zone) =>
        withHistory(played, (catalog, db) => {
          const asked: Asked = {
            query: '',
            zone,
            range: 'all',
            now: NOWS[0] ?? 0,
            mailboxes: null,
          };
          const { data } = made(catalog, db, asked);
          const format = new Intl.DateTimeFormat('en-GB', {
            timeZone: zone,
            weekday: 'short',
            hour: '2-digit',
            hourCycle: 'h23',
          });
          const expected = new Map<string, number>();
          for (const docid of db.prepare<[], number>('SELECT docid FROM messages').pluck().all()) {
            const key = format.format(Math.floor(docid / 64) * 1000);
            expected.set(key, (expected.get(key) ?? 0) + 1);
          }
          const shown = new Map(
            data.rhythm.counts.flatMap((line, row) =>
              line.flatMap((value, hour) =>
                value === 0
                  ? []
                  : [
                      [
                        `${['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'][row]} ${String(hour).padStart(2, '0')}`,
                        value,
                      ] as const,
                    ],
              ),
            ),
          );
          const plain = new Map([...expected].map(([key, n]) => [key.replace(',', ''), n]));
          expect(shown).toEqual(plain);
        }),
      ),
      { numRuns: 40 },
    );
  });

  test('of days are what was stored and what ended on them, and nothing before the archive began', async () => {
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'purge']), fc.constantFrom(...ZONES), (played, zone) =>
        withHistory(played, (catalog, db, times) => {
          const now = (times.at(-1) ?? START) + 1;
          const asked: Asked = { query: '', zone, range: '30d', now, mailboxes: null };
          const { periods, stored, ended } = made(catalog, db, asked).data.changes;
          const within = (from: number, to: number, sql: string): number =>
            db.prepare<[number, number], number>(sql).pluck().get(from, to) ?? 0;
          for (const [at, { from, to }] of periods.entries()) {
            if (to <= (times[0] ?? 0)) {
              expect([stored[at], ended[at]]).toEqual([null, null]);
              continue;
            }
            const news = `SELECT count(*) FROM messages JOIN commits ON number = first_commit WHERE time >= ? AND time < ?`;
            const ends = `SELECT count(*) FROM (SELECT docid, max(to_commit) AS last FROM places
              WHERE docid NOT IN (SELECT docid FROM places WHERE to_commit IS NULL) GROUP BY docid)
              JOIN commits ON number = last WHERE time >= ? AND time < ?`;
            expect(stored[at]).toBe(within(from, to, news));
            expect(ended[at]).toBe(within(from, to, ends));
          }
        }),
      ),
      { numRuns: 40 },
    );
  });
});

test('a query that asks for more than mailboxes has no sums', async () => {
  await withHistory([], (catalog) => {
    for (const query of ['ferry', 'is:deleted', 'mailbox:one is:unread', '-(mailbox:one ferry)'])
      expect(
        catalog.charts.filterOf(parseQuery(query, { now: 0 }).node, new Map()),
        query,
      ).toBeUndefined();
  });
});

test('an empty archive has numbers too', async () => {
  await withHistory([], (catalog, db) => {
    for (const range of [null, ...RANGES]) {
      const asked: Asked = { query: '', zone: 'UTC', range, now: NOWS[0] ?? 0, mailboxes: null };
      const { data }: { data: DashboardData } = made(catalog, db, asked);
      expect(data.kept.total.count).toBe(0);
      expect(data.correspondents.people).toEqual([]);
      expect(data.kept.periods.length).toBeGreaterThan(0);
    }
  });
});
