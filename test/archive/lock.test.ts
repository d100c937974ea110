import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { acquireLock } from '../../src/archive/lock.ts';

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
    expect.objectContaining({ family: 'in-use', code: 'archive-in-use', facts: { dir } }),
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

test('a place that cannot be locked is said to be one', () => {
  const dir = folder();
  acquireLock(dir).release();
  const file = join(dir, 'lock');
  expect(() => acquireLock(file)).toThrow(expect.objectContaining({ code: 'archive-lock-failed' }));
});
