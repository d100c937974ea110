import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { buildWorker } from '../mime/built-worker.ts';

/** Starts a thread with built code, allocates 400 MB of which 1 in 20 objects stays, and prints what V8 holds for it. */
const PROGRAM = `
import { getHeapSpaceStatistics } from 'node:v8';
const size = () => getHeapSpaceStatistics().find((space) => space.space_name === 'new_space').space_size;
const [, file, isThreaded] = process.argv;
if (isThreaded === 'threaded') await (await import(file)).startThread();
const before = size();
const kept = [];
for (let each = 0; each < 4_000_000; each += 1) {
  const piece = { each, more: [each, each, each] };
  if (each % 20 === 0) kept.push(piece);
}
console.log(JSON.stringify({ grown: size() - before, kept: kept.length }));
`;

test('the young generation of a process stays as it is once it has a thread', async () => {
  const file = await buildWorker('test/threads/one-thread.ts');
  const grown = (how: 'threaded' | 'alone'): number => {
    const args = ['--input-type=module', '--eval', PROGRAM, file.href, how];
    const printed: unknown = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
    return Number(Object(printed).grown);
  };
  expect(grown('alone')).toBeGreaterThan(4_000_000);
  // V8 goes from the size it starts with to the next one in any case.
  expect(grown('threaded')).toBeLessThan(4_000_000);
});

/** Prints the bytes of the young generation of two threads of built code. */
const THREADS = `
const [, file] = process.argv;
const { startThread } = await import(file);
const wide = await startThread({ oldGenerationMb: 64, youngGenerationMb: 16 });
const narrow = await startThread({ oldGenerationMb: 64, youngGenerationMb: 6 });
console.log(JSON.stringify([wide, narrow]));
`;

test('a thread has room for its work in the young generation, as far as its limits allow', async () => {
  const file = await buildWorker('test/threads/one-thread.ts');
  const args = ['--input-type=module', '--eval', THREADS, file.href];
  const printed: unknown = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
  const [wide, narrow] = Object.values(Object(printed)).map(Number);
  // Two halves of 4 MiB; V8 alone would stay at 1 MiB each.
  expect(wide).toBeGreaterThanOrEqual(8 * 1024 * 1024);
  expect(narrow).toBeLessThanOrEqual(6 * 1024 * 1024);
});
