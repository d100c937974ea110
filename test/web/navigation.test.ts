import { expect, test } from 'vitest';
import {
  columnPath,
  momentAfter,
  momentAt,
  trackFraction,
  trackMove,
} from '../../src/web/client/history-bar.tsx';
import { isOwnPage, stepTo } from '../../src/web/client/viewer.ts';
import type { Page } from '../../src/web/pages/page.ts';
import { asOfTermText, withAsOf } from '../../src/web/query-text.ts';

const at = (address: string): URL => new URL(address, 'http://127.0.0.1:8027');
// Only the kind decides.
const MAIL = { kind: 'mail' } as Page;
const HEALTH = { kind: 'health' } as Page;

test.each([
  ['/mail', '/mail?m=abcd', 'message'],
  ['/mail?m=abcd', '/mail?m=abcd&view=source', 'message'],
  ['/mail?m=abcd&view=source', '/mail', 'close'],
  ['/mail?q=a&at=1', '/mail?q=a', 'close'],
  ['/mail?q=a&m=abcd', '/mail?q=b&m=abcd', 'list'],
  ['/mail?q=a', '/mail?q=a&sort=oldest', 'list'],
  ['/mail?q=a&sort=oldest', '/mail?sort=oldest&q=a&m=abcd', 'message'],
  ['/mail', '/health', 'page'],
  ['/mail', '/m/abcd', 'page'],
])('from %s to %s asks for the %s', (from, to, kind) => {
  expect(stepTo(at(to), at(from), MAIL)).toBe(kind);
});

test('asks for the whole page where another one is shown', () => {
  expect(stepTo(at('/mail?m=abcd'), at('/mail'), HEALTH)).toBe('page');
});

test('shows own pages in place, and leaves downloads, frames and the way out to the browser', () => {
  for (const path of ['/mail', '/files', '/m/0123abcd'])
    expect(isOwnPage(at(path)), path).toBe(true);
  for (const path of [
    '/health',
    '/health/runs',
    '/dashboard',
    '/export?q=a',
    '/away?to=x',
    '/m/0123abcd/html',
    '/m/0123abcd/source',
    '/enter',
    '/you',
    '/',
  ])
    expect(isOwnPage(at(path)), path).toBe(false);
});

test('another moment replaces the one in the query and nothing else', () => {
  const moment = Date.UTC(2026, 2, 14, 17, 0, 5);
  const then = withAsOf('in:"Old mail"  asof:2026-01 lease', moment);
  expect(then).toBe('in:"Old mail"  lease asof:2026-03-14T17:00:05Z');
  expect(asOfTermText(then)).toBe('asof:2026-03-14T17:00:05Z');
  expect(withAsOf(then, null)).toBe('in:"Old mail"  lease');
  expect(withAsOf('', moment)).toBe('asof:2026-03-14T17:00:05Z');
});

test('the track goes from the first commit to now, and no further', () => {
  const range = { from: 1_000, to: 3_000 };
  expect([500, 1_000, 2_000, 3_000, 9_000].map((moment) => trackFraction(moment, range))).toEqual([
    0, 0, 0.5, 1, 1,
  ]);
  expect([-1, 0, 0.25, 2].map((share) => momentAt(share, range))).toEqual([
    1_000, 1_000, 1_500, 3_000,
  ]);
  // One commit alone.
  expect(trackFraction(1_000, { from: 1_000, to: 1_000 })).toBe(1);
  // Wherever a bar is pressed, all that it counts has happened by the moment it leads to.
  const columns = Array.from({ length: 4 }, () => ({ came: 1, ended: 0 }));
  expect([-1, 0.01, 0.24, 0.26, 0.99, 2].map((x) => momentAfter(x, { ...range, columns }))).toEqual(
    [1_000, 1_500, 1_500, 2_000, 3_000, 3_000],
  );
});

test('each column that is not empty is seen, whatever the largest one is', () => {
  const path = columnPath([0, 1, 1_000_000], { base: 34, height: 34 });
  expect(path.split('M').length - 1).toBe(2);
  expect(path).toContain('v-1.0');
  expect(path).toContain('v-34.0');
});

test('keys on the track', () => {
  expect(trackMove('ArrowLeft', false)).toEqual({ kind: 'change', direction: 'previous' });
  expect(trackMove('ArrowRight', true)).toEqual({ kind: 'by', ms: 3_600_000 });
  expect(trackMove('PageUp', false)).toEqual({ kind: 'by', ms: 86_400_000 });
  expect(trackMove('Home', false)).toEqual({ kind: 'first' });
  expect(trackMove('x', false)).toBeUndefined();
});
