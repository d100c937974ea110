import { expect, test } from 'vitest';
import { backStep } from '../../src/web/client/viewer.ts';

const at = (path: string) => new URL(path, 'http://127.0.0.1');

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
