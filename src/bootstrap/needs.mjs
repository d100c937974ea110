/**
 * What a fresh or a changed clone needs before anything runs: the dependencies and the build. Plain
 * JavaScript without dependencies, because it runs before there are any.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isNewEnough, neededVersion, npmCommand } from './runtime.cjs';

export const root = fileURLToPath(new URL('../../', import.meta.url));
/** What `mailkeep` is: package.json's `bin`. */
export const program = path.join(root, 'dist', 'mailkeep.cjs');

/** Ends with a sentence when this Node.js is too old: scripts that npm starts are never (see run.cjs). */
export function needNode() {
  if (isNewEnough(root, process.versions.node)) return;
  say(
    `mailkeep needs Node.js ${neededVersion(root)} or newer; this is ${process.versions.node}. Use the npm script, such as npm run build, which brings one.`,
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
  const [command, ...first] = npmCommand();
  // On Windows npm is a batch file, which only a shell can start; the arguments are our own.
  const shell = command === 'npm' && process.platform === 'win32';
  run(command, [...first, ...args], { shell, env: ownSettings() });
}

/** Without where an outer npm installs: inside `npm install --global .`, this npm would replace the global packages. */
function ownSettings() {
  const settings = Object.entries(process.env);
  return Object.fromEntries(
    settings.filter(
      ([name]) => !/^npm_config_(global|prefix|local_prefix|location|omit)$/i.test(name),
    ),
  );
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
