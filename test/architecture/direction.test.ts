import { expect, test } from 'vitest';
import { type SourceFile, sourceFiles } from './source-tree.ts';

/**
 * What each room may import besides itself. A room is a folder of src/; sync/plan and offsite/format are
 * rooms of their own, because they must stay pure; the tables of the catalog and of a fleet have nothing in common.
 * Nothing imports upward, and a room that is not here does not exist.
 */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  // What Node does otherwise than the system, and the errors of SQLite, where every room may want it.
  disk: ['errors'],
  mail: [],
  // Suggestions for mistyped names of any kind.
  names: [],
  wire: ['errors', 'mail'],
  // How targets of copies and rates are written.
  config: ['objects', 'search', 'disk', 'names', 'errors'],
  limiter: ['errors'],
  search: ['names', 'mail', 'errors'],
  'sync/plan': ['mail', 'errors'],
  api: ['wire', 'mail', 'limiter', 'errors'],
  // Hosts of worker threads: start, limits, deadline, cause of end.
  threads: ['errors'],
  archive: ['disk', 'threads', 'mail', 'errors'],
  // What is sought is written as it is sought: extraction ends with entries for the index.
  mime: ['search', 'threads', 'mail', 'errors'],
  attachments: ['mime', 'threads', 'mail', 'errors'],
  // Shapes of the archive and of extraction only; their code is not reached from here (see below).
  catalog: [
    'search',
    'names',
    'archive',
    'mime',
    'attachments',
    'migrations',
    'disk',
    'mail',
    'errors',
  ],
  migrations: [],
  'migrations/fleet': [],
  // The registry of a fleet in PostgreSQL: every transaction that decides anything.
  registry: ['migrations/fleet', 'errors'],
  indexer: ['archive', 'catalog', 'mime', 'attachments', 'mail', 'errors'],
  verify: ['disk', 'threads', 'archive', 'catalog', 'mail', 'errors'],
  copy: ['archive', 'errors'],
  // What a copy in a place that need not be trusted consists of: names, encryption, keys, manifests. No files, no network.
  'offsite/format': ['archive', 'verify', 'errors'],
  // Encrypted copies in places that need not be trusted: what to upload, what to read back, what to remove.
  offsite: ['offsite/format', 'objects', 'copy', 'verify', 'archive', 'state', 'disk', 'errors'],
  // Stores of immutable objects; what the objects are is unknown there.
  objects: ['limiter', 'disk', 'errors'],
  retention: ['sync/plan', 'archive', 'catalog', 'mail', 'errors'],
  sync: [
    'state',
    'sync/plan',
    'api',
    'limiter',
    'archive',
    'catalog',
    'indexer',
    'mime',
    'mail',
    'errors',
  ],
  // What a server of the mailbox surface needs, whatever it answers from.
  'mailbox-surface': ['wire', 'mail', 'errors'],
  sandbox: ['mailbox-surface', 'wire', 'mailfiles', 'mail', 'errors'],
  // The mailbox surface over the archive: reads only.
  mirror: [
    'engine',
    'listener',
    'mailbox-surface',
    'wire',
    'archive',
    'catalog',
    'state',
    'threads',
    'mail',
    'errors',
  ],
  // How mail lies in mbox files and Maildirs: the service reads them as seeds, export and import as backups.
  mailfiles: ['disk', 'mail', 'errors'],
  export: ['disk', 'archive', 'catalog', 'mailfiles', 'search', 'mail', 'errors'],
  // The way back into a mailbox, over IMAP: plan, journal, and what the server has.
  restore: ['disk', 'archive', 'catalog', 'search', 'state', 'mail', 'errors'],
  // An export tried out, and read back by parsers that had no part in it.
  drill: ['disk', 'archive', 'catalog', 'export', 'mime', 'mail', 'errors'],
  // Exports come back with what their manifests say.
  import: ['disk', 'archive', 'catalog', 'export', 'mailfiles', 'mime', 'sync', 'mail', 'errors'],
  // What the daemon uses besides the passes.
  listener: ['config', 'errors'],
  demo: ['archive', 'errors'],
  receiver: ['listener', 'wire', 'errors'],
  health: ['listener', 'state', 'config', 'mail', 'errors'],
  notify: ['health', 'state', 'limiter', 'errors'],
  'service-manager': ['errors'],
  'delivery-watch': ['state', 'api', 'wire', 'errors'],
  // state.sqlite: what is convenient to remember, with every scope in one table.
  state: ['disk', 'limiter', 'mail', 'errors'],
  // The one table from what went wrong to what people read.
  wording: ['notify', 'config', 'verify', 'catalog', 'disk', 'errors', 'mail'],
  // The application: opens archives and origins, and composes passes and all other work. No words, no terminal.
  engine: [
    'api',
    'archive',
    'attachments',
    'catalog',
    'config',
    'copy',
    'disk',
    'errors',
    'health',
    'import',
    'indexer',
    'limiter',
    'mail',
    'mime',
    'names',
    'objects',
    'offsite',
    'offsite/format',
    'retention',
    'search',
    'state',
    'sync',
    'sync/plan',
    'verify',
  ],
  // The archive in a browser: reads only, and knows neither the command line nor the daemon, which both start it.
  web: [
    'engine',
    'wording',
    'archive',
    'catalog',
    'config',
    'disk',
    'errors',
    // Downloads of what a query finds, and their thread.
    'export',
    'health',
    'listener',
    'mail',
    'mime',
    // The API over the archive, on the same listener.
    'mailbox-surface',
    'mirror',
    'names',
    'search',
    'state',
    'threads',
  ],
  // Archives of a fleet, whose log is in PostgreSQL and whose files are in an object store; the local folder is a copy.
  fleet: [
    'registry',
    // An archive of a fleet is kept fresh by the same passes as any other.
    'daemon',
    // Webhooks and readers, which come to any node, and who asks or is notified how a node is.
    'listener',
    'receiver',
    'health',
    'notify',
    'wording',
    'delivery-watch',
    'api',
    'wire',
    'config',
    'sync',
    'engine',
    'archive',
    'catalog',
    'disk',
    'errors',
    'indexer',
    'limiter',
    'mail',
    'objects',
    'retention',
    'state',
  ],
  // Decides when what is done, and speaks to its neighbours among the processes.
  daemon: [
    'engine',
    'wording',
    'api',
    'archive',
    'config',
    'delivery-watch',
    'disk',
    'errors',
    'health',
    'indexer',
    'limiter',
    'mail',
    'mime',
    'notify',
    'receiver',
    'retention',
    'service-manager',
    'state',
    'sync',
    'sync/plan',
    'web',
  ],
  // Parses the command line, calls the engine and prints.
  cli: [
    'engine',
    'daemon',
    'wording',
    'api',
    'archive',
    'attachments',
    'catalog',
    'config',
    'copy',
    'delivery-watch',
    // Servers of the demo of a fleet.
    'demo',
    'disk',
    'drill',
    'errors',
    'export',
    // Loaded by one command only.
    'fleet',
    'registry',
    'health',
    'import',
    'indexer',
    'limiter',
    // HTTP over the link of a fleet.
    'listener',
    'mail',
    // The command that makes tokens.
    'mirror',
    'mime',
    'names',
    'notify',
    // Where copies are, and the keys that people hold.
    'objects',
    'offsite',
    'offsite/format',
    'restore',
    'retention',
    'sandbox',
    'search',
    'state',
    'sync',
    'sync/plan',
    'threads',
    'verify',
    'web',
    'wire',
  ],
  // What the program's file is: checks the version of Node.js before it loads the rest.
  launcher: ['cli'],
  // Scripts of the project itself; they run before there is a build.
  bootstrap: ['config'],
  // What programs import from the package.
  // What programs read an archive with. Its shapes are declared in one file, so that the package has few declarations.
  library: ['engine', 'catalog', 'verify', 'search', 'wording', 'mail', 'errors'],
  'index.ts': ['library', 'api', 'wire', 'mail', 'errors'],
};

