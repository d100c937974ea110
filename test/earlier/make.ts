import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import {
  type EarlierArchive,
  packArchives,
  readList,
  unpackArchives,
  writeList,
} from './archives.ts';
import { LIBRARY_DRIVER } from './library-driver.ts';
import { MAIL, messageId, serveMail } from './mail.ts';

/**
 * Makes archives with earlier commits of mailkeep, for test/catalog/earlier-archives.test.ts:
 *
 *     node --import tsx test/earlier/make.ts [COMMIT…]
 *
 * Without commits, it makes all archives of archives.json again; a commit that is not listed is added. Each commit is
 * unpacked into a temporary folder, where its own command line syncs a local sandbox twice and runs the other commands
 * that it has. Segments are limited to 8 KiB, so that the log has sealed ones. Packages come from the npm registry, as
 * the lock file of the commit names them; but better-sqlite3 12 would have to be compiled, so 13.2.0 replaces it.
 */
const root = fileURLToPath(new URL('../..', import.meta.url));
const work = mkdtempSync(path.join(tmpdir(), 'earlier-archives-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
/** Kept for the next run. */
const packages = path.join(tmpdir(), 'earlier-packages');

const listed = readList();
const asked = process.argv.slice(2);
const commits = asked.length > 0 ? asked.map(shortHash) : listed.map(({ commit }) => commit);
const staging = path.join(work, 'archives');
mkdirSync(staging);
if (asked.length > 0 && listed.length > 0) unpackArchives(staging);

/** Archives by the commit whose program made them. */
const done = new Map<string, ReturnType<typeof makeArchive>>();
const made = new Map(listed.map((one) => [one.commit, one]));
for (const commit of commits) {
  const one = await makeFor(commit);
  made.set(commit, one);
  console.log(`${commit} ${one.madeBy} ${one.steps.join(', ')} ${one.reason ?? ''}`);
}
const history = git('log', '--format=%h', '--abbrev=8', '--reverse', 'HEAD').split('\n');
const all = [...made.values()].sort(
  (a, b) => history.indexOf(a.commit) - history.indexOf(b.commit),
);
for (const name of readdirSync(staging))
  if (!all.some(({ madeBy }) => madeBy === name))
    rmSync(path.join(staging, name), { recursive: true });
writeList(all);
packArchives(staging);

/** Uses the first later commit that works if this one does not, as within a change that took several commits. */
async function makeFor(commit: string): Promise<EarlierArchive> {
  const about = { commit, subject: git('log', '-1', '--format=%s', commit), ...changesOf(commit) };
  const order = ['--reverse', '--topo-order', '--ancestry-path', '--abbrev-commit', '--abbrev=8'];
  const later = git('rev-list', ...order, `${commit}..HEAD`).split('\n');
  let reason: string | undefined;
  for (const madeBy of [commit, ...later]) {
    try {
      const known = done.get(madeBy) ?? makeArchive(madeBy);
      done.set(madeBy, known);
      return { ...about, madeBy, ...(reason === undefined ? {} : { reason }), ...(await known) };
    } catch (error) {
      reason ??= reasonOf(error);
      console.log(`  ${madeBy}: ${reasonOf(error)}`);
    }
  }
  throw new Error(`${commit}: ${reason}`);
}

async function makeArchive(commit: string): Promise<Pick<EarlierArchive, 'steps' | 'messages'>> {
  const program = path.join(work, commit);
  const target = path.join(staging, commit);
  rmSync(target, { recursive: true, force: true });
  try {
    unpackCommit(commit, program);
    const data = path.join(program, 'home', 'data');
    const hasSync = ['sync.ts', 'sync'].some((name) =>
      existsSync(path.join(program, 'src/cli/commands', name)),
    );
    const used = hasSync ? await useProgram(program) : await useLibrary(program, data);
    cpSync(data, target, { recursive: true });
    return used;
  } finally {
    rmSync(program, { recursive: true, force: true });
  }
}

/** Syncs a sandbox twice, then uses the other commands that this version has. */
async function useProgram(program: string) {
  const { bin } = JSON.parse(readFileSync(path.join(program, 'package.json'), 'utf8'));
  must(spawnSync('npm', ['run', '--silent', 'build'], { cwd: program }));
  const home = path.join(program, 'home');
  mkdirSync(home);
  for (const name of ['beluga', 'lemming'] as const)
    writeFileSync(path.join(home, `${name}.eml`), MAIL[name]);
  const mailkeep = (...line: string[]) => run([path.join(program, bin.mailkeep), ...line], home);
  const names: (keyof typeof MAIL)[] = ['narwhal', 'otter', 'walrus', 'orca', 'manatee', 'odd'];
  const steps = ['sync'];

  const service = await serveMail(home);
  try {
    await mailkeep('sync', '--config', 'config.json');
    service.change();
    await mailkeep('sync', '--config', 'config.json');
  } finally {
    await service.close();
  }

  const help = await mailkeep('--help');
  const has = (command: string) => new RegExp(`^ {2}${command} `, 'm').test(help);
  const step = async (name: string, ...line: string[]) => {
    await mailkeep(...line, '--data', 'data');
    steps.push(name);
  };
  if (has('import')) {
    for (const name of ['beluga', 'lemming'] as const)
      await step(`import ${name}`, 'import', `${name}.eml`, '--mailbox', 'Old mail');
    await step('forget lemming', 'forget', messageId('lemming'), '--yes');
    names.push('beluga');
  }
  if (has('search') && (await mailkeep('search', '--help')).includes('--save '))
    await step('saved search', 'search', '--save', 'tusks', 'tusks');
  if (has('token')) await step('token', 'token', 'create', '--name', 'laptop');
  if (has('copy')) await step('copy', 'copy', '--to', 'copy');
  if (has('verify')) await step('verify', 'verify');
  return { steps, messages: idsOf(names) };
}

/** The first commits have no command line: writes their log and catalog with their modules. */
async function useLibrary(program: string, data: string) {
  const driver = path.join(program, 'drive.ts');
  mkdirSync(data, { recursive: true, mode: 0o700 });
  writeFileSync(driver, LIBRARY_DRIVER);
  const names = ['walrus', 'narwhal', 'otter', 'odd'] as const;
  for (const name of names) writeFileSync(path.join(program, `${name}.eml`), MAIL[name]);
  const tsx = path.join(program, 'node_modules/tsx/dist/loader.mjs');
  await run(['--import', tsx, driver, data, ...names.map((name) => `${name}.eml`)], program);
  return { steps: ['library'], messages: idsOf(names) };
}

function idsOf(names: readonly (keyof typeof MAIL)[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, messageId(name)]));
}

