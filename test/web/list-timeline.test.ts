import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { listTimeline } from '../../src/web/mail-list.ts';
import { withHistory } from '../catalog/dated-history.ts';
import { START } from '../catalog/history.ts';
import { ACTS, steps } from '../catalog/model.ts';

const ZONES = ['UTC', 'Pacific/Kiritimati', 'America/St_Johns'];
const QUERIES = ['*', 'in:INBOX', 'alpha', 'mailbox:two@example.net OR is:deleted'];
const ARRIVALS = Array.from({ length: 25 }, (_, i) => ({ act: 'arrive', a: i, b: i }) as const);

test('in the past, the timeline has what came since as well: as much as the query finds today', async () => {
  let later = 0;
  let both = 0;
  await fc.assert(
    fc.asyncProperty(
      steps([...ACTS, 'purge']),
      fc.constantFrom(...ZONES),
      fc.constantFrom(...QUERIES),
      fc.integer({ min: 0, max: 400 }),
      (played, timeZone, query, days) =>
        withHistory([...ARRIVALS, { act: 'commit', a: 0, b: 0 }, ...played], (catalog) => {
          const asOf = START + days * 86_400_000 + 500;
          const node = (text: string) => parseQuery(text, { now: START, timeZone }).node;
          const request = { node: node(query), asOf };
          const timeline = listTimeline({ catalog }, request, timeZone, () => true);
          expect(timeline.messages).toBe(catalog.prepare(request).count());
          let sum = 0;
          let end = 0;
          for (const { from, to, messages, later: came = 0 } of timeline.bars) {
            expect(from).toBeGreaterThanOrEqual(end);
            end = to;
            const within = `(${query}) date:@${from / 1000}..@${to / 1000 - 1}`;
            expect(messages).toBe(catalog.prepare({ ...request, node: node(within) }).count());
            const second = (Math.floor(asOf / 1000) + 1) * 1000;
            const since = `${within} after:${new Date(second).toISOString().replace('.000Z', 'Z')}`;
            expect(came, since).toBe(catalog.prepare({ node: node(since) }).count());
            sum += messages;
            later += came;
            if (came > 0 && messages > 0) both += 1;
          }
          expect(sum).toBe(timeline.messages);
        }),
    ),
    { numRuns: 40 },
  );
  expect(later).toBeGreaterThan(10);
  expect(both).toBeGreaterThan(0);
});

test('now, nothing came since', async () => {
  await withHistory(ARRIVALS, (catalog) => {
    const timeline = listTimeline(
      { catalog },
      { node: parseQuery('*', { now: START }).node },
      'UTC',
      () => true,
    );
    expect(timeline.messages).toBe(ARRIVALS.length);
    expect(timeline.bars.every((bar) => bar.later === undefined)).toBe(true);
  });
});