const files = sourceFiles(['src', 'migrations']);

function roomOf(file: string): string {
  const [top = '', second = '', third = ''] = file.split('/');
  if (top === 'migrations') return second === 'fleet' ? 'migrations/fleet' : top;
  const inner = `${second}/${third}`;
  return ['sync/plan', 'offsite/format'].includes(inner) ? inner : second;
}

function edges(): { from: SourceFile; to: string }[] {
  return files.flatMap((from) => from.imports.map((to) => ({ from, to })));
}

test('every folder of src/ is a room of the table', () => {
  expect(
    [...new Set(files.map(({ file }) => roomOf(file)))].filter((room) => !(room in ALLOWED)),
  ).toEqual([]);
});

test('rooms import only what the table allows', () => {
  const forbidden = edges()
    .filter(({ to }) => to.startsWith('src/') || to.startsWith('migrations/'))
    .filter(({ from, to }) => {
      const [room, other] = [roomOf(from.file), roomOf(to)];
      return room !== other && !(ALLOWED[room] ?? []).includes(other);
    })
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(forbidden).toEqual([]);
});

test('the catalog knows the shapes of archive and extraction, not their code', () => {
  const shapes = [
    'src/archive/format/facts.ts',
    'src/archive/format/records.ts',
    'src/mime/extraction.ts',
    'src/mime/index-entry.ts',
    'src/attachments/attachment-text.ts',
  ];
  const reached = edges()
    .filter(({ from }) => roomOf(from.file) === 'catalog')
    .filter(({ to }) => ['archive', 'mime', 'attachments'].includes(roomOf(to)))
    .filter(({ to }) => !shapes.includes(to))
    .map(({ from, to }) => `${from.file} -> ${to}`);
  expect(reached).toEqual([]);
});

test('a command folder imports no other command folder', () => {
  const commandOf = (file: string) => /^src\/cli\/commands\/([^/]+)\//.exec(file)?.[1];
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

test('no file imports itself, by any way round', () => {
  const graph = new Map(files.map(({ file, imports }) => [file, imports]));
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
