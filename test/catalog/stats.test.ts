import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Fact } from '../../src/archive/format/facts.ts';
import type { CommittedBatch } from '../../src/archive/format/records.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/open.ts';
import type { CountRequest } from '../../src/catalog/search/search.ts';
import type { StatsRequest } from '../../src/catalog/stats/asked.ts';
import { DIMENSIONS, type StatsRow } from '../../src/catalog/stats/rows.ts';
import { parseQuery } from '../../src/search/parse.ts';
import { attachment, entry, START, sha256, temporaryDir } from './history.ts';
import { ACTS, Model, steps } from './model.ts';

const ZONES = ['UTC', 'Europe/Berlin', 'Pacific/Auckland', 'America/St_Johns'];
const WORDS = ['alpha', 'beta', 'gamma'];
const numberOf = (id: string) => Number.parseInt(id.slice(0, 8), 16);

/** Seconds around the turns of days, months and years, in all zones. */
function secondOf(id: string): number {
  const n = numberOf(id);
  const day = Date.UTC(
    2022 + (n % 3),
    [0, 2, 9, 11][(n >>> 3) % 4] ?? 0,
    [1, 31, 15][(n >>> 5) % 3],
  );
  return day / 1000 + ((n >>> 7) % 96) * 1800 - 86_400;
}

/** Each message with a size, a time, and a docid of its own. */
function settled(docids: Map<string, number>) {
  return (fact: Fact): Fact => {
    if (fact.fact !== 'appeared') return fact;
    const { message } = fact;
    const base = secondOf(message) * 64;
    const docid = docids.get(message) ?? base + docids.size;
    docids.set(message, docid);
    return { ...fact, docid, size: 100 + (numberOf(message) % 5000) };
  };
}

function index(catalog: WritableCatalog): void {
  const people = ['ada@example.org', 'bo@example.org', 'x.ada@example.org', 'cy@example.net'];
  catalog.index.index(
    catalog.index.pending({ limit: 1000 }).map(({ docid, id }) => {
      const n = numberOf(id);
      const sender = people[n % 4] ?? '';
      return {
        docid,
        entry: entry({
          from: `Ada <${sender}>`,
          senders: [sender],
          recipients: people.slice((n >>> 2) % 4),
          body: WORDS[n % 3] ?? '',
          // Two messages in a few share one.
          messageId: `${n % 7}@example.org`,
          attachments: Array.from({ length: n % 3 }, (_, i) =>
            attachment(i + 1, {
              contentType: ['application/pdf', 'image/PNG', 'image/svg+xml'][(n + i) % 3] ?? '',
              hash: sha256(`content ${(n + i) % 4}`),
              size: 10 * ((n + i) % 4),
            }),
          ),
        }),
      };
    }),
  );
}

async function withHistory(
  played: Parameters<Model['play']>[0][],
  act: (catalog: WritableCatalog, db: Database.Database, times: readonly number[]) => void,
): Promise<void> {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  const db = new Database(catalogFile(room.dir), { readonly: true });
  try {
    const model = new Model();
    for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) model.play(step);
    const settle = settled(new Map());
    const batches = model.history.batches.map(
      (batch): CommittedBatch => ({
        ...batch,
        records: batch.records.map((record) =>
          record.kind === 'fact' ? { ...record, fact: settle(record.fact) } : record,
        ),
      }),
    );
    catalog.foldBatches(batches);
    index(catalog);
    act(
      catalog,
      db,
      batches.map(({ commit }) => commit.time),
    );
  } finally {
    db.close();
    catalog.close();
    room.remove();
  }
}

