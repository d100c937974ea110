import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseOptions } from './options.ts';
import { daysOf } from './reliable-archive.ts';
import { Results } from './results.ts';
import { abnormalEnd, runCommand } from './run-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'mailkeep-nodes-'));
const run = async (script: string): Promise<string | undefined> =>
  abnormalEnd(await runCommand(process.execPath, ['--eval', script], folder));

describe('abnormalEnd', () => {
  test('finds nothing in a process that prints an answer and ends', async () => {
    expect(await run('console.log("an answer")')).toBeUndefined();
  });

  test('names an exit code, a signal, an abort and a warning', async () => {
    expect(await run('process.exitCode = 3')).toBe('exit code 3');
    expect(await run('process.kill(process.pid, "SIGSEGV"); setInterval(() => {}, 1000)')).toBe(
      'ended by SIGSEGV',
    );
    expect(await run('process.abort()')).toMatch(/^ended by SIGABRT/);
    expect(await run('process.emitWarning("it is late")')).toMatch(/standard error: .*it is late/);
  });
});

describe('Results', () => {
  test('continue in the file of an interrupted run, and count problems', () => {
    const file = join(folder, 'results.jsonl');
    new Results(file).add({ node: 'v22', command: 'show', ms: 1500 });
    const results = new Results(file);
    results.add({ node: 'v22', command: 'show', ms: 500, problem: 'exit code 134' });
    results.add({ node: 'v24', command: 'show', ms: 250 });
    expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(3);
    expect([results.runs('v22', 'show'), results.runs('v22', 'list')]).toEqual([2, 0]);
    expect(results.problems.map(({ problem }) => problem)).toEqual(['exit code 134']);
    expect(results.table(['v22', 'v24'])).toContain(
      '| show | 2 | 1 | 0.50 | 1.50 | 1 | 0 | 0.25 | 0.25 |',
    );
  });
});

test('the small export takes the neighbouring days that come nearest to 500 messages', () => {
  const day = (date: string, count: number) => Array(count).fill(`${date}T10:00:00.000Z`);
  const received = [
    ...day('2026-01-01', 900),
    ...day('2026-01-02', 300),
    ...day('2026-01-03', 190),
    ...day('2026-01-05', 40),
  ];
  expect(daysOf(received)).toBe('after:2026-01-02 before:2026-01-04');
});

test('an option that is no number is refused', () => {
  expect(() => parseOptions(['--runs', 'many'])).toThrow('--runs must be a whole number');
});
