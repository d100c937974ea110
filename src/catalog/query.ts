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
 * Writes parameters as `+?`, which is equivalent. If SQLite's planner can use a parameter's value, as in every join by
 * `docid = ?`, it prepares the statement again for each value, at 15 µs. The plus hides it. The catalog has no
 * statistics (sqlite_stat4) that would make the plan depend on values.
 */
class Compiler extends SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }
}

/** Only builds SQL: better-sqlite3 runs the statements, compiled once. */
const builder = new Kysely<CatalogTables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new Compiler(),
  },
});

export type Builder = typeof builder;

/** Placeholder for a value supplied at run time. */
class Slot {
  constructor(readonly name: string) {}
}

/** A catalog query with named parameters `P` and rows `R`, inferred from the tables. Compiled on first use. */
export interface Query<P, R> {
  compiled(): BoundSql<P>;
  /** Never set: carries the row type. */
  readonly row?: R;
}

/**
 * Defines a query once per process: `query<{ folder: number }>()((db, p) => db.selectFrom(…).where('id', '=',
 * p.folder))`. A parameter can only be a value, not a table, column or list. Queries are created on module load, in a
 * fixed order: the build compiles those of the reading script (src/bootstrap/queries.mjs).
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

export type ParametersOf<Q> = Q extends Query<infer P, unknown> ? P : never;
export type ResultOf<Q> = Q extends Query<never, infer R> ? R : never;

/** A table row as read; parameters of a query may be picked from it. */
export type Row<T extends keyof CatalogTables> = Selectable<CatalogTables[T]>;

function compile<P extends object, R>(
  build: (db: Builder, params: P) => Compilable<R>,
): BoundSql<P> {
  // The proxy claims the parameters' types, so that kysely checks them against the columns.
  const slots = new Proxy({}, { get: (_, name) => new Slot(String(name)) }) as P;
  const { sql, parameters } = build(builder, slots).compile();
  return boundSql({
    sql,
    slots: parameters.map((parameter) => (parameter instanceof Slot ? parameter.name : null)),
    values: parameters.map((parameter) => (parameter instanceof Slot ? null : parameter)),
  });
}
