import { expect, test } from 'vitest';
import { type SourceFile, sourceFiles } from './source-tree.ts';

/** The rooms of the project. Each imports only rooms before it, and a room that is not here does not exist. */
const ROOMS: readonly string[] = [
  'migrations',
  // Errors, configuration, state.sqlite, threads, pacing, listener, shared types.
  'core',
  // From MIME to text.
  'mail',
  // The append-only log.
  'archive',
  // The index in SQLite: fold, query language, search, rebuild.
  'catalog',
  // The hosted service from the client's side, and what servers of its interface share.
  'service',
  // IMAP servers from the client's side.
  'imap',
  'sync/plan',
  'sync',
  'verify',
  'copies/format',
  'copies',
  'transfer',
  // A local implementation of the service.
  'sandbox',
  'web',
  'daemon',
  'fleet',
  'cli',
  // Scripts of the project itself; they run before there is a build.
  'bootstrap',
  // What programs import from the package.
  'index.ts',
];

/** Rooms that import less: pure algorithms, and servers that know nothing of a client. */
const NARROW: Readonly<Record<string, readonly string[]>> = {
  'sync/plan': ['core'],
  'copies/format': ['core', 'archive'],
  sandbox: ['core', 'mail', 'archive', 'service'],
  bootstrap: ['core'],
};

/** Folders within a room. */
const SUBFOLDERS: readonly string[] = [
  'sync/plan',
  'copies/format',
  'web/pages',
  'web/client',
  'web/assets',
  'cli/commands',
  'cli/launcher',
  'bootstrap/runtime',
];

/** Files of the catalog that open an archive, read it through or name its damage; the others know only its format. */
const OPENING: readonly string[] = ['open-reader', 'open-writer', 'rebuild', 'indexer', 'findings'];
const SHAPES: readonly string[] = ['src/archive/format.ts'];

const files = sourceFiles(['src', 'migrations']);

function roomOf(file: string): string {
  const [top = '', second = '', third = ''] = file.split('/');
  if (top === 'migrations') return top;
  const inner = `${second}/${third}`;
  return ROOMS.includes(inner) ? inner : second;
}

function edges(): { from: SourceFile; to: string }[] {
  return files.flatMap((from) => from.imports.map((to) => ({ from, to })));
}

test('every folder of src/ is a room of the list, with no folders but those that are listed', () => {
  const folders = files.map(({ file }) => file.split('/').slice(1, -1).join('/'));
  const known = [...ROOMS, ...SUBFOLDERS, ''];
  expect([...new Set(folders)].filter((folder) => !known.includes(folder))).toEqual([]);
  expect(files.map(({ file }) => roomOf(file)).filter((room) => !ROOMS.includes(room))).toEqual([]);
});

test('rooms import only rooms before them', () => {
  const isAllowed = (room: string, other: string) =>
    room === other || (NARROW[room]?.includes(other) ?? ROOMS.indexOf(other) < ROOMS.indexOf(room));
  const forbidden = edges()
    .filter(({ to }) => to.startsWith('src/') || to.startsWith('migrations/'))
    .filter(({ from, to }) => !isAllowed(roomOf(from.file), roomOf(to)))
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(forbidden).toEqual([]);
});

test('the catalog knows the shapes of the archive, not its code', () => {
  const reached = edges()
    .filter(({ from }) => roomOf(from.file) === 'catalog')
    .filter(({ from }) => !OPENING.some((name) => from.file === `src/catalog/${name}.ts`))
    .filter(({ to }) => roomOf(to) === 'archive' && !SHAPES.includes(to))
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(reached).toEqual([]);
});

test('a command imports no other command', () => {
  const commandOf = (file: string) => /^src\/cli\/commands\/([a-z]+)/.exec(file)?.[1];
  const crossing = edges()
    .filter(({ from, to }) => {
      const [command, other] = [commandOf(from.file), commandOf(to)];
      return command !== undefined && other !== undefined && command !== other;
    })
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(crossing).toEqual([]);
});

test('nothing outside src/ and migrations/ is imported, but package.json and, by scripts, the build', () => {
  const outside = edges()
    .filter(({ to }) => !to.startsWith('src/') && !to.startsWith('migrations/'))
    .filter(({ to }) => to !== 'package.json')
    .filter(({ from, to }) => roomOf(from.file) !== 'bootstrap' || !to.startsWith('dist/'))
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(outside).toEqual([]);
});

test('no file loads itself through other files', () => {
  const graph = new Map(files.map(({ file, loads }) => [file, loads]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) {
      cycles.push([...trail.slice(trail.indexOf(file)), file].join(' -> '));
      return;
    }
    if (done.has(file)) return;
    for (const next of graph.get(file) ?? []) visit(next, [...trail, file]);
    done.add(file);
  };
  for (const { file } of files) visit(file, []);
  expect(cycles).toEqual([]);
});
