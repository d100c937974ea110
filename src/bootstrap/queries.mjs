/**
 * Compiles the catalog's queries when the program is built. Kysely, which makes SQL of them, would be three tenths of the
 * reading script, and each search would set it up.
 *
 * A query is known by its module and its number among those that the module makes when it is loaded.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const CATALOG = /[\\/]src[\\/]catalog[\\/].*\.ts$/;
const IMPORT = /^import \{([^}]*)\} from '(\.\.?\/)query\.ts';$/m;

/**
 * Returns a plugin for a bundle in which queries have the SQL that is compiled here.
 *
 * @param root folder of the project
 * @param work folder for a temporary file, from which the dependencies are found
 * @param bundle bundles with these options, and returns the files
 */
export async function compiledQueries(root, work, bundle) {
  const table = JSON.stringify(await compileAll(root, work, bundle));
  const query = `
    import { boundSql } from './bound-sql.ts';
    const table = ${table};
    export function queriesOf(file) {
      const queries = table[file];
      let made = 0;
      return () => () => {
        const text = queries[made++];
        let bound;
        return { compiled: () => (bound ??= boundSql(text)) };
      };
    }`;
  const plugin = numbered(root, () => query);
  return {
    name: 'compiled-queries',
    setup(build) {
      // Tagged texts are made when modules are loaded, and only builders use them.
      const kysely = { path: 'kysely', namespace: 'compiled-queries' };
      build.onResolve({ filter: /^kysely$/ }, () => kysely);
      build.onLoad({ filter: /^kysely$/, namespace: kysely.namespace }, () => ({
        contents: 'export const sql = () => undefined;',
      }));
      // Reading creates no catalog.
      build.onLoad({ filter: /[\\/]migrations[\\/]catalog\.ts$/ }, () => ({
        contents: 'export const CATALOG_SCHEMA = [];',
      }));
      plugin.setup(build);
    },
  };
}

/** Loads every module that makes queries, and returns the SQL of each by module and number. */
async function compileAll(root, work, bundle) {
  const folder = path.join(root, 'src', 'catalog');
  const files = readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.ts'))
    .filter((name) => IMPORT.test(readFileSync(path.join(folder, name), 'utf8')));
  const made = new Map();
  const collect = (contents) => `${contents}
    export function queriesOf(file) {
      const list = [];
      globalThis.mailkeepQueries.set(file, list);
      return () => (build) => {
        const one = query()(build);
        list.push(one);
        return one;
      };
    }`;
  const [output] = await bundle({
    stdin: {
      contents: files.map((name) => `import './${name.replaceAll('\\', '/')}';`).join('\n'),
      resolveDir: folder,
    },
    format: 'esm',
    plugins: [numbered(root, collect)],
  });
  const temporary = path.join(work, `queries.${process.pid}.tmp.mjs`);
  globalThis.mailkeepQueries = made;
  try {
    writeFileSync(temporary, output.contents);
    await import(pathToFileURL(temporary).href);
  } finally {
    rmSync(temporary, { force: true });
    delete globalThis.mailkeepQueries;
  }
  const textOf = (one) => {
    const { sql, slots, values } = one.compiled();
    return { sql, slots, values };
  };
  return Object.fromEntries([...made].map(([file, list]) => [file, list.map(textOf)]));
}

/**
 * A plugin by which each module of the catalog makes its queries with `queriesOf` its name.
 *
 * @param ofQuery returns the contents of query.ts, given those that it has
 */
function numbered(root, ofQuery) {
  return {
    name: 'numbered-queries',
    setup: ({ onLoad }) =>
      onLoad({ filter: CATALOG }, (file) => {
        const contents = readFileSync(file.path, 'utf8');
        const name = path.relative(root, file.path).replaceAll('\\', '/');
        if (name === 'src/catalog/query.ts') return { contents: ofQuery(contents), loader: 'ts' };
        const numbered = contents.replace(IMPORT, (whole, names, up) =>
          / query\b/.test(names)
            ? `import { queriesOf } from '${up}query.ts'; const query = queriesOf('${name}');`
            : whole,
        );
        return { contents: numbered, loader: 'ts' };
      }),
  };
}
