/**
 * Loads a script or a tool into this process when its Node.js is new enough for the project. Otherwise a pinned one is
 * brought into .runtime/ (see runtime.cjs), and does the same; it comes first on the PATH of all that it starts.
 * In syntax of Node.js 16.
 */
'use strict';
const { spawn } = require('node:child_process');
const { existsSync, readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { isNewEnough, obtainRuntime } = require('./runtime.cjs');

const root = path.resolve(__dirname, '..', '..');
/** Programs of packages, by their names and those of their packages. */
const TOOLS = new Map([
  ['biome', '@biomejs/biome'],
  ['tsc', 'typescript'],
  ['tsx', 'tsx'],
]);

/** Runs `NAME ARGUMENTS…`; NAME is a tool, or a script in this folder without its `.mjs`. */
function run([name, ...args]) {
  if (isNewEnough(root, process.versions.node)) {
    load(name, args);
    return;
  }
  const runtime = obtainRuntime(root, path.join(__dirname, 'runtime'));
  if (runtime === undefined) return;
  const rest = [path.join(__dirname, 'run.cjs'), name, ...args];
  const child = spawn(runtime, rest, { stdio: 'inherit', env: environment(runtime) });
  // Ctrl-C reaches the child as well, which ends as it should.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(
      `${runtime} does not start (${error.code}). Remove .runtime/ and run the same command again, or install a newer Node.js (https://nodejs.org).\n`,
    );
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    if (signal === null) {
      process.exitCode = code;
      return;
    }
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function load(name, args) {
  const file = TOOLS.has(name) ? toolFile(name) : path.join(__dirname, `${name}.mjs`);
  process.argv = [process.execPath, file, ...args];
  // A rejection ends the process, as an error in a file that it was started with does.
  void import(pathToFileURL(file).href);
}

/** The file of a program, by the `bin` of its package. */
function toolFile(name) {
  const manifest = path.join(root, 'node_modules', TOOLS.get(name), 'package.json');
  if (!existsSync(manifest)) {
    process.stderr.write(`${name} is not installed; run npm ci first.\n`);
    process.exit(2);
  }
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8'));
  return createRequire(manifest).resolve(`./${typeof bin === 'string' ? bin : bin[name]}`);
}

/** For children of any depth: `node` is the runtime to them. */
function environment(runtime) {
  const { PATH = '' } = process.env;
  return {
    ...process.env,
    PATH: `${path.dirname(runtime)}${path.delimiter}${PATH}`,
    // npm names its own here.
    NODE: runtime,
    npm_node_execpath: runtime,
  };
}

module.exports = { run };
