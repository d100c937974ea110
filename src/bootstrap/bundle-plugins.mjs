/** What bundles leave out or change of the dependencies. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { transform } from 'esbuild';
import { root } from './needs.mjs';

/** zod's messages in other languages are reachable, and never used: a quarter of the reading script. */
export const englishOnly = {
  name: 'english-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
    })),
};
/** Of undici, what sends requests: fetch, web sockets, mocks and caches of answers are never used. */
export const requestsOnly = {
  name: 'requests-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/]undici[\\/]index\.js$/ }, () => ({
      contents: `
        const Dispatcher = require('./lib/dispatcher/dispatcher');
        Object.assign(Dispatcher.prototype, require('./lib/api'));
        exports.Agent = require('./lib/dispatcher/agent');
        exports.Pool = require('./lib/dispatcher/pool');
        exports.buildConnector = require('./lib/core/connect');
        exports.errors = require('./lib/core/errors');
      `,
    })),
};
/**
 * What dependencies load and never call here: styles of HTML (sanitize-html leaves them to safe-css.ts), dates (they come
 * with sanitize-html's schemes), links within plain text (mailparser is told to make none), metrics of the process with
 * their traces (metrics.ts has its own), the binding of pg to the library of PostgreSQL, which has to be compiled, what
 * checks the answers to forms that an MCP server may send, and SOCKS proxies of imapflow, for which there is no setting.
 */
const NEVER_CALLED = {
  postcss: 'module.exports = {};',
  dayjs: 'module.exports = {};',
  socks: 'exports.SocksClient = undefined;',
  tlds: 'module.exports = [];',
  'linkify-it':
    'const none = { tlds: () => none, add: () => none, set: () => none }; module.exports = () => none;',
};
export const calledOnly = {
  name: 'called-only',
  setup: ({ onResolve, onLoad }) => {
    const namespace = 'called-only';
    const filter = /^(?:postcss|dayjs|socks|tlds|linkify-it)$/;
    onResolve({ filter }, ({ path: name }) => ({ path: name, namespace }));
    onLoad({ filter: /./, namespace }, ({ path: name }) => ({ contents: NEVER_CALLED[name] }));
    onLoad({ filter: /[\\/]prom-client[\\/]lib[\\/]defaultMetrics\.js$/ }, () => ({
      contents: 'module.exports = () => undefined;',
    }));
    onLoad({ filter: /[\\/]pg[\\/]lib[\\/]native[\\/]index\.js$/ }, () => ({
      contents: 'module.exports = undefined;',
    }));
    onLoad({ filter: /[\\/]ajvProvider-[^\\/]*\.mjs$/ }, () => ({
      contents:
        'export class n { getValidator() { throw new Error("no form is sent"); } } export { n as r, n as t };',
    }));
  },
};
/**
 * What mailparser and libmime load at once and call for few messages, with the functions that they call: text of HTML, and
 * HTML of text. Loaded when first called, since their tables take 2 MB of each thread that reads mail.
 */
const CALLED_LATE = {
  'html-to-text': ['htmlToText'],
  he: ['encode'],
};
export const calledLate = {
  name: 'called-late',
  setup: ({ onResolve, onLoad }) => {
    const namespace = 'called-late';
    onResolve({ filter: /^(?:html-to-text|he)$/ }, (asked) =>
      asked.namespace === namespace
        ? undefined
        : { path: asked.path, namespace, pluginData: { resolveDir: asked.resolveDir } },
    );
    onLoad({ filter: /./, namespace }, ({ path: name, pluginData: { resolveDir } }) => ({
      contents: CALLED_LATE[name]
        .map((call) => `exports.${call} = (...given) => require('${name}').${call}(...given);`)
        .join('\n'),
      resolveDir,
    }));
  },
};
/**
 * The reading script has the JavaScript of better-sqlite3 in it: to load its 16 files takes longer than to load its addon,
 * which stays where it is installed. package.json names the exact version, so both are of one. Its folder is looked for
 * where `require` would (`mailkeepSqlite`), which reads what the package exports.
 */
const sqliteInScript = {
  name: 'sqlite-in-script',
  setup: ({ onResolve, onLoad }) => {
    const lib = path.join(root, 'node_modules/better-sqlite3/lib');
    onResolve({ filter: /^better-sqlite3$/ }, () => ({ path: path.join(lib, 'index.js') }));
    onLoad({ filter: /[\\/]better-sqlite3[\\/]lib[\\/]binding\.js$/ }, (file) => ({
      contents: readFileSync(file.path, 'utf8').replaceAll('__dirname', 'mailkeepSqlite()'),
    }));
  },
};
/**
 * Names within dependencies are shortened, a tenth of the package: their stack traces are of no use here, while ours keep
 * the names of functions and classes.
 */
export const shortNames = {
  name: 'short-names',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, async ({ path: file }) => {
      const options = { loader: 'js', minifyIdentifiers: true, legalComments: 'inline' };
      return { contents: (await transform(readFileSync(file, 'utf8'), options)).code };
    }),
};

/**
 * Tables that dependencies bring and another part of the bundle has as well: charsets of Japanese text (libmime, mailparser,
 * imapflow), and types by the ending of a file name (nodemailer, which the sandbox sends with).
 */
export const sharedTables = {
  name: 'shared-tables',
  setup: ({ onResolve, onLoad }) => {
    const namespace = 'shared-tables';
    onResolve({ filter: /^encoding-japanese$/ }, ({ path: name }) => ({ path: name, namespace }));
    onLoad({ filter: /./, namespace }, () => ({
      contents: `import { decodeText } from './src/mail/charsets.ts';
        export const convert = (bytes, { from }) => decodeText(Buffer.from(bytes), from);
        export default { convert };`,
      resolveDir: root,
    }));
    onLoad({ filter: /[\\/]nodemailer[\\/].*[\\/]mime-types\.js$/ }, () => ({
      contents: `import libmime from 'libmime';
        export const detectMimeType = (name) => libmime.detectMimeType((name ?? '').split('?')[0]);
        export const detectExtension = (type) => libmime.detectExtension(type);`,
      resolveDir: root,
    }));
  },
};

/** The launcher leaves lines with --fleet-account to the modules: the script needs nothing of it. */
const modulesOfFleets = {
  name: 'modules-of-fleets',
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/fleet-account\.ts$/ }, ({ path }) => ({
      ...{ path: path.replace(/\.ts$/, '.js'), external: true },
    })),
};

/** Leaves out the catalog's schema, which only writers need. */
export const noSchema = {
  name: 'no-schema',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/]migrations[\\/]catalog\.ts$/ }, () => ({
      contents: 'export const CATALOG_SCHEMA = [];',
    })),
};

/** What the reading script needs in addition to what every bundle has. */
export const scriptOnly = [modulesOfFleets, noSchema, sqliteInScript];
