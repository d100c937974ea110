import {
  type Compilable,
  DummyDriver,
  Kysely,
  type Selectable,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { CatalogTables } from './tables.ts';

/**
 * Writes parameters as `+?`, which means the same. Where SQLite's planner may look at a parameter's value, as in every join
 * by `docid = ?`, it prepares the statement again for each new value, at 15 µs; behind a plus it cannot see one. The
 * catalog has no statistics (sqlite_stat4) that would make another plan of a value.
 */
class Compiler extends SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }
}

/** Builds SQL and never runs it: statements run as prepared ones of better-sqlite3, compiled once. */
const builder = new Kysely<CatalogTables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new Compiler(),
  },
});

export type Builder = typeof builder;

/** Stands in a query for a value that comes when it runs. */
class Slot {
  constructor(readonly name: string) {}
}

/** SQL with its parameters: a function from named values to positional ones. */
export interface CompiledSql<P> {
  readonly sql: string;
  readonly bind: (values: P) => unknown[];
}

/** A query of the catalog: parameters `P` by name, rows `R` as inferred from the tables. Compiled on first use. */
export interface Query<P, R> {
  compiled(): CompiledSql<P>;
  /** Never set: carries the row type. */
  readonly row?: R;
}

/**
 * Defines a query once for the process: `query<{ folder: number }>()((db, p) => db.selectFrom(…).where('id', '=', p.folder))`.
 * A parameter may be used as a value only, not as a table, a column or a list.
 */
export function query<P extends object = Record<never, never>>() {
  return <R>(build: (db: Builder, params: P) => Compilable<R>): Query<P, R> => {
    let compiled: CompiledSql<P> | undefined;
    return {
      compiled() {
        compiled ??= compile(build);
        return compiled;
      },
    };
  };
}

/** A row of a table as it is read, from which the parameters of a query may be picked. */
export type Row<T extends keyof CatalogTables> = Selectable<CatalogTables[T]>;

/** Returns parameters under their own names, for `values` and `set` where they are named like their columns. */
export function named<P, N extends keyof P>(params: P, ...names: readonly N[]): Pick<P, N> {
  // The names are those of the fields.
  return Object.fromEntries(names.map((name) => [name, params[name]])) as Pick<P, N>;
}

function compile<P extends object, R>(
  build: (db: Builder, params: P) => Compilable<R>,
): CompiledSql<P> {
  // The proxy is our own: it claims the parameters' types so that kysely checks them against the columns.
  const slots = new Proxy({}, { get: (_, name) => new Slot(String(name)) }) as P;
  const { sql, parameters } = build(builder, slots).compile();
  const read = parameters.map((parameter) => (parameter instanceof Slot ? parameter.name : null));
  return {
    sql,
    bind(values) {
      // Read as fields: Reflect.get leaves compiled code each time, and the fold binds some million values.
      const named = values as Readonly<Record<string, unknown>>;
      const args = parameters.slice();
      for (let i = 0; i < read.length; i += 1) {
        const name = read[i];
        if (name !== null && name !== undefined) args[i] = named[name];
      }
      return args;
    },
  };
}
