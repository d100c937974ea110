/**
 * Brings a Node.js into .runtime/ for those whose own is too old: bin/node, its licence, and `version`, which says what
 * it is. It is a package of the npm registry, pinned by a lockfile of its own, and never a dependency of the project:
 * its `node` would then be that of every npm script. In syntax of Node.js 16.
 */
'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const FOLDER = '.runtime';
const PLATFORM = `${process.platform}-${process.arch}`;

/** Returns the oldest version that package.json's `engines` allows, such as `22.15`. */
function neededVersion(root) {
  return readJson(path.join(root, 'package.json')).engines.node.replace('>=', '');
}

/** Returns whether a version such as `22.15.0` is one that package.json's `engines` allows. */
function isNewEnough(root, version) {
  const [major, minor] = version.split('.').map(Number);
  const [neededMajor, neededMinor] = neededVersion(root).split('.').map(Number);
  return major > neededMajor || (major === neededMajor && minor >= neededMinor);
}

/**
 * Returns the path of the runtime's binary in `root`, fetched when it is missing or not the pinned one. Reports what it
 * does and why it failed on standard error; a failure sets the exit code (2 where a person has to install Node.js) and
 * returns undefined.
 *
 * @param pin folder of the lockfile with one package for each platform
 */
function obtainRuntime(root, pin) {
  const pinned = pinnedPackage(pin);
  const needed = neededVersion(root);
  const advice = `install Node.js ${needed} or newer (https://nodejs.org)`;
  if (pinned === undefined) {
    return fail(
      2,
      `mailkeep needs Node.js ${needed} or newer, this is ${process.versions.node}, and there is no package of Node.js for ${PLATFORM}: ${advice} and run the same command again.`,
    );
  }
  const runtime = path.join(root, FOLDER);
  const binary = path.join(runtime, 'bin', 'node');
  if (isComplete(runtime, pinned)) return binary;
  say(
    `mailkeep needs Node.js ${needed} or newer and this is ${process.versions.node}: npm fetches Node.js ${pinned.version} into ${FOLDER}/, once. To avoid that, ${advice}.`,
  );
  const reason = bring(root, pinned);
  if (reason === undefined) return binary;
  return fail(
    1,
    `Node.js ${pinned.version} could not be fetched: ${reason}. Try again, or ${advice}.`,
  );
}

/** Why the runtime could not be fetched, or undefined. What is unfinished lies in a folder of its own. */
function bring(root, pinned) {
  let work;
  try {
    dropAbandoned(root);
    // Our process id: what a start that was killed has left is known by it.
    work = fs.mkdtempSync(path.join(root, `${FOLDER}-${process.pid}-`));
    const reason = fetchInto(work, root, pinned);
    if (reason === undefined) replace(work, path.join(root, FOLDER), pinned);
    return reason;
  } catch (error) {
    // Of the file system, such as a full disk or a folder that we may not write.
    if (error.syscall === undefined) throw error;
    return error.message;
  } finally {
    if (work !== undefined) fs.rmSync(work, { recursive: true, force: true });
  }
}

/** The package of this platform, as the lockfile has it; undefined where there is none. */
function pinnedPackage(pin) {
  const { packages } = readJson(path.join(pin, 'package-lock.json'));
  const found = Object.entries(packages).find(
    ([, { os = [], cpu = [] }]) =>
      [].concat(os).includes(process.platform) && [].concat(cpu).includes(process.arch),
  );
  if (found === undefined) return undefined;
  const [place, { version, integrity }] = found;
  return { name: place.slice('node_modules/'.length), version, integrity };
}

