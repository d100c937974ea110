import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const scripts = path.join('src', 'bootstrap');
let clone = '';

beforeEach(() => {
  clone = mkdtempSync(path.join(tmpdir(), 'mailkeep-start-'));
  for (const part of [scripts, 'package.json'])
    cpSync(path.join(root, part), path.join(clone, part), {
      recursive: true,
      preserveTimestamps: true,
    });
});
afterEach(() => rmSync(clone, { recursive: true, force: true }));

/** Begins a demonstration, and closes its output once a line has come that fits. Returns the lines until then. */
async function cutOff(pattern: RegExp): Promise<string[]> {
  const child = spawn(process.execPath, [path.join(scripts, 'start.mjs')], {
    cwd: clone,
    env: { PATH: process.env.PATH, HOME: clone },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (pattern.test(line)) break;
  }
  child.stdout.destroy();
  expect(await ended).toEqual([0, null]);
  return lines;
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

test('a demonstration that nobody reads any more ends, with its sandbox', async () => {
  for (const part of ['dist', 'node_modules']) {
    symlinkSync(path.join(root, part), path.join(clone, part));
  }
  const lines = await cutOff(/^The sandbox serves/);
  const port = /127\.0\.0\.1:(\d+)/.exec(lines.at(-1) ?? '')?.[1];
  expect(Number(port)).toBeGreaterThan(0);
  expect(await isListening(Number(port))).toBe(false);
  expect(lines.join()).not.toContain('.demo/');

  expect(existsSync(path.join(clone, '.demo', 'config.json'))).toBe(true);
  const again = await cutOff(/^The sandbox serves/);
  expect(again.join()).toContain('Deleting .demo/ of an earlier start');
}, 60_000);

test('an installation from a clone that is not built says what to run', () => {
  const { status, stderr } = spawnSync(process.execPath, [path.join(scripts, 'prepare.mjs')], {
    cwd: clone,
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  expect(stderr).toContain('Run "npm ci" in it');
});
