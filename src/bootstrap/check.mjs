/**
 * Everything that is checked without running the program, side by side: lint, types, architecture, words. With names of
 * checks, only those.
 */
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
  ['types', bin('tsc'), typesOf('tsconfig.json')],
  // What runs in browsers, and what tests run there, knows the document; nothing else does.
  ['types', bin('tsc'), typesOf('src/web/client/tsconfig.json')],
  ['types', bin('tsc'), typesOf('test/web/browser/tsconfig.json')],
  ['architecture', bin('vitest'), ['run', 'test/architecture']],
  ['words', process.execPath, [path.join(root, '.ci/words')]],
];

function typesOf(project) {
  const remembered = path.join(cache, `${project.replaceAll('/', '-')}.tsbuildinfo`);
  return ['--noEmit', '--project', project, '--incremental', '--tsBuildInfoFile', remembered];
}

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
const wanted = process.argv.slice(2);
const chosen = CHECKS.filter(([name]) => wanted.length === 0 || wanted.includes(name));
if (chosen.length === 0) throw new Error(`no check is called ${wanted.join(' or ')}`);
const results = await Promise.all(chosen.map(check));
process.exitCode = results.every(Boolean) ? 0 : 1;
