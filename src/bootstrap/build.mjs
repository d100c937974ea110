/**
 * Builds dist/ from src/:
 * - the command line, the library and the worker threads, as ES modules that share chunks; dependencies are
 *   bundled, because resolving hundreds of small files is most of a cold start, and what is native or starts
 *   threads of its own stays outside;
 * - the reading commands once more as one script with its compiled code next to it, and the launcher that `mailkeep` is (see src/cli/launcher/);
 * - what browsers load for the web interface;
 * - the man page, from the help of the commands.
 *
 * Files are replaced one by one and only where their content changed, so that a program that runs from
 * dist/ while it is built finds whole files. `--clean` empties dist/ first; `--types` adds declarations.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, crc32 } from 'node:zlib';
import { build } from 'esbuild';
import {
  calledLate,
  calledOnly,
  englishOnly,
  noSchema,
  requestsOnly,
  scriptOnly,
  sharedTables,
  shortNames,
} from './bundle-plugins.mjs';
import { needNode, program, root } from './needs.mjs';
import { noticesOf } from './notices.mjs';

const dist = path.join(root, 'dist');
/** With letters beyond ASCII, which are folded by code of their own. */
const LETTER = [
  'Message-ID: <1@example.org>',
  'Date: Mon, 02 Feb 2026 10:00:00 +0000',
  'From: Anna Berg <anna@example.org>',
  'To: bob@example.org',
  'Subject: Ferry',
  'Content-Type: text/plain; charset=utf-8',
  '',
  'When does the ferry leave? At noon – says the café.',
  '',
].join('\r\n');
/**
 * Node.js's own modules that take a millisecond or more to load, which most reading commands never use: the script gets an
 * object that loads the module when its first member is read. esbuild reads members when they are used; a namespace that
 * it copies (`__toESM`) has the prototype of the object, so its members are loaded in the same way.
 */
const LOADED_LATE = [
  'child_process',
  'crypto',
  'fs/promises',
  'net',
  'readline/promises',
  'v8',
  'worker_threads',
];
const READING_BANNER = `(function (mailkeepRequire, __filename) {
const mailkeepLate = new Set(${JSON.stringify(LOADED_LATE.map((name) => `node:${name}`))});
const require = (name) => mailkeepLate.has(name)
  ? Object.create(new Proxy({}, { get: (_, member) => mailkeepRequire(name)[member] }))
  : mailkeepRequire(name);
const mailkeepUrl = mailkeepRequire('node:url').pathToFileURL(__filename).href;
const mailkeepSqlite = () => {
  const libs = mailkeepRequire.resolve.paths('better-sqlite3').map((folder) => folder + '/better-sqlite3/lib');
  return libs.find(mailkeepRequire('node:fs').existsSync)
    ?? mailkeepRequire('node:path').dirname(mailkeepRequire.resolve('better-sqlite3'));
};`;
const common = {
  absWorkingDir: root,
  outdir: 'dist',
  write: false,
  bundle: true,
  platform: 'node',
  target: 'node22.15',
  external: ['better-sqlite3', 'pino', 'pino-pretty'],
  // Collected for the notices, see notices.mjs.
  legalComments: 'external',
  metafile: true,
  // Less to parse at each start; names stay, for stack traces.
  minifyWhitespace: true,
  minifySyntax: true,
  logLevel: 'warning',
  plugins: [calledLate, calledOnly, englishOnly, sharedTables, requestsOnly],
};

const MODULES = {
  format: 'esm',
  plugins: [...common.plugins, shortNames],
  // CommonJS dependencies call require() for Node's own modules.
  banner: {
    js: "import { createRequire as mailkeepRequire } from 'node:module'; const require = mailkeepRequire(import.meta.url);",
  },
};

