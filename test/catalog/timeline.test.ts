import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { CountRequest } from '../../src/catalog/search.ts';
import { enclosingPeriod, timelineUnit } from '../../src/catalog/timeline.ts';
import { docidAt } from '../../src/mail/docid.ts';
import { withHistory } from './dated-history.ts';
import { HOST, START } from './history.ts';
import { ACTS, steps } from './model.ts';

const ZONES = ['UTC', 'Europe/Berlin', 'Pacific/Auckland', 'America/St_Johns', 'America/Havana'];
const QUERIES = [
  ...['in:anywhere', 'in:INBOX', 'in:Archive', '-in:INBOX', 'mailbox:one@example.net'],
  ...['mailbox:two@example.net in:INBOX', 'is:deleted', '-is:deleted in:INBOX', 'alpha'],
  ...['alpha OR in:Archive', 'is:unread', 'in:INBOX in:Archive', 'date:2022-11..2023-04'],
  ...['in:INBOX date:2022-12-20..2023-01-10', 'gamma is:deleted'],
];
const ever = () => true;
/** Of years, so that some timelines have months. */
const ARRIVALS = Array.from({ length: 25 }, (_, i) => ({ act: 'arrive', a: i, b: i }) as const);

describe('the timeline', () => {
  test('has a bar for each period with messages, with the numbers that a search counts', async () => {
    const units = new Set<string>();
    const ways = new Set<boolean>();
    let bars = 0;
    await fc.assert(
      fc.asyncProperty(
        steps([...ACTS, 'rename', 'purge']),
        fc.constantFrom(...ZONES),
        (played, timeZone) =>
          withHistory([...ARRIVALS, ...played], (catalog, _db, times) => {
            for (const query of QUERIES)
              for (const asOf of [undefined, times.at(-2)])
                for (const reader of [catalog, catalog.within([{ host: HOST, mailbox: 'AC1' }])]) {
                  const asked = (text: string): CountRequest => ({
                    node: parseQuery(text, { now: START, timeZone }).node,
                    asOf,
                  });
                  const timeline = reader.timeline({ ...asked(query), timeZone }, ever);
                  ways.add(reader.prepare(asked(query)).sumsFilter() === undefined);
                  const what = `${query} in ${timeZone} as of ${asOf}`;
                  expect(timeline.complete, what).toBe(true);
                  expect(timeline.messages, what).toBe(reader.prepare(asked(query)).count());
                  for (const { from, to, messages, ended } of timeline.bars) {
                    const within = `(${query}) date:@${from / 1000}..@${to / 1000 - 1}`;
                    expect(messages, what).toBe(reader.prepare(asked(within)).count());
                    expect(ended, what).toBe(reader.prepare(asked(`${within} is:deleted`)).count());
                    bars += 1;
                  }
                  if (timeline.bars.length > 0) units.add(timeline.unit);
                }
          }),
      ),
      { numRuns: 10, seed: 27 },
    );
    expect([...units].sort()).toEqual(['day', 'month', 'week']);
    expect([...ways].sort()).toEqual([false, true]);
    expect(bars).toBeGreaterThan(1000);
  });

  test('says what was counted when there was no time for more', async () => {
    const arrivals = Array.from(
      { length: 1_200 },
      (_, i) => ({ act: 'arrive', a: i, b: i }) as const,
    );
    await withHistory(arrivals, (catalog) => {
      const { node } = parseQuery('alpha OR larger:200', { now: START });
      expect(catalog.timeline({ node }, ever).messages).toBeGreaterThan(10);
      expect(catalog.timeline({ node }, () => false)).toMatchObject({ complete: false });
      const all = catalog.prepare({ node }).page({ limit: 1_500, sort: 'newest' });
      expect(all.stoppedAt).toBeNull();
      const stopped = catalog
        .prepare({ node })
        .page({ limit: 1_500, sort: 'newest', mayContinue: () => false });
      expect(stopped.stoppedAt).not.toBeNull();
      const rest = catalog
        .prepare({ node })
        .page({ limit: 1_500, sort: 'newest', after: stopped.stoppedAt ?? undefined });
      const ids = [...stopped.hits, ...rest.hits].map(({ docid }) => docid);
      expect(ids).toEqual(all.hits.map(({ docid }) => docid));
    });
  });
});

describe('periods', () => {
  test('follow each other without a gap, whatever clocks do', () => {
    const moment = fc.integer({ min: Date.UTC(1971, 1), max: Date.UTC(2030, 0) });
    fc.assert(
      fc.property(
        moment,
        fc.constantFrom(...ZONES),
        fc.constantFrom('month' as const, 'week' as const, 'day' as const),
        (time, zone, unit) => {
          const docid = docidAt(time);
          const period = enclosingPeriod(unit, docid, zone);
          expect(period.low).toBeLessThanOrEqual(docid);
          expect(period.high).toBeGreaterThan(docid);
          expect(enclosingPeriod(unit, period.high, zone).low).toBe(period.high);
          expect(enclosingPeriod(unit, period.high - 1, zone)).toEqual(period);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test('are days below two months, weeks below two years, and months', () => {
    const unit = (...to: [number, number, number]) =>
      timelineUnit(docidAt(Date.UTC(2024, 0, 1)), docidAt(Date.UTC(...to)));
    expect(unit(2024, 1, 20)).toBe('day');
    expect(unit(2024, 4, 1)).toBe('week');
    expect(unit(2025, 11, 1)).toBe('week');
    expect(unit(2026, 1, 1)).toBe('month');
  });
});