/** Has npm install the package in a folder of its own, and keeps what is needed of it in `work`/runtime. */
function fetchInto(work, root, { name, version, integrity }) {
  const project = path.join(work, 'npm');
  fs.mkdirSync(project);
  // A plain dependency: npm ignores that an optional one could not be fetched.
  const manifest = { name: 'mailkeep-runtime', private: true, dependencies: { [name]: version } };
  const { dependencies } = manifest;
  writeJson(path.join(project, 'package.json'), manifest);
  writeJson(path.join(project, 'package-lock.json'), {
    name: manifest.name,
    lockfileVersion: 3,
    requires: true,
    packages: {
      '': { name: manifest.name, dependencies },
      [`node_modules/${name}`]: { version, integrity },
    },
  });
  // The project's own settings name a registry, a proxy or certificates, as the user's do.
  const settings = path.join(root, '.npmrc');
  if (fs.existsSync(settings)) fs.copyFileSync(settings, path.join(project, '.npmrc'));
  const failed = npmInstall(project);
  if (failed !== undefined) return failed;

  const fetched = path.join(project, 'node_modules', name);
  const kept = path.join(work, 'runtime');
  const binary = path.join(kept, 'bin', 'node');
  fs.mkdirSync(path.dirname(binary), { recursive: true });
  fs.renameSync(path.join(fetched, 'bin', 'node'), binary);
  fs.renameSync(path.join(fetched, 'LICENSE'), path.join(kept, 'LICENSE'));
  fs.chmodSync(binary, 0o755);
  const { stdout, stderr, status, signal, error } = spawnSync(binary, ['--version'], {
    encoding: 'utf8',
  });
  if (error !== undefined) return `it does not run on this system (${error.code})`;
  if (status !== 0) {
    // The loader reports there, for example, that the C library is too old.
    const [line] = stderr.trim().split('\n', 1);
    return `it does not run on this system (${line || signal || `exit code ${status}`})`;
  }
  if (stdout.trim() !== `v${version}`) return `it is ${JSON.stringify(stdout.trim())}`;
  fs.writeFileSync(path.join(kept, 'version'), marker(version));
  return undefined;
}

/** Why it failed, or undefined. The user's own npm: its registry, proxy, certificates and cache hold. */
function npmInstall(cwd) {
  const [command, ...first] = npmCommand();
  const args = [...first, 'ci', '--ignore-scripts', '--no-bin-links', '--no-audit', '--no-fund'];
  // An npm that started us hands its options on, such as those of `npm install --global .`.
  args.push('--location=project', '--no-global', '--no-dry-run', '--package-lock');
  args.push('--no-package-lock-only', '--install-strategy=hoisted');
  // The cache first, without a word: with the network, npm may take half a minute to notice that there is none.
  const cached = spawnSync(command, [...args, '--offline'], { cwd, stdio: 'ignore' });
  if (cached.status === 0) return undefined;
  const stdio = ['ignore', process.stderr, process.stderr];
  const { status, signal, error } = spawnSync(command, [...args, '--loglevel=error'], {
    cwd,
    stdio,
  });
  if (error !== undefined) return `npm does not run (${error.code})`;
  return status === 0 ? undefined : `npm failed (${signal ?? `exit code ${status}`})`;
}

/** Returns the words that start npm: the one that started us, or that on the PATH, on this Node.js. */
function npmCommand() {
  const script = process.env.npm_execpath;
  const known = script !== undefined && /npm-cli\.[cm]?js$/.test(script);
  return known ? [process.execPath, script] : ['npm'];
}

/** Puts what was fetched in its place, unless another start has done so in the meantime. */
function replace(work, runtime, pinned) {
  const fetched = path.join(work, 'runtime');
  for (let attempt = 0; ; attempt += 1) {
    try {
      fs.renameSync(fetched, runtime);
      return;
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST'].includes(error.code) || attempt === 10) throw error;
    }
    if (isComplete(runtime, pinned)) return;
    // Programs that run from an outdated one keep the file that they have open.
    const outdated = path.join(work, `outdated-${attempt}`);
    try {
      fs.renameSync(runtime, outdated);
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }
}

/**
 * Whether a runtime is the pinned one for this platform, with a binary that may be executed: a backup or a copy to another
 * file system can lose that permission. The folder is renamed in one step, so its marker covers the rest.
 */
function isComplete(runtime, { version }) {
  try {
    const found = fs.readFileSync(path.join(runtime, 'version'), 'utf8');
    if (found !== marker(version)) return false;
    fs.accessSync(path.join(runtime, 'bin', 'node'), fs.constants.X_OK);
    return true;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(error.code)) return false;
    throw error;
  }
}

/** The launcher of dist/ reads it as well: see src/cli/launcher/. */
function marker(version) {
  return `${version} ${PLATFORM}\n`;
}

/** Removes what starts have left that were killed while they fetched. */
function dropAbandoned(root) {
  for (const name of fs.readdirSync(root)) {
    const owner = /^\.runtime-(\d+)-/.exec(name);
    if (owner === null || isRunning(Number(owner[1]))) continue;
    fs.rmSync(path.join(root, name), { recursive: true, force: true });
  }
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    // Of another user: it runs.
    return true;
  }
}

function fail(exitCode, sentence) {
  say(sentence);
  process.exitCode = exitCode;
  return undefined;
}

function say(text) {
  process.stderr.write(`${text}\n`);
}

function readJson(file) {
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}

function writeJson(file, value) {
  fs.writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}

module.exports = { isNewEnough, neededVersion, npmCommand, obtainRuntime };