describe('statistics', () => {
  test('each number is what the search behind it counts, in every zone and at any time', async () => {
    let followed = 0;
    await fc.assert(
      fc.asyncProperty(
        steps([...ACTS, 'rename', 'purge']),
        fc.constantFrom(...ZONES),
        (played, timeZone) =>
          withHistory(played, (catalog, db, times) => {
            const asked = (query: string, asOf: number | undefined): CountRequest => ({
              node: parseQuery(query, { now: START, timeZone }).node,
              ...(asOf === undefined ? {} : { asOf }),
            });
            const sizes = new Map(
              db.prepare<[], [number, number]>('SELECT docid, size FROM messages').raw().all(),
            );
            const sumsOf = (query: string, asOf: number | undefined) => {
              const docids = [...catalog.foundDocids(asked(query, asOf))];
              return {
                messages: catalog.countHits(asked(query, asOf)),
                bytes: docids.reduce((sum, docid) => sum + (sizes.get(docid) ?? 0), 0),
                deleted: catalog.countHits(asked(`(${query}) is:deleted`, asOf)),
              };
            };
            const follow = (
              row: StatsRow,
              within: string | undefined,
              asOf: number | undefined,
            ) => {
              const query = within === undefined ? row.query : `(${within}) ${row.query}`;
              const { messages, bytes, deleted } = sumsOf(query ?? 'nothing', asOf);
              expect(row, `${query} in ${timeZone} as of ${asOf}`).toMatchObject({
                messages,
                ...(row.bytes === null || row.contents !== undefined ? {} : { bytes }),
                ...(row.deleted === null ? {} : { deleted }),
              });
              followed += 1;
            };
            const moments = [undefined, times.at(-2), times[0]];
            for (const within of [undefined, 'alpha', 'is:deleted OR in:INBOX'])
              for (const asOf of moments) {
                const node = within === undefined ? {} : { node: asked(within, asOf).node };
                const request: StatsRequest = {
                  ...node,
                  timeZone,
                  ...(asOf === undefined ? {} : { asOf }),
                };
                const all = sumsOf(within ?? 'in:anywhere', asOf);
                expect(catalog.stats.totals(request)).toEqual(all);
                for (const by of DIMENSIONS) {
                  const rows = catalog.stats.rows(by, request);
                  for (const row of rows) follow(row, within, asOf);
                  expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
                }
                for (const by of ['year', 'month'] as const) {
                  const rows = catalog.stats.rows(by, request);
                  const sum = rows.reduce((messages, row) => messages + row.messages, 0);
                  expect(sum).toBe(all.messages);
                }
                for (const { query, messages } of catalog.stats.duplicates(request, 99)) {
                  if (query === null) continue;
                  const whole = within === undefined ? query : `(${within}) ${query}`;
                  expect(messages).toBe(catalog.countHits(asked(whole, asOf)));
                }
              }
          }),
      ),
      { numRuns: 40 },
    );
    expect(followed).toBeGreaterThan(500);
  });

  test('distinct contents of a type are those of the attachments', async () => {
    await withHistory(
      Array.from({ length: 30 }, (_, a) => ({ act: 'arrive' as const, a, b: a })),
      (catalog, db) => {
        const expected = db
          .prepare(
            `SELECT type AS key, count(DISTINCT docid) AS messages, count(DISTINCT hash) AS contents,
               (SELECT sum(size) FROM (SELECT DISTINCT hash, size FROM attachments b
                WHERE b.type = a.type)) AS bytes
             FROM attachments a GROUP BY type`,
          )
          .all();
        const shown = (rows: readonly StatsRow[]) =>
          rows
            .map(({ key, messages, contents, bytes }) => ({ key, messages, contents, bytes }))
            .toSorted((a, b) => (a.key < b.key ? -1 : 1));
        expect(expected).toHaveLength(3);
        expect(shown(catalog.stats.rows('type', {}))).toEqual(expected);
        const { node } = parseQuery('in:anywhere', { now: START });
        expect(shown(catalog.stats.rows('type', { node }))).toEqual(expected);
      },
    );
  });

  test('the largest come first, and people who were written to most', async () => {
    await withHistory(
      Array.from({ length: 30 }, (_, a) => ({ act: 'arrive' as const, a, b: a })),
      (catalog, db) => {
        const sizes = db
          .prepare<[], number>('SELECT size FROM messages ORDER BY size DESC, docid DESC LIMIT 7')
          .pluck()
          .all();
        const { node } = parseQuery('in:anywhere', { now: START });
        for (const request of [{}, { node }])
          expect(catalog.stats.largest(request, 7).map(({ size }) => size)).toEqual(sizes);
        const found = catalog.stats.people('', 9);
        expect(found.map(({ address }) => address).toSorted()).toEqual([
          ...['ada@example.org', 'bo@example.org', 'cy@example.net', 'x.ada@example.org'],
        ]);
        for (const { address, received, sent } of found) {
          const count = (query: string) =>
            catalog.countHits({ node: parseQuery(query, { now: START }).node });
          expect([received, sent]).toEqual([
            count(`recip:<${address}>`),
            count(`from:<${address}>`),
          ]);
        }
        expect(found.map(({ received }) => received)).toEqual(
          found.map(({ received }) => received).toSorted((a, b) => b - a),
        );
        expect(catalog.stats.people('X.', 9).map(({ address }) => address)).toEqual([
          'x.ada@example.org',
        ]);
      },
    );
  });
});
