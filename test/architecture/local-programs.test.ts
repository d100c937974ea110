import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { root, sourceFiles } from './source-tree.ts';

/** What starts without a fleet, apart from worker threads: these load nothing of PostgreSQL. */
const PROGRAMS = ['mailkeep.js', 'index.js', 'mailkeep.cjs', 'load.cjs', 'reading.script'];
/** The sentences about errors of a fleet: any process can receive such an error, and they import only core. */
const SENTENCES = 'src/fleet/errors.ts';
/** Code of a fleet, and the commands that use it. */
const FLEET = /^src\/(?:fleet\/|cli\/(?:commands\/fleet|fleet-account|open-fleet))/;
/** Threads of a fleet's worker. */
const FLEET_THREADS = ['src/fleet/session-thread.ts'];
/** The only file that loads `pg`. */
const DRIVER = 'src/fleet/postgres.ts';
/** Stands in `pg` and nowhere else. */
const MARK = 'SASL: SCRAM-SERVER-FIRST-MESSAGE';

const READING = ['better-sqlite3'];
const SERVICE = ['better-sqlite3', 'node-cron', 'undici', 'zod'];
/** Packages that files of src/cli load before they run, besides those of the command line itself. */
const STARTS: Readonly<Record<string, readonly string[]>> = {
  main: [],
  'serve-web': [
    ...[
      '@hono/node-server',
      '@modelcontextprotocol/server',
      'better-sqlite3',
      'hono',
      'hono/compress',
    ],
    ...['iconv-lite', 'libmime', 'node-cron', 'nodemailer/lib/addressparser', 'preact'],
    ...['preact-render-to-string', 'preact/hooks', 'zod'],
  ],
  'commands/account': ['better-sqlite3', 'node-cron', 'zod'],
  'commands/api': SERVICE,
  'commands/attachments': READING,
  'commands/checkpoint': READING,
  'commands/compact': READING,
  'commands/config': ['node-cron', 'zod'],
  'commands/copy': [],
  'commands/daemon': [],
  'commands/doctor': SERVICE,
  'commands/export': ['better-sqlite3', 'yauzl', 'yazl'],
  'commands/fleet': [],
  'commands/forget': ['better-sqlite3', 'node-cron', 'zod'],
  'commands/history': READING,
  'commands/import': [
    ...['better-sqlite3', 'iconv-lite', 'libmime', 'nodemailer/lib/addressparser'],
    ...['yauzl', 'yazl'],
  ],
  'commands/init': ['undici', 'zod'],
  'commands/list': READING,
  'commands/mcp': [],
  'commands/notify': ['node-cron', 'zod'],
  'commands/prune': ['better-sqlite3', 'node-cron', 'zod'],
  'commands/quarantine': READING,
  'commands/rebuild': READING,
  'commands/restore': ['better-sqlite3'],
  'commands/sandbox': [],
  'commands/search': READING,
  'commands/show': READING,
  'commands/stats': READING,
  'commands/status': READING,
  'commands/sync': SERVICE,
  'commands/token': READING,
  'commands/verify': READING,
  'commands/web': [],
  'commands/webhooks': [],
};

/** Files that a file loads before anything runs: no types, and nothing that is imported when it is needed. */
function loadedWith(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  return source.statements.flatMap((statement) => {
    const isExport = ts.isExportDeclaration(statement);
    if (!isExport && !ts.isImportDeclaration(statement)) return [];
    const isTypes = isExport
      ? statement.isTypeOnly
      : statement.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
    const { moduleSpecifier } = statement;
    if (isTypes || moduleSpecifier === undefined) return [];
    return ts.isStringLiteral(moduleSpecifier) ? [moduleSpecifier.text] : [];
  });
}

function reached(from: string, loads: (file: string) => readonly string[]): ReadonlySet<string> {
  const found = new Set([from]);
  for (const file of found) for (const next of loads(file)) found.add(next);
  return found;
}

