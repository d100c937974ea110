/**
 * What a fresh or a changed clone needs before anything runs: the dependencies and the build. Plain
 * JavaScript without dependencies, because it runs before there are any.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));
/** What `mailkeep` is: package.json's `bin`. */
export const program = path.join(root, 'dist', 'mailkeep.cjs');

/** Ends with a sentence when this Node.js is older than package.json's `engines` asks for. */
export function needNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  process.stderr.write(
    `mailkeep needs Node.js 20.19 or newer; this is ${process.versions.node}.\n` +
      'Install a newer one (https://nodejs.org) and run the same command again.\n',
  );
  process.exit(2);
}

/** Runs `npm ci` when node_modules is missing or older than the lockfile. */
export function needDependencies() {
  const installed = modified(path.join(root, 'node_modules', '.package-lock.json'));
  if (installed >= modified(path.join(root, 'package-lock.json'))) return;
  say('Installing dependencies (npm ci) …');
  // Without scripts nothing is compiled or built here: the packages hold binaries, and needBuild() builds.
  npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
}

/** Builds dist/ when it is missing or older than its sources. */
export function needBuild() {
  const newest = Math.max(
    ...['src', 'migrations'].map((folder) => newestIn(path.join(root, folder))),
    modified(path.join(root, 'package-lock.json')),
  );
  if (modified(program) >= newest) return;
  say('Building …');
  run(process.execPath, [path.join(root, 'src', 'bootstrap', 'build.mjs')]);
}

/** Runs a command with our streams and ends with its exit code when it fails. */
function run(command, args, options = {}) {
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', process.stderr, process.stderr],
    ...options,
  });
  if (error !== undefined) throw error;
  if (status !== 0) {
    say(
      `"${path.basename(command)} ${args.join(' ')}" failed (${signal ?? `exit code ${status}`}).`,
    );
    process.exit(status ?? 1);
  }
}

function npm(args) {
  const script = process.env.npm_execpath;
  if (script?.endsWith('.js')) run(process.execPath, [script, ...args]);
  // On Windows npm is a batch file, which only a shell can start; the arguments are our own.
  else run('npm', args, { shell: process.platform === 'win32' });
}

function say(text) {
  process.stderr.write(`${text}\n`);
}

function modified(file) {
  return existsSync(file) ? statSync(file).mtimeMs : 0;
}

function newestIn(folder) {
  if (!existsSync(folder)) return 0;
  const times = readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const file = path.join(folder, entry.name);
    return entry.isDirectory() ? newestIn(file) : modified(file);
  });
  return Math.max(0, ...times);
}
