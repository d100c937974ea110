import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FakeRegistry, PACKAGE } from './fake-registry.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const oldNode = fileURLToPath(new URL('./old-node.cjs', import.meta.url));
/** What of src/bootstrap/ runs with an old Node.js. */
const FILES = ['run.cjs', 'run-new.cjs', 'runtime.cjs'];
/** Ends with its first argument as exit code, and reports what it ran with. */
const PROBE = `
console.log(JSON.stringify({
  runtime: process.env.RUNTIME ?? null,
  pid: process.pid,
  first: process.env.PATH.split(':')[0],
  args: process.argv.slice(2),
}));
process.exitCode = Number(process.argv[2] ?? 0);
`;
/** Waits for SIGTERM. */
const WAIT = `
process.on('SIGTERM', () => process.exit(7));
setInterval(() => {}, 1000);
console.log('waiting');
`;

let work: string;
let registry: FakeRegistry;
beforeEach(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'mailkeep-runtime-'));
  registry = await FakeRegistry.start();
});
afterEach(async () => {
  await registry.close();
  rmSync(work, { recursive: true });
});

interface Platform {
  readonly os: readonly string[];
  readonly cpu: readonly string[];
}
const OURS: Platform = { os: [process.platform], cpu: [process.arch] };

interface Entry {
  readonly version: string;
  readonly integrity: string;
}

/** A project with the files of src/bootstrap/ that matter here, and a pin of the test's own. */
function project(entry: Entry, platform: Platform = OURS): string {
  const folder = mkdtempSync(path.join(work, 'clone-'));
  const bootstrap = path.join(folder, 'src', 'bootstrap');
  mkdirSync(path.join(bootstrap, 'runtime'), { recursive: true });
  for (const name of FILES) {
    cpSync(path.join(root, 'src', 'bootstrap', name), path.join(bootstrap, name));
  }
  writeFileSync(path.join(folder, 'package.json'), '{"engines": {"node": ">=22.15"}}');
  writeFileSync(path.join(bootstrap, 'probe.mjs'), PROBE);
  writeFileSync(path.join(bootstrap, 'wait.mjs'), WAIT);
  pin(folder, entry, platform);
  return folder;
}

function pin(folder: string, entry: Entry, platform: Platform): void {
  writeFileSync(
    path.join(folder, 'src', 'bootstrap', 'runtime', 'package-lock.json'),
    JSON.stringify({
      packages: { '': {}, [`node_modules/${PACKAGE}`]: { ...entry, ...platform } },
    }),
  );
}

/** `node run.cjs …` in a project; with an old Node.js unless `flags` says otherwise. */
function start(folder: string, args: string[], flags = ['--require', oldNode]) {
  const { PATH = '', npm_execpath } = process.env;
  const child = spawn(process.execPath, [...flags, 'src/bootstrap/run.cjs', ...args], {
    cwd: folder,
    // A group of its own, so that it can be killed with what it has started.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME: work,
      ...(npm_execpath === undefined ? {} : { npm_execpath }),
      npm_config_registry: registry.url,
      npm_config_cache: path.join(work, 'cache'),
      npm_config_fetch_retries: '0',
      // As an npm that installs the program has it in the environment of what it starts.
      npm_config_global: 'true',
    },
  });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]).then(
    ([stdout, stderr]) => ({ code: child.exitCode, signal: child.signalCode, stdout, stderr }),
  );
  return { child, ended };
}

const run = (folder: string, ...args: string[]) => start(folder, args).ended;

/** What the folder holds of runtimes, finished or not. */
function runtimes(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('.runtime'));
}

