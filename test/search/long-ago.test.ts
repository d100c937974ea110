import { expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';

test.each([undefined, 'UTC', 'Europe/Berlin'])(
  'years before the calendar begins are its beginning, in %s',
  (timeZone) => {
    const context = { now: Date.UTC(2026, 2, 14), ...(timeZone !== undefined && { timeZone }) };
    for (const ago of ['3000y', '300000y', '999999y', '999999mo']) {
      expect(parseQuery(`before:${ago}`, context).node).toMatchObject({
        kind: 'received',
        to: expect.toSatisfy((to: unknown) => Number.isFinite(to) && Number(to) < 0),
      });
      expect(parseQuery(`asof:${ago}`, context).asOf).toSatisfy(Number.isFinite);
    }
  },
);