// Compiled code holds for the version that made it.
needNode();
if (process.argv.includes('--clean')) rmSync(dist, { recursive: true, force: true });
mkdirSync(path.join(dist, 'web'), { recursive: true });
const startedAt = new Date();
const metafiles = [];
const comments = [];
const parts = await modules();
for (const { name, contents } of parts) put(name, contents);
const web = await webAssets();
for (const { name, contents } of web) put(name, contents);
const manual = manualPage();
put(manual.name, manual.contents);
const script = await readingScript();
const code = codeOf(script);
const reading = [script, code, ...(await launchers(script.name, code.name))];
for (const { name, contents } of reading) put(name, contents);
const notices = noticesOf(metafiles, comments);
put(notices.name, notices.contents);
const written = [...parts, ...web, manual, ...reading, notices];
for (const file of [program, path.join(dist, 'mailkeep.js')]) chmodSync(file, 0o755);
// The age of the build, whether or not this file changed: see needs.mjs.
utimesSync(program, startedAt, startedAt);
dropOld(new Set(written.map(({ name }) => name)));
if (process.argv.includes('--types')) declarations();

/** Bundles, and notes what is in the bundles and the legal comments in it. */
async function bundle(options) {
  const { outputFiles, metafile } = await build({ ...common, ...options });
  metafiles.push(metafile);
  const isLegal = (file) => file.path.endsWith('.LEGAL.txt');
  for (const file of outputFiles.filter(isLegal)) comments.push(file.text);
  return outputFiles.filter((file) => !isLegal(file));
}

async function modules() {
  const outputFiles = await bundle({
    entryPoints: {
      mailkeep: 'src/cli/main.ts',
      // For tests, which run lines in their own process.
      'command-line': 'src/cli/commands.ts',
      index: 'src/index.ts',
      'mime-worker': 'src/mail/mime-worker.ts',
      'attachment-worker': 'src/mail/attachment-worker.ts',
      'seal-worker': 'src/archive/seal-worker.ts',
      'log-worker': 'src/archive/log-worker.ts',
      'export-worker': 'src/web/export-worker.ts',
      'content-worker': 'src/web/content-worker.ts',
      'fleet-session': 'src/fleet/session-thread.ts',
      // For start.mjs, which must know where the program looks for its configuration.
      'config-places': 'src/core/config-locate.ts',
    },
    splitting: true,
    ...MODULES,
    chunkNames: 'chunk-[hash]',
  });
  // Its threads live for a second, and loading twenty chunks takes a tenth of that.
  const alone = {
    entryPoints: { 'verify-worker': 'src/verify/verify-worker.ts' },
    ...MODULES,
    plugins: [...MODULES.plugins, noSchema],
  };
  return [...outputFiles, ...(await bundle(alone))].map((file) => ({
    name: path.basename(file.path),
    contents: file.contents,
  }));
}

/**
 * What browsers load for the web interface, in dist/web/: each file's name carries a hash of its content, and assets.json
 * names them by their sources.
 */
async function webAssets() {
  const common = {
    entryNames: '[name]-[hash]',
    outdir: 'dist/web',
    platform: 'browser',
    target: 'es2022',
    minify: true,
  };
  const styles = await bundle({
    ...common,
    entryPoints: [
      'style.css',
      'without-script.css',
      'numbers.css',
      'later.css',
      'plain.css',
      'mark.svg',
      'icon-192.png',
      'icon-512.png',
    ].map((name) => `src/web/assets/${name}`),
    loader: { '.svg': 'copy', '.png': 'copy' },
  });
  const script = { ...common, format: 'esm', jsx: 'automatic', jsxImportSource: 'preact' };
  const alone = await bundle({
    ...script,
    entryPoints: { enter: 'src/web/assets/enter.mjs', you: 'src/web/client/you.ts' },
  });
  // In three files: two for the list, and one that loads with the first message or attachment.
  const app = await bundle({
    ...script,
    entryPoints: { app: 'src/web/client/main.tsx' },
    splitting: true,
    chunkNames: 'part-[hash]',
  });
  const scripts = [...alone, ...app];
  const files = [...styles, ...scripts].map((file) => ({
    name: `web/${path.basename(file.path)}`,
    contents: file.contents,
  }));
  files.push(manifestOf(files.map(({ name }) => path.basename(name))));
  // Compressed once, and harder than a server could for each request.
  const packed = files
    .map(({ name, contents }) => ({ name: `${name}.br`, contents: brotliCompressSync(contents) }))
    .filter(({ name }) => !name.endsWith('.png.br'));
  const served = files.map(({ name }) => path.basename(name)).sort();
  const named = served.filter((name) => !name.startsWith('part-'));
  const names = Object.fromEntries(named.map((name) => [name.replace(/-[^-.]+\./, '.'), name]));
  const imports = Object.fromEntries(
    Object.entries(names)
      .filter(([name]) => name === 'app.js')
      .map(([name, file]) => [name, [...importsOf(metafiles.at(-1).outputs, `dist/web/${file}`)]]),
  );
  const compressed = packed.map(({ name }) => path.basename(name, '.br'));
  const contents = Buffer.from(
    `${JSON.stringify({ names, served, imports, compressed }, null, 2)}\n`,
  );
  const plain = files.filter(({ name }) => name.endsWith('.png'));
  return [...plain, ...packed, { name: 'web/assets.json', contents }];
}

