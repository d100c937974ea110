import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { SearchHit } from '../../src/catalog/search.ts';
import { withHistory } from './dated-history.ts';
import { HOST, START } from './history.ts';
import { ACTS, type Step, steps } from './model.ts';

const EVERYTHING = parseQuery('*', { now: START }).node;
const SCOPES = [undefined, 'AC1', 'AC2'] as const;
/** What each history begins with: enough messages for conversations, some of which change. */
const BEFORE: readonly Step[] = [
  ...Array.from({ length: 12 }, (_, i): Step => ({ act: 'arrive', a: i, b: i })),
  ...[0, 1].map((i): Step => ({ act: 'copy', a: i, b: i + 1 })),
  { act: 'commit', a: 0, b: 0 },
  ...[2, 3, 5].map((i): Step => ({ act: 'move', a: i, b: i + 1 })),
  ...[1, 4].map((i): Step => ({ act: 'end', a: i, b: 0 })),
  { act: 'commit', a: 0, b: 0 },
];

test('a row has the number of messages that its conversation has, in every scope and at every moment', async () => {
  let conversations = 0;
  let parted = 0;
  await fc.assert(
    fc.asyncProperty(steps([...ACTS, 'rename', 'purge']), (played) =>
      withHistory([...BEFORE, ...played], (catalog, _db, times) => {
        for (const mailbox of SCOPES)
          for (const asOf of [undefined, ...times.slice(-3)]) {
            const reader =
              mailbox === undefined ? catalog : catalog.within([{ host: HOST, mailbox }]);
            const { hits } = reader
              .prepare({ asOf, node: EVERYTHING })
              .page({ limit: 1_000, sort: 'newest' });
            const docidOf = ({ line }: SearchHit) => reader.messages.docidOf(line.id) ?? 0;
            const sizes = reader.conversationSizes(hits.map(docidOf), { asOf });
            for (const hit of hits) {
              const { node } = parseQuery(`thread:${hit.line.id}`, { now: START });
              const size = reader.prepare({ asOf, node }).count();
              expect(sizes.get(docidOf(hit)) ?? 1, `${mailbox} as of ${asOf}`).toBe(size);
              if (size > 1) conversations += 1;
              if (size !== catalog.prepare({ node }).count()) parted += 1;
            }
          }
      }),
    ),
    { numRuns: 25 },
  );
  expect(conversations).toBeGreaterThan(100);
  expect(parted).toBeGreaterThan(10);
});

test('a message that is in no conversation, or not there, has no number', async () => {
  await withHistory([{ act: 'arrive', a: 0, b: 0 }], (catalog) => {
    const { hits } = catalog.prepare({ node: EVERYTHING }).page({ limit: 9, sort: 'newest' });
    const docids = hits.map(({ docid }) => docid);
    expect(docids.length).toBe(1);
    expect(catalog.conversationSizes([...docids, 1, 2], {}).size).toBe(0);
    expect(catalog.conversationSizes([], {}).size).toBe(0);
    expect(catalog.changesSince(docids, {}).size).toBe(0);
  });
});

test('a row of the past says what became of its message', async () => {
  const seen = new Map<string, number>();
  const placesOf = ({ line }: SearchHit) =>
    line.places.filter(({ endedAt }) => endedAt === null).map((at) => `${at.mailbox}/${at.folder}`);
  await fc.assert(
    // Without names that change, places can be compared by their names.
    fc.asyncProperty(steps(ACTS), (played) =>
      withHistory([...BEFORE, ...played], (catalog, _db, times) => {
        for (const mailbox of SCOPES)
          for (const asOf of times.slice(0, -1)) {
            const reader =
              mailbox === undefined ? catalog : catalog.within([{ host: HOST, mailbox }]);
            const docidOf = ({ line }: SearchHit) => reader.messages.docidOf(line.id) ?? 0;
            const page = { limit: 1_000, sort: 'newest' } as const;
            const then = reader.prepare({ node: EVERYTHING, asOf }).page(page).hits;
            const now = new Map(
              reader
                .prepare({ node: EVERYTHING })
                .page(page)
                .hits.map((hit) => [hit.line.id, hit]),
            );
            const became = reader.changesSince(then.map(docidOf), { asOf });
            for (const hit of then) {
              const today = now.get(hit.line.id);
              if (today === undefined) throw new Error('a message has gone');
              const [before, after] = [placesOf(hit), placesOf(today)];
              const expected =
                before.length === 0 || before.some((place) => after.includes(place))
                  ? undefined
                  : after.length === 0
                    ? { kind: 'deleted', at: Date.parse(today.line.endedAt ?? '') }
                    : {
                        kind: 'moved',
                        mailbox: today.line.places[0]?.mailbox,
                        folder: today.line.places[0]?.folder,
                      };
              expect(became.get(docidOf(hit))).toEqual(expected);
              const kind = expected?.kind ?? 'none';
              seen.set(kind, (seen.get(kind) ?? 0) + 1);
            }
          }
      }),
    ),
    { numRuns: 25 },
  );
  for (const kind of ['none', 'deleted', 'moved'])
    expect([kind, (seen.get(kind) ?? 0) > 20]).toEqual([kind, true]);
});
