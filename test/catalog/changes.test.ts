import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withHistory } from './dated-history.ts';
import { HOST } from './history.ts';
import { ACTS, steps } from './model.ts';

const ever = () => true;

test('columns, steps and sums since a time have what the places say', async () => {
  let seen = 0;
  await fc.assert(
    fc.asyncProperty(
      steps([...ACTS, 'rename', 'purge']),
      fc.integer({ min: 1, max: 9 }),
      (played, columns) =>
        withHistory(played, (catalog, db, times) => {
          for (const mailbox of [undefined, 'AC1']) {
            const keys = mailbox === undefined ? undefined : [{ host: HOST, mailbox }];
            const { changes } = keys === undefined ? catalog : catalog.within(keys);
            const events = db
              .prepare<[], { time: number; came: number; ended: number }>(
                `SELECT t.time, total(came) AS came, count(*) - total(came) AS ended FROM (
                   SELECT first_commit AS n, folder_id, 1 AS came FROM places
                   UNION ALL SELECT to_commit, folder_id, 0 FROM places
                   UNION ALL SELECT resumed, folder_id, 1 FROM spans WHERE resumed IS NOT NULL
                   UNION ALL SELECT to_commit, folder_id, 0 FROM spans WHERE resumed IS NOT NULL)
                 JOIN commits t ON t.number = n
                 WHERE folder_id IN (SELECT f.id FROM folders f JOIN mailboxes m ON m.id = mailbox_id
                   WHERE ${mailbox === undefined ? '1' : `m.mailbox = '${mailbox}'`})
                 GROUP BY n ORDER BY n`,
              )
              .all();
            const between = (low: number, high: number) => ({
              came: events.reduce(
                (sum, { time, came }) => sum + (time >= low && time <= high ? came : 0),
                0,
              ),
              ended: events.reduce(
                (sum, { time, ended }) => sum + (time >= low && time <= high ? ended : 0),
                0,
              ),
            });
            const [from, to] = [(times[0] ?? 0) - 5, (times.at(-1) ?? 0) + 5];
            const found = changes.columns({ from, to, columns }, ever);
            expect(found.complete).toBe(true);
            const width = (to - from + 1) / columns;
            expect(found.columns).toEqual(
              Array.from({ length: columns }, (_, i) =>
                between(Math.ceil(from + width * i), Math.ceil(from + width * (i + 1)) - 1),
              ),
            );
            for (const time of times) {
              expect(changes.since(time)).toEqual(between(time + 1, Infinity));
              expect(changes.next(time)?.time).toBe(
                events.find((event) => event.time > time)?.time,
              );
              expect(changes.previous(time)?.time).toBe(
                events.findLast((event) => event.time < time)?.time,
              );
            }
            expect(changes.columns({ from, to, columns }, () => false).columns.length).toBe(
              columns,
            );
            seen += events.length;
          }
        }),
    ),
    { numRuns: 60, seed: 27 },
  );
  expect(seen).toBeGreaterThan(100);
});