/** What browsers read before they install the web interface as an app. */
function manifestOf(names) {
  const icons = names
    .filter((name) => /^(?:icon|mark)-/.test(name))
    .map((src) => ({
      src,
      sizes: /^icon-(\d+)-/.exec(src)?.[1].replace(/.+/, '$&x$&') ?? 'any',
      type: src.endsWith('.svg') ? 'image/svg+xml' : 'image/png',
    }));
  const manifest = {
    name: 'mailkeep',
    id: '/',
    start_url: '/mail',
    scope: '/',
    display: 'standalone',
    background_color: '#f2f5f2',
    theme_color: '#0b6651',
    icons,
  };
  const contents = Buffer.from(`${JSON.stringify(manifest)}\n`);
  const hash = createHash('sha256').update(contents).digest('hex').slice(0, 8).toUpperCase();
  return { name: `web/manifest-${hash}.webmanifest`, contents };
}

/** The files that a script imports before it runs, and what these import. */
function importsOf(outputs, file, found = new Set()) {
  for (const { path: imported, kind } of outputs[file].imports) {
    const name = path.basename(imported);
    if (kind !== 'import-statement' || found.has(name)) continue;
    found.add(name);
    importsOf(outputs, imported, found);
  }
  return found;
}

/** In roff. */
function manualPage() {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-manual-'));
  try {
    const contents = runIn(work, [path.join(dist, 'mailkeep.js'), 'manual']);
    return { name: 'mailkeep.1', contents: Buffer.from(contents) };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A script whose value is a function; it is given `require` and its own file name. */
async function readingScript() {
  const outputFiles = await bundle({
    entryPoints: ['src/cli/main-reading.ts'],
    format: 'cjs',
    plugins: [...common.plugins, ...scriptOnly, shortNames],
    define: { 'import.meta.url': 'mailkeepUrl' },
    banner: { js: READING_BANNER },
    footer: { js: '})' },
  });
  // In ASCII, which the launcher need not decode: what the bundler leaves as it is stands in regular expressions.
  const text = outputFiles[0].text.replace(
    /[^\0-\x7f]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return { name: 'reading.script', contents: Buffer.from(text, 'latin1') };
}

/** The script's compiled code, after a run that searches an archive of one message: it holds what was run. */
function codeOf({ name, contents }) {
  const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-build-'));
  const file = path.join(dist, `${name}.${process.pid}.tmp`);
  const output = `${file}.code`;
  try {
    writeFileSync(file, contents);
    const letters = path.join(work, 'letters');
    mkdirSync(letters);
    writeFileSync(path.join(letters, 'letter.eml'), LETTER);
    const archive = path.join(work, 'archive');
    const run = (...args) => runIn(work, args);
    run(path.join(dist, 'mailkeep.js'), 'import', '--data', archive, '--quiet', letters);
    const compiler = fileURLToPath(new URL('./compile-script.cjs', import.meta.url));
    run(compiler, file, output, 'search', '--data', archive, 'ferry');
    // V8 compares the length of the source only. The name and the checksums bind the code to its content; the launcher
    // verifies the checksums (src/cli/launcher/compiled-code.ts).
    const sourceHash = createHash('sha256').update(contents).digest('hex');
    const code = readFileSync(output);
    const sums = Buffer.alloc(8);
    sums.writeUInt32BE(crc32(contents), 0);
    sums.writeUInt32BE(crc32(code, crc32(contents)), 4);
    return {
      name: `reading-${sourceHash.slice(0, 12)}.code`,
      contents: Buffer.concat([sums, code]),
    };
  } finally {
    for (const temporary of [file, output, work])
      rmSync(temporary, { recursive: true, force: true });
  }
}

/** Runs where nothing that is configured for a user or in this folder is found; returns what was printed. */
function runIn(cwd, args) {
  const { PATH = '' } = process.env;
  // The archive is thrown away: it may lie on a network file system.
  const env = { PATH, HOME: cwd, MAILKEEP_NETWORK_FILE_SYSTEM: 'allow' };
  const child = spawnSync(process.execPath, args, { cwd, env, encoding: 'utf8' });
  if (child.status !== 0) throw new Error(`node ${args.join(' ')} failed: ${child.stderr}`);
  return child.stdout;
}

/**
 * The launcher, and the files that it loads or starts. What an old Node.js comes across is in syntax of Node.js 4, so
 * that it gets as far as reporting that it is too old.
 */
async function launchers(scriptName, codeName) {
  const needed = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).engines.node;
  const names = {
    LAUNCHER: path.basename(program),
    LOAD: './load.cjs',
    HAND_OVER: './hand-over.cjs',
    HANDED_OVER: 'handed-over.cjs',
    READING_SCRIPT: scriptName,
    READING_CODE: codeName,
    BUILT_BY: process.version,
    NEEDED_NODE: needed.replace('>=', ''),
  };
  const define = Object.fromEntries(
    Object.entries(names).map(([name, value]) => [name, JSON.stringify(value)]),
  );
  const modules = {
    name: 'external-modules',
    setup: ({ onResolve }) =>
      onResolve({ filter: /\/main\.ts$/ }, () => ({ path: './mailkeep.js', external: true })),
  };
  const OLD = 'node4';
  const one = async (source, target, name) => {
    const entryPoints = [`src/cli/launcher/${source}.ts`];
    const outputFiles = await bundle({
      entryPoints,
      target,
      // Node.js 4 has them in strict mode, as here; the bundler does not translate them.
      supported: { 'const-and-let': true, 'for-of': true },
      define,
      format: 'cjs',
      external: [names.LOAD, names.HAND_OVER],
      plugins: [...common.plugins, modules],
    });
    return { name, contents: outputFiles[0].contents };
  };
  return Promise.all([
    one('load', common.target, 'load.cjs'),
    one('handed-over', common.target, names.HANDED_OVER),
    one('hand-over', OLD, 'hand-over.cjs'),
    one('mailkeep', OLD, names.LAUNCHER),
  ]);
}

function put(name, contents) {
  const file = path.join(dist, name);
  if (existsSync(file) && readFileSync(file).equals(contents)) return;
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, contents);
  renameSync(temporary, file);
}

/** Removes what an earlier build left. A program that runs may still load a chunk of it; an hour later it has. */
function dropOld(fresh) {
  const graceMs = 3_600_000;
  const assets = readdirSync(path.join(dist, 'web')).map((name) => `web/${name}`);
  for (const name of [...readdirSync(dist), ...assets]) {
    const file = path.join(dist, name);
    const left = !fresh.has(name) && /^chunk-|^web\/|\.code$|\.tmp$/.test(name);
    if (left && statSync(file).mtimeMs < Date.now() - graceMs) rmSync(file);
  }
}

/** Declares what `src/index.ts` exports: of all that the compiler writes, only the files that lead from there. */
function declarations() {
  const types = path.join(dist, 'types');
  const all = path.join(dist, 'types.tmp/src');
  const tsc = spawnSync(
    process.execPath,
    [
      path.join(root, 'node_modules/typescript/bin/tsc'),
      '-p',
      path.join(root, 'src/bootstrap/tsconfig.types.json'),
    ],
    { stdio: 'inherit' },
  );
  process.exitCode = tsc.status ?? 1;
  rmSync(types, { recursive: true, force: true });
  const needed = new Set([path.join(all, 'index.d.ts')]);
  for (const file of needed) {
    for (const [, to] of readFileSync(file, 'utf8').matchAll(/ from '(\.[^']+)\.(?:js|ts)'/g))
      needed.add(path.resolve(path.dirname(file), `${to}.d.ts`));
    const copy = path.join(types, path.relative(all, file));
    mkdirSync(path.dirname(copy), { recursive: true });
    renameSync(file, copy);
  }
  rmSync(path.dirname(all), { recursive: true });
}