const files = new Map(sourceFiles(['src', 'migrations']).map(({ file, text }) => [file, text]));

const names = new Map<string, readonly string[]>();

function namesLoadedWith(file: string): readonly string[] {
  const known = names.get(file);
  if (known !== undefined) return known;
  const loaded = loadedWith(file, files.get(file) ?? '');
  names.set(file, loaded);
  return loaded;
}

function sourcesLoadedWith(file: string): readonly string[] {
  return namesLoadedWith(file)
    .filter((name) => name.startsWith('.'))
    .map((name) => path.join(path.dirname(file), name));
}

test('no entry point of the build loads anything of a fleet', () => {
  const build = readFileSync(path.join(root, 'src/bootstrap/build.mjs'), 'utf8');
  const entries = [...build.matchAll(/'(src\/[\w/-]+\.tsx?)'/g)].map(([, file = '']) => file);
  expect(entries).toEqual(expect.arrayContaining(['src/cli/main.ts', 'src/cli/main-reading.ts']));
  for (const entry of entries.filter((file) => !FLEET_THREADS.includes(file))) {
    const loaded = [...reached(entry, sourcesLoadedWith)].filter((file) => file !== SENTENCES);
    expect(loaded.filter((file) => FLEET.test(file))).toEqual([]);
  }
  const outside = sourcesLoadedWith(SENTENCES).filter((file) => !file.startsWith('src/core/'));
  expect(outside).toEqual([]);
  // The walk sees what it is to see.
  const [own = ''] = FLEET_THREADS;
  expect([...reached(own, sourcesLoadedWith)]).toContain(DRIVER);
});

test('commands load at their start only the packages that are listed', () => {
  const packagesOf = (start: string) => {
    const loaded = [...reached(`src/cli/${start}.ts`, sourcesLoadedWith)];
    const packages = loaded
      .flatMap(namesLoadedWith)
      .filter((name) => !/^(?:\.|node:|commander$|picocolors$)/.test(name));
    return [...new Set(packages)].sort();
  };
  const listed = Object.keys(STARTS);
  expect(Object.fromEntries(listed.map((start) => [start, packagesOf(start)]))).toEqual(STARTS);
  const commands = [...files.keys()].filter((file) =>
    /^src\/cli\/commands\/[a-z]+\.ts$/.test(file),
  );
  const unlisted = ['completion', 'manual'].map((name) => `src/cli/commands/${name}.ts`);
  expect(commands.filter((file) => !unlisted.includes(file)).sort()).toEqual(
    listed.filter((start) => start.startsWith('commands/')).map((start) => `src/cli/${start}.ts`),
  );
});

test('only one file loads the driver of PostgreSQL', () => {
  const users = [...files]
    .filter(([file, text]) => loadedWith(file, text).includes('pg'))
    .map(([file]) => file);
  expect(users).toEqual([DRIVER]);
});

test('what is built for local use has no PostgreSQL in it', () => {
  const read = (name: string) => readFileSync(path.join(root, 'dist', name), 'utf8');
  const library = path.join(root, 'node_modules/pg/lib/crypto/sasl.js');
  expect(readFileSync(library, 'utf8')).toContain(MARK);
  const built = readdirSync(path.join(root, 'dist')).filter((name) => name.endsWith('-worker.js'));
  expect(built.length).toBeGreaterThan(3);
  const chunksOf = (name: string) =>
    [...read(name).matchAll(/(?:from|import)\s*"\.\/([\w-]+\.js)"/g)].map(
      ([, chunk = '']) => chunk,
    );
  for (const program of [...PROGRAMS, ...built]) {
    const loaded = [...reached(program, chunksOf)];
    expect(loaded.filter((name) => read(name).includes(MARK))).toEqual([]);
  }
  expect([...reached('mailkeep.js', chunksOf)].length).toBeGreaterThan(5);
});
