import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  columnPath,
  momentAfter,
  momentAt,
  trackFraction,
  trackMove,
} from '../../src/web/client/history-bar.tsx';
import { backStep, isOwnPage, LatestTask, stepTo } from '../../src/web/client/viewer.ts';
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

test('each step back undoes one thing: message, query, past', () => {
  const steps: string[] = [];
  for (
    let address: string | null = '/mail?q=lease+asof%3A2026-03-01&sort=oldest&m=ab12&at=cd34';
    address !== null;
    address = backStep(at(address))
  )
    steps.push(decodeURIComponent(address));
  expect(steps).toEqual([
    '/mail?q=lease+asof:2026-03-01&sort=oldest&m=ab12&at=cd34',
    '/mail?q=lease+asof:2026-03-01&sort=oldest&at=cd34',
    '/mail?q=asof:2026-03-01&sort=oldest',
    '/mail?sort=oldest',
  ]);
});

test('a message over the whole width leads to its list, other pages to all mail', () => {
  expect(backStep(at('/m/ab12?q=lease&view=html'))).toBe('/mail?q=lease');
  expect(backStep(at('/m/ab12'))).toBe('/mail');
  expect(backStep(at('/health'))).toBe('/mail');
});

/** Questions that are answered when the test says so. */
class Answers {
  readonly latest = new LatestTask();
  readonly shown: number[] = [];
  readonly asked: number[] = [];
  most = 0;
  #open: { answer: () => void } | undefined;
  #count = 0;

  ask(question: number): void {
    this.latest.run(async (signal) => {
      this.asked.push(question);
      this.#count += 1;
      this.most = Math.max(this.most, this.#count);
      await new Promise<void>((resolve) => {
        this.#open = { answer: resolve };
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#count -= 1;
      if (!signal.aborted) this.shown.push(question);
    });
  }

  async answer(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    open?.answer();
    await settled();
  }
}

/** Lets everything run that waits for nothing but its turn. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('the latest question waits for the one under way, and those between are never asked', async () => {
  const answers = new Answers();
  for (const question of [1, 2, 3, 4]) answers.ask(question);
  expect(answers.latest.isWaiting).toBe(true);
  await answers.answer();
  expect(answers.latest.isWaiting).toBe(false);
  await answers.answer();
  expect(answers.asked).toEqual([1, 4]);
  expect(answers.shown).toEqual([1, 4]);
});

test('what is stopped shows nothing, and the next question is asked at once', async () => {
  const answers = new Answers();
  answers.ask(1);
  answers.ask(2);
  answers.latest.stop();
  answers.ask(3);
  expect(answers.asked).toEqual([1, 3]);
  await settled();
  await answers.answer();
  expect(answers.shown).toEqual([3]);
});

test('in any order of keys and answers, one is under way, and answers come in the order of keys', async () => {
  const step = fc.constantFrom('key', 'answer', 'stop');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const answers = new Answers();
      let question = 0;
      let last = 0;
      for (const now of steps) {
        if (now === 'key') {
          question += 1;
          last = question;
          answers.ask(question);
        } else if (now === 'answer') await answers.answer();
        else {
          answers.latest.stop();
          last = 0;
          await settled();
        }
      }
      await answers.answer();
      await answers.answer();
      expect(answers.most).toBeLessThanOrEqual(1);
      expect(answers.shown).toEqual(answers.shown.toSorted((a, b) => a - b));
      if (last > 0) expect(answers.shown.at(-1)).toBe(last);
    }),
  );
});