function unpackCommit(commit: string, folder: string): void {
  mkdirSync(folder);
  const tar = must(spawnSync('git', ['archive', commit], { cwd: root, maxBuffer: 2 ** 29 })).stdout;
  must(spawnSync('tar', ['-x'], { cwd: folder, input: tar }));
  const archive = path.join(folder, 'src/archive');
  if (!git('ls-tree', '-r', '--name-only', commit, 'src/archive').includes('log-writer'))
    throw new Error('this commit has no code that writes a log');
  symlinkSync(installPackages(folder), path.join(folder, 'node_modules'));
  for (const file of readdirSync(archive, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const code = readFileSync(path.join(archive, file), 'utf8');
    const small = code.replace(/(SEGMENT_BYTES = )64 \* 1024 \* 1024/, '$18 * 1024');
    if (small !== code) writeFileSync(path.join(archive, file), small);
  }
}

/** Commits with the same lock file and dependencies share a folder, which the next run uses again. */
function installPackages(folder: string): string {
  const files = ['package.json', 'package-lock.json'];
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(path.join(folder, 'package.json'), 'utf8'),
  );
  const lock = readFileSync(path.join(folder, 'package-lock.json'));
  const key = createHash('sha256')
    .update(JSON.stringify({ dependencies, devDependencies }))
    .update(lock)
    .digest('hex');
  const shared = path.join(packages, key.slice(0, 16));
  const installed = path.join(shared, 'node_modules');
  if (existsSync(installed)) return installed;
  mkdirSync(shared, { recursive: true });
  for (const file of files) cpSync(path.join(folder, file), path.join(shared, file));
  const line = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
  const done = spawnSync('npm', [...line, 'better-sqlite3@13.2.0'], { cwd: shared });
  if (done.status !== 0) rmSync(shared, { recursive: true });
  must(done);
  return installed;
}

/** Runs Node.js, and returns its standard output. */
async function run(line: readonly string[], cwd: string): Promise<string> {
  const child = spawn(process.execPath, line, {
    cwd,
    env: { PATH: process.env.PATH, HOME: cwd, XDG_CONFIG_HOME: cwd, TZ: 'UTC' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [code, out, err] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  if (code !== 0) throw new Error(`${line.slice(1, 3).join(' ')}: ${err}${out}`);
  return out;
}

function changesOf(commit: string): Pick<EarlierArchive, 'changed'> {
  const files = git('show', '--name-only', '--format=', commit).split('\n');
  const kinds = {
    catalog:
      /^migrations\/(?!fleet)|^src\/catalog\/(migrate|version|tables|database|text-blocks)\.ts$/,
    log: /^src\/(archive|retention\/purge-journal)\b/,
    state: /^src\/((core|catalog)\/state|state\/|core\/stored-values)/,
  };
  return {
    changed: Object.entries(kinds).flatMap(([kind, pattern]) =>
      files.some((file) => pattern.test(file)) ? [kind] : [],
    ),
  };
}

function reasonOf(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).split('\n');
  return (lines.find((line) => /error|cannot|no /i.test(line)) ?? lines[0] ?? '')
    .replace(/^✘ \[ERROR\] /, '')
    .replaceAll(work, '')
    .replaceAll(root, '')
    .slice(0, 200);
}

function shortHash(commit: string): string {
  return git('rev-parse', '--short=8', `${commit}^{commit}`);
}

function git(...line: string[]): string {
  return must(spawnSync('git', line, { cwd: root, maxBuffer: 2 ** 26 }))
    .stdout.toString()
    .trim();
}

function must<T extends { status: number | null; stderr: Buffer }>(done: T): T {
  if (done.status !== 0) throw new Error(done.stderr.toString());
  return done;
}
