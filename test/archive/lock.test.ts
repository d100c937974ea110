import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  acquireLock,
  holderPath,
  isRunning,
  setProcessName,
  tryLock,
} from '../../src/archive/lock.ts';
import { MailkeepError } from '../../src/core/errors.ts';

const folders: string[] = [];

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-lock-'));
  folders.push(dir);
  return join(dir, 'archive');
}

afterEach(() => {
  for (const dir of folders.splice(0)) rmSync(dir, { recursive: true });
});

test('there is one writer', () => {
  const dir = folder();
  const lock = acquireLock(dir);
  expect(() => acquireLock(dir)).toThrow(
    expect.objectContaining({
      family: 'in-use',
      code: 'archive-in-use',
      facts: expect.objectContaining({ dir, pid: process.pid, host: null }),
    }),
  );
  // A failed attempt must not have freed it: POSIX drops locks when any descriptor of the file is closed.
  expect(() => acquireLock(dir)).toThrow(expect.objectContaining({ code: 'archive-in-use' }));
  lock.release();
  lock.release();
  acquireLock(dir).release();
});

test.skipIf(process.platform === 'win32')('only the owner may look', () => {
  const dir = folder();
  acquireLock(dir).release();
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  expect(statSync(join(dir, 'lock')).mode & 0o777).toBe(0o600);
});

test('a killed process leaves no lock behind', async () => {
  const dir = folder();
  acquireLock(dir).release();
  const script = `
    const Database = require(${JSON.stringify(createRequire(import.meta.url).resolve('better-sqlite3'))});
    new Database(${JSON.stringify(join(dir, 'lock'))}).exec('BEGIN EXCLUSIVE');
    process.stdout.write('held');
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  await once(child.stdout, 'data');
  expect(() => acquireLock(dir)).toThrow(expect.objectContaining({ code: 'archive-in-use' }));
  child.kill('SIGKILL');
  await exit;
  acquireLock(dir).release();
});

test('the holder is named with its command, and its note goes with the lock', () => {
  const dir = folder();
  setProcessName('daemon');
  const lock = acquireLock(dir);
  setProcessName('');
  expect(statSync(holderPath(dir)).mode & 0o777).toBe(0o600);
  const { pid } = process;
  const since = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  const facts = { dir, pid, command: 'daemon', since, host: null };
  expect(() => acquireLock(dir)).toThrow(expect.objectContaining({ facts }));
  expect(() => tryLock(dir)).toThrow(expect.objectContaining({ facts }));
  lock.release();
  expect(existsSync(holderPath(dir))).toBe(false);
  const next = acquireLock(dir);
  // A second release of the first lock leaves the note of the next holder.
  lock.release();
  expect(existsSync(holderPath(dir))).toBe(true);
  next.release();
  tryLock(dir);
  expect(existsSync(holderPath(dir))).toBe(false);
});

describe('a note that somebody left does not lie', () => {
  const unknown = { pid: null, command: null, since: null, host: null };
  const since = '2026-01-02T03:04:05.000Z';
  /** A holder that writes no note, and a note of another process. */
  const inUseAlongside = (note: (own: Record<string, unknown>) => object | string) => {
    const dir = folder();
    const lock = acquireLock(dir);
    try {
      const own: Record<string, unknown> = JSON.parse(readFileSync(holderPath(dir), 'utf8'));
      const left = note(own);
      writeFileSync(holderPath(dir), typeof left === 'string' ? left : JSON.stringify(left));
      let facts: unknown;
      try {
        acquireLock(dir);
      } catch (error) {
        facts = error instanceof MailkeepError ? error.facts : error;
      }
      return { dir, facts };
    } finally {
      lock.release();
    }
  };

  test('of a process that has ended', () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    const { dir, facts } = inUseAlongside((own) => ({ ...own, pid, since }));
    expect(facts).toEqual({ dir, ...unknown });
  });

  test.runIf(process.platform === 'linux')('of one whose id another process has now', () => {
    const { dir, facts } = inUseAlongside((own) => ({ ...own, started: 'another boot 17', since }));
    expect(facts).toEqual({ dir, ...unknown });
  });

  test('of another machine: it is said to be of there', () => {
    const { dir, facts } = inUseAlongside((own) => ({ ...own, host: 'elsewhere', pid: 7, since }));
    expect(facts).toEqual({ dir, pid: 7, command: '', since, host: 'elsewhere' });
  });

  test.each(['', '{"pid":', '[]', '{"pid":-1}', `{"pid":1,"command":"${'x'.repeat(9_000)}"}`])(
    'of no use: %.20s',
    (text) => {
      const { dir, facts } = inUseAlongside(() => text);
      expect(facts).toEqual({ dir, ...unknown });
    },
  );
});

test('a number that no process can have, as a file name may contain, is not running', () => {
  expect([process.pid, 0, -1, 2 ** 31, 9_999_999_999, 1.5].map(isRunning)).toEqual([
    ...[true, false, false, false, false, false],
  ]);
});

test('a place that cannot be locked is said to be one', () => {
  const dir = folder();
  acquireLock(dir).release();
  const file = join(dir, 'lock');
  expect(() => acquireLock(file)).toThrow(expect.objectContaining({ code: 'archive-lock-failed' }));
});
