/** Everything that is checked without running the program, side by side: lint, types, architecture, words. */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { root } from './needs.mjs';

const cache = path.join(root, 'node_modules/.cache');
const bin = (name) => path.join(root, 'node_modules/.bin', name);

/** What is checked, and the program that checks it. What is remembered between runs lies in node_modules/.cache. */
const CHECKS = [
  ['lint', bin('biome'), ['check', '--colors=off', '.']],
  [
    'types',
    bin('tsc'),
    ['--noEmit', '--incremental', '--tsBuildInfoFile', path.join(cache, 'types.tsbuildinfo')],
  ],
  ['architecture', bin('vitest'), ['run', 'test/architecture']],
  ['words', process.execPath, [path.join(root, '.ci/words')]],
];

/** Runs a program; resolves with what it printed, in order of the streams, and whether it succeeded. */
async function check([name, program, args]) {
  const startedAt = performance.now();
  const child = spawn(program, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const [code, ...printed] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const ok = code === 0;
  console.log(`${name}: ${ok ? 'ok' : 'FAILED'} (${seconds} s)`);
  if (!ok) console.log(printed.join('').trimEnd());
  return ok;
}

mkdirSync(cache, { recursive: true });
const results = await Promise.all(CHECKS.map(check));
process.exitCode = results.every(Boolean) ? 0 : 1;
