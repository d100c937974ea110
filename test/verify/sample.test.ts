import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { leastRecentlyVerified, NEVER } from '../../src/verify/verify.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { ran } from '../cli/surface.ts';
import { GrownArchive } from './grown-archive.ts';

const archive = new GrownArchive();
const mail = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => sampleMail(6 * (from + i) + 1));
beforeAll(async () => {
  await archive.grow(mail(1, 6), true);
  await archive.grow(mail(7, 6), true);
  openState(archive.dir).close();
});
afterAll(() => archive.remove());

let now = Date.UTC(2026, 2, 1);
async function sample(size: string) {
  now += 1000;
  const { stdout, code } = await ran(
    ['verify', '--sample', size, '--data', archive.dir, '--json'],
    { now: () => now },
  );
  return { code, ...JSON.parse(stdout) };
}

test('samples go round, never verified messages first, and remember when', async () => {
  expect(await sample('5')).toMatchObject({ code: 0, checked: 5, of: 12, oldest: null });
  expect(await sample('50%')).toMatchObject({ checked: 6, oldest: null });
  const whole = await sample('1');
  expect(whole.oldest).toBe(new Date(Date.UTC(2026, 2, 1) + 1000).toISOString());
  await sample('6');
  expect((await sample('6')).oldest > whole.oldest).toBe(true);
  await archive.grow(mail(13, 3), false);
  expect(await sample('2')).toMatchObject({ checked: 2, of: 15, oldest: null });
});

test('damage is met when its turn comes, and named', async () => {
  const [id = '', position] = [...archive.known.messages].at(-1) ?? [];
  const path = join(archive.dir, 'log', '0000000003.1.seg');
  const bytes = readFileSync(path);
  const at = (position?.offset ?? 0) + 64 + 100;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
  const { code, findings } = await sample('100%');
  expect(code).toBe(3);
  expect(findings).toMatchObject([{ what: 'message', message: { id } }]);
});

test('the order: the rest of what grew, then the oldest checkup', () => {
  const segments = [1, 2, 3].map((segment) => ({ segment, messages: 3, end: 10 }));
  const known = new Map([
    [1, { at: 200, covered: 10, next: 0, end: 10 }],
    [2, { at: 100, covered: 10, next: 4, end: 10 }],
    [3, { at: 50, covered: 6, next: 0, end: 10 }],
  ]);
  const order = leastRecentlyVerified(segments, (segment) => known.get(segment) ?? NEVER);
  expect(order.map(({ segment, from }) => [segment.segment, from])).toEqual([
    [3, 6],
    [3, 0],
    [2, 4],
    [1, 0],
  ]);
});
