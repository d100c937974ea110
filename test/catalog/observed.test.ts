import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { withHistory } from './dated-history.ts';
import { HOST } from './history.ts';
import { ACTS, steps } from './model.ts';

const iso = (time: number) => new Date(time).toISOString();

/** Neighbours whose commits are within the same second have no query of their own. */
const second = (time: number) => Math.floor(time / 1000);

test('added: and deleted: find what a look at each commit shows, now and then, for all mailboxes and for some', async () => {
  let found = 0;
  await fc.assert(
    fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), fc.nat(), (played, pick) =>
      withHistory(played, (catalog, _db, times) => {
        expect(new Set(times.map(second)).size).toBe(times.length);
        for (const mailbox of [undefined, 'AC1']) {
          const reader =
            mailbox === undefined ? catalog : catalog.within([{ host: HOST, mailbox }]);
          const docids = (query: string, asOf: number | undefined): ReadonlySet<number> =>
            new Set(
              reader
                .prepare({
                  node: parseQuery(query, { now: 0 }).node,
                  ...(asOf === undefined ? {} : { asOf }),
                })
                .docids(),
            );
          // The archive now, and as it was at one of its moments.
          const then = pick % Math.max(1, times.length);
          for (const last of [times.length - 1, then]) {
            const asOf = last === times.length - 1 ? undefined : times[last];
            const looks = times.slice(0, last + 1).map((time) => ({
              time,
              seen: docids('*', time),
              deleted: docids('is:deleted', time),
            }));
            const now = { seen: docids('*', asOf), deleted: docids('is:deleted', asOf) };
            const expected = {
              added: new Map<number, number>(),
              deleted: new Map<number, number>(),
            };
            for (const docid of now.seen) {
              const first = looks.find(({ seen }) => seen.has(docid));
              if (first !== undefined) expected.added.set(docid, first.time);
              if (!now.deleted.has(docid)) continue;
              const before = looks.findLastIndex(({ deleted }) => !deleted.has(docid));
              const since = looks[before + 1];
              if (since !== undefined) expected.deleted.set(docid, since.time);
            }
            for (const what of ['added', 'deleted'] as const)
              for (const { time } of looks) {
                const at = [...expected[what]].flatMap(([docid, own]) =>
                  own === time ? [docid] : [],
                );
                const query = `${what}:${iso(time)}`;
                expect([...docids(query, asOf)].sort(), query).toEqual(at.sort());
                found += at.length;
              }
          }
        }
      }),
    ),
    { numRuns: 60, seed: 31 },
  );
  expect(found).toBeGreaterThan(200);
});