test('an old Node.js fetches the pinned one once, says so, and runs the script with it', async () => {
  const folder = project(registry.publish('24.21.0'));
  const first = await run(folder, 'probe', '3', 'a b');
  expect([first.code, first.stderr.split('\n')[0]]).toEqual([
    3,
    'mailkeep needs Node.js 22.15 or newer and this is 20.20.2: npm fetches Node.js 24.21.0 into .runtime/, once. To avoid that, install Node.js 22.15 or newer (https://nodejs.org).',
  ]);
  expect(JSON.parse(first.stdout)).toMatchObject({
    runtime: '24.21.0',
    first: path.join(folder, '.runtime', 'bin'),
    args: ['3', 'a b'],
  });
  expect(runtimes(folder)).toEqual(['.runtime']);
  expect(readdirSync(path.join(folder, '.runtime')).sort()).toEqual(['LICENSE', 'bin', 'version']);
  expect(readdirSync(path.join(folder, '.runtime', 'bin'))).toEqual(['node']);
  const { requests } = registry;
  const second = await run(folder, 'probe');
  expect([second.code, second.stderr, registry.requests]).toEqual([0, '', requests]);
  expect(JSON.parse(second.stdout)).toMatchObject({ runtime: '24.21.0' });
});

test('a Node.js that is new enough fetches and starts nothing', async () => {
  const folder = project(registry.publish('24.21.0'));
  const { child, ended } = start(folder, ['probe', '0'], []);
  const { code, stdout, stderr } = await ended;
  expect([code, stderr, runtimes(folder)]).toEqual([0, '', []]);
  expect(JSON.parse(stdout)).toMatchObject({ pid: child.pid, runtime: null, args: ['0'] });
});

test('two starts at once both run, and leave one runtime', async () => {
  const folder = project(registry.publish('24.21.0'));
  // Neither gets it before both have asked.
  const held: (() => void)[] = [];
  const tarball = registry.tarball('24.21.0');
  const bothAsked = new Promise<void>((resolve) => {
    registry.onTarball = (response) => {
      held.push(() => response.end(tarball));
      if (held.length === 2) resolve();
    };
  });
  const starts = [run(folder, 'probe'), run(folder, 'probe')];
  await bothAsked;
  for (const give of held) give();
  for (const { code, stdout } of await Promise.all(starts)) {
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { runtime: '24.21.0' }]);
  }
  expect(runtimes(folder)).toEqual(['.runtime']);
});

test('a start that was killed while it fetched leaves nothing in the way', async () => {
  const folder = project(registry.publish('24.21.0'));
  const { child, ended } = start(folder, ['probe']);
  registry.onTarball = () => process.kill(-(child.pid ?? 0), 'SIGKILL');
  expect((await ended).signal).toBe('SIGKILL');
  expect(runtimes(folder)).toEqual([expect.stringMatching(/^\.runtime-\d+-/)]);
  registry.onTarball = undefined;
  const { code, stdout } = await run(folder, 'probe');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { runtime: '24.21.0' }]);
  expect(runtimes(folder)).toEqual(['.runtime']);
});

test('an outdated or an incomplete runtime is replaced', async () => {
  const folder = project(registry.publish('24.20.0'));
  expect((await run(folder, 'probe')).code).toBe(0);
  pin(folder, registry.publish('24.21.0'), OURS);
  // What npm's cache holds of the package knows nothing of the new version.
  for (const state of ['outdated', 'incomplete']) {
    const { code, stdout } = await run(folder, 'probe');
    expect([state, code, JSON.parse(stdout)]).toMatchObject([state, 0, { runtime: '24.21.0' }]);
    expect(runtimes(folder)).toEqual(['.runtime']);
    rmSync(path.join(folder, '.runtime', 'version'));
  }
});

test('a runtime that may not be executed is replaced, one that does not start is reported', async () => {
  const folder = project(registry.publish('24.21.0'));
  expect((await run(folder, 'probe')).code).toBe(0);
  const binary = path.join(folder, '.runtime', 'bin', 'node');
  chmodSync(binary, 0o644);
  const { code, stdout } = await run(folder, 'probe');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { runtime: '24.21.0' }]);
  writeFileSync(binary, '#!/nonexistent/interpreter\n');
  expect(await run(folder, 'probe')).toEqual({
    code: 1,
    signal: null,
    stdout: '',
    stderr: `${binary} does not start (ENOENT). Remove .runtime/ and run the same command again, or install a newer Node.js (https://nodejs.org).\n`,
  });
});

