import {
  type Compilable,
  DummyDriver,
  Kysely,
  type Selectable,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { type BoundSql, boundSql } from './bound-sql.ts';
import type { CatalogTables } from './database.ts';

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

/** A query of the catalog: parameters `P` by name, rows `R` as inferred from the tables. Compiled on first use. */
export interface Query<P, R> {
  compiled(): BoundSql<P>;
  /** Never set: carries the row type. */
  readonly row?: R;
}

/**
 * Defines a query once for the process: `query<{ folder: number }>()((db, p) => db.selectFrom(…).where('id', '=', p.folder))`.
 * A parameter may be used as a value only, not as a table, a column or a list. Queries are made when their module is
 * loaded, each time in the same order: the build compiles those of the reading script (src/bootstrap/queries.mjs).
 */
export function query<P extends object = Record<never, never>>() {
  return <R>(build: (db: Builder, params: P) => Compilable<R>): Query<P, R> => {
    let compiled: BoundSql<P> | undefined;
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

function compile<P extends object, R>(
  build: (db: Builder, params: P) => Compilable<R>,
): BoundSql<P> {
  // The proxy is our own: it claims the parameters' types so that kysely checks them against the columns.
  const slots = new Proxy({}, { get: (_, name) => new Slot(String(name)) }) as P;
  const { sql, parameters } = build(builder, slots).compile();
  return boundSql({
    sql,
    slots: parameters.map((parameter) => (parameter instanceof Slot ? parameter.name : null)),
    values: parameters.map((parameter) => (parameter instanceof Slot ? null : parameter)),
  });
}
