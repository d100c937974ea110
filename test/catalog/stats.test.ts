import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { CountRequest } from '../../src/catalog/search.ts';
import type { StatsRequest } from '../../src/catalog/stats.ts';
import { DIMENSIONS, type StatsRow } from '../../src/catalog/sums.ts';
import { withHistory } from './dated-history.ts';
import { START } from './history.ts';
import { ACTS, steps } from './model.ts';

const ZONES = ['UTC', 'Europe/Berlin', 'Pacific/Auckland', 'America/St_Johns'];

/** Counts found messages by the folders that their lines show: where they are, or were last. */
function foldersOf(catalog: Catalog, request: CountRequest) {
  const counts = new Map<string, number>();
  for (const { line } of catalog.prepare(request).page({ limit: 999, sort: 'newest' }).hits) {
    const last = line.places[0]?.endedAt ?? null;
    const shown = line.places.filter(({ endedAt }) => endedAt === last);
    for (const path of new Set(shown.map(({ folder }) => folder)))
      counts.set(path, (counts.get(path) ?? 0) + 1);
  }
  return [...counts]
    .map(([key, messages]) => ({ key, messages }))
    .sort((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1));
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
              const docids = [...catalog.prepare(asked(query, asOf)).docids()];
              return {
                messages: catalog.prepare(asked(query, asOf)).count(),
                bytes: docids.reduce((sum, docid) => sum + (sizes.get(docid) ?? 0), 0),
                deleted: catalog.prepare(asked(`(${query}) is:deleted`, asOf)).count(),
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
                  for (const limit of [1, 3])
                    expect(catalog.stats.rows(by, request, limit)).toEqual(rows.slice(0, limit));
                }
                for (const by of ['year', 'month'] as const) {
                  const rows = catalog.stats.rows(by, request);
                  const sum = rows.reduce((messages, row) => messages + row.messages, 0);
                  expect(sum).toBe(all.messages);
                }
                for (const { query, messages } of catalog.stats.duplicates(request, 99)) {
                  if (query === null) continue;
                  const whole = within === undefined ? query : `(${within}) ${query}`;
                  expect(messages).toBe(catalog.prepare(asked(whole, asOf)).count());
                }
              }
          }),
      ),
      { numRuns: 40 },
    );
    expect(followed).toBeGreaterThan(500);
  });

  test('facets are what the rows of each dimension are, of any query and at any time', async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
        withHistory(played, (catalog, _, times) => {
          for (const query of ['in:anywhere', 'alpha', 'is:deleted OR in:INBOX', 'is:unread'])
            for (const asOf of [undefined, times.at(-2), times[0]]) {
              const request = {
                node: parseQuery(query, { now: START }).node,
                ...(asOf === undefined ? {} : { asOf }),
              };
              const all = catalog.stats.facets(request, 99, () => true);
              expect(all).toMatchObject({
                counted: catalog.prepare(request).count(),
                complete: true,
              });
              for (const by of ['mailbox', 'folder', 'year', 'month', 'from', 'type'] as const) {
                const rows = catalog.stats.rows(by, request);
                const isPeriod = by === 'year' || by === 'month';
                const expected =
                  by === 'folder'
                    ? foldersOf(catalog, request)
                    : (isPeriod ? rows.toReversed() : rows).map(({ key, messages }) => ({
                        key,
                        messages,
                      }));
                // A term for a folder and one for a state mean one place.
                if (by === 'folder' && query !== 'is:unread')
                  expect(expected).toEqual(rows.map(({ key, messages }) => ({ key, messages })));
                expect(all[by], `${by} of ${query} as of ${asOf}`).toEqual(expected);
                expect(catalog.stats.facets(request, 1, () => true)[by]).toEqual(
                  expected.slice(0, 1),
                );
                compared += expected.length;
              }
            }
        }),
      ),
      { numRuns: 25 },
    );
    expect(compared).toBeGreaterThan(200);
  });

  test('facets say where there was no time for all messages', async () => {
    const many = Array.from({ length: 40 }, (_, a) => ({ act: 'arrive' as const, a, b: a }));
    await withHistory(many, (catalog) => {
      const request = { node: parseQuery('in:anywhere', { now: START }).node };
      const all = catalog.stats.facets(request, 9, () => true);
      expect([all.complete, all.counted]).toEqual([true, catalog.prepare(request).count()]);
      const parts = [...catalog.prepare(request).docids({}, () => false)];
      const none = catalog.stats.facets(request, 9, () => false);
      expect(none.counted).toBe(parts.length);
      if (parts.length < all.counted) expect(none.complete).toBe(false);
    });
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
        const found = catalog.stats.people('', 9, () => true, 'recipient');
        expect(found.map(({ address }) => address).toSorted()).toEqual([
          ...['ada@example.org', 'bo@example.org', 'cy@example.net', 'x.ada@example.org'],
        ]);
        for (const { address, received, sent } of found) {
          const count = (query: string) =>
            catalog.prepare({ node: parseQuery(query, { now: START }).node }).count();
          expect([received, sent]).toEqual([
            count(`recip:<${address}>`),
            count(`from:<${address}>`),
          ]);
        }
        expect(found.map(({ received }) => received)).toEqual(
          found.map(({ received }) => received).toSorted((a, b) => b - a),
        );
        expect(catalog.stats.people('X.', 9, () => true).map(({ address }) => address)).toEqual([
          'x.ada@example.org',
        ]);
      },
    );
  });
});