test('a package that does not run on this system is not kept, and its first line says why', async () => {
  const line = "node: libc.so.6: version `GLIBC_2.28' not found (required by node)";
  const reasons: [string, string][] = [
    [`cat >&2 <<'E'\n${line}\nmore\nE\nexit 1`, line],
    ['exit 3', 'exit code 3'],
    ['kill -ILL $$', 'SIGILL'],
  ];
  for (const [index, [instead, reason]] of reasons.entries()) {
    const folder = project(registry.publish(`24.21.${index}`, undefined, instead));
    const { code, stdout, stderr } = await run(folder, 'probe');
    expect([code, stdout, runtimes(folder)]).toEqual([1, '', []]);
    expect(stderr).toContain(`could not be fetched: it does not run on this system (${reason}).`);
  }
});

test('it comes from the cache of npm without a network', async () => {
  const entry = registry.publish('24.21.0');
  expect((await run(project(entry), 'probe')).code).toBe(0);
  await registry.close();
  const { code, stdout } = await run(project(entry), 'probe');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { runtime: '24.21.0' }]);
});

test('where no package fits the platform, a sentence says what to install', async () => {
  const folder = project(registry.publish('24.21.0'), { os: ['plan9'], cpu: [process.arch] });
  expect(await run(folder, 'probe')).toMatchObject({
    code: 2,
    stdout: '',
    stderr: `mailkeep needs Node.js 22.15 or newer, this is 20.20.2, and there is no package of Node.js for ${process.platform}-${process.arch}: install Node.js 22.15 or newer (https://nodejs.org) and run the same command again.\n`,
  });
  expect([runtimes(folder), registry.requests]).toEqual([[], 0]);
});

test('bytes that are not the pinned ones, or another version, are not used', async () => {
  const { integrity } = registry.publish('24.21.0');
  const other = registry.publish('24.22.0', '18.0.0');
  const tampered = project({ version: other.version, integrity });
  const refused = await run(tampered, 'probe');
  expect([refused.code, refused.stdout, runtimes(tampered)]).toEqual([1, '', []]);
  expect(refused.stderr).toContain('EINTEGRITY');
  expect(refused.stderr).toContain('Node.js 24.22.0 could not be fetched: npm failed');
  const folder = project(other);
  const wrong = await run(folder, 'probe');
  expect([wrong.code, wrong.stdout, runtimes(folder)]).toEqual([1, '', []]);
  expect(wrong.stderr).toContain('could not be fetched: it is "v18.0.0"');
});

test('SIGTERM reaches the script', async () => {
  const folder = project(registry.publish('24.21.0'));
  const { child, ended } = start(folder, ['wait']);
  await once(child.stdout, 'readable');
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 7, signal: null });
});

test('every npm script goes through it, and the pin is new enough and no dependency', () => {
  const read = (file: string) => JSON.parse(readFileSync(path.join(root, file), 'utf8'));
  const { scripts, dependencies, devDependencies } = read('package.json');
  for (const script of Object.values(scripts)) {
    expect(script).toMatch(/^node src\/bootstrap\/run\.cjs [a-z]/);
  }
  const { packages } = read('src/bootstrap/runtime/package-lock.json') as {
    packages: Record<string, { version?: string; integrity?: string }>;
  };
  const pinned = Object.entries(packages).filter(([place]) => place !== '');
  expect(pinned.length).toBeGreaterThan(1);
  for (const [place, { version, integrity }] of pinned) {
    expect([version, integrity]).toEqual(['24.21.0', expect.stringMatching(/^sha512-/)]);
    const name = place.replace('node_modules/', '');
    expect({ ...dependencies, ...devDependencies }).not.toHaveProperty(name);
  }
  expect(existsSync(path.join(root, 'src/bootstrap/runtime/package.json'))).toBe(true);
});
