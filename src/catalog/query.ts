import type { CatalogTables } from './database.ts';

type Table = keyof CatalogTables;
export type Row<T extends Table> = CatalogTables[T];

/** A statement with parameters `P` and rows `R`. */
export interface Query<P, R> {
  /** Builds the SQL on first use. `bind` returns the values of its parameters in order. */
  compiled(): { readonly sql: string; readonly bind: (values: P) => unknown[] };
  /** Never set; carries the row type. */
  readonly row?: R;
}

export type ParametersOf<Q> = Q extends Query<infer P, unknown> ? P : never;
export type ResultOf<Q> = Q extends Query<never, infer R> ? R : never;

type Names<L extends string> = L extends `${infer First}, ${infer Rest}` ? First | Names<Rest> : L;
type Parameter<N extends string> = N extends `${string} = ${string}`
  ? never
  : N extends `+${infer Name}`
    ? Name
    : N;
/** A list of columns such as `'id, uid'`. Long lists may be split into several parts. */
type Columns<T extends Table, L extends string> =
  Parameter<Names<L>> extends keyof Row<T> ? L | readonly L[] : never;
type Values<T extends Table, L extends string> = Pick<Row<T>, Parameter<Names<L>> & keyof Row<T>>;
type List = string | readonly string[];

/*
 * Queries on one table whose parameters are columns: each parameter has its column's name and type. `keys` select rows
 * by equality. `rest` is SQL without parameters: further conditions (`AND …`), order, limit. A list of changes may also
 * have `+column`, which adds the parameter, and `column = expression`.
 */

export function selectBy<T extends Table, L extends string, K extends string>(
  table: T,
  columns: Columns<T, L>,
  keys: Columns<T, K> | '',
  rest = '',
): Query<Values<T, K>, Values<T, L>> {
  return lazy(() => `SELECT ${quoted(columns)} FROM ${table} ${where(keys)} ${rest}`, keys);
}

export function countBy<T extends Table, K extends string>(
  table: T,
  keys: Columns<T, K> | '',
  rest = '',
): Query<Values<T, K>, { readonly n: number }> {
  return lazy(() => `SELECT count(*) AS n FROM ${table} ${where(keys)} ${rest}`, keys);
}

export function insertInto<T extends Table, L extends string>(
  table: T,
  columns: Columns<T, L>,
  rest = '',
): Query<Values<T, L>, never> {
  const values = () => namesIn(columns).map(() => PLACE);
  return lazy(
    () => `INSERT INTO ${table} (${quoted(columns)}) VALUES (${values()}) ${rest}`,
    columns,
  );
}

export function upsert<T extends Table, K extends string, L extends string>(
  table: T,
  keys: Columns<T, K>,
  changes: Columns<T, L>,
): Query<Values<T, K | L>, never> {
  const all = [...namesIn(keys), ...namesIn(changes)];
  const set = () => assignments(changes, (name) => `excluded."${name}"`);
  return lazy(
    () => `INSERT INTO ${table} (${quoted(all)}) VALUES (${all.map(() => PLACE)})
     ON CONFLICT (${quoted(keys)}) DO UPDATE SET ${set()}`,
    all,
  );
}

export function updateBy<T extends Table, L extends string, K extends string>(
  table: T,
  changes: Columns<T, L>,
  keys: Columns<T, K> | '',
  rest = '',
): Query<Values<T, L | K>, never> {
  const set = () => assignments(changes, () => PLACE);
  const all = [...namesIn(changes), ...namesIn(keys)];
  return lazy(() => `UPDATE ${table} SET ${set()} ${where(keys)} ${rest}`, all);
}

export function deleteBy<T extends Table, K extends string>(
  table: T,
  keys: Columns<T, K>,
  rest = '',
): Query<Values<T, K>, never> {
  return lazy(() => `DELETE FROM ${table} ${where(keys)} ${rest}`, keys);
}

/** Returns a query in SQL with parameters such as `:docid`. The caller declares the row type. */
export function sqlQuery<P extends object, R>(sql: string): Query<P, R> {
  const names = [...sql.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  return lazy(() => sql.replaceAll(/:\w+/g, PLACE), names);
}

/**
 * The plus does not change the value but hides it from SQLite's planner. Otherwise, SQLite would prepare a join by
 * `docid = ?` again for each value (15 µs). The catalog has no statistics (sqlite_stat4) that would make the plan
 * depend on values.
 */
const PLACE = '+?';

function partsOf(list: List): string[] {
  return [list].flat().flatMap((part) => (part === '' ? [] : part.split(', ')));
}

function namesIn(list: List): string[] {
  return partsOf(list).flatMap((part) => (part.includes('=') ? [] : part.replace(/^\+/, '')));
}

function quoted(list: List): string {
  return namesIn(list)
    .map((name) => `"${name}"`)
    .join(', ');
}

function assignments(changes: List, placeholder: (name: string) => string): string[] {
  return partsOf(changes).map((part) => {
    const [name] = namesIn(part);
    if (name === undefined) return part;
    return `"${name}" = ${part === name ? '' : `"${name}" + `}${placeholder(name)}`;
  });
}

function where(keys: List): string {
  return `WHERE ${
    namesIn(keys)
      .map((name) => `"${name}" = ${PLACE}`)
      .join(' AND ') || '1'
  }`;
}

function lazy<P extends object, R>(sql: () => string, parameters: List): Query<P, R> {
  let compiled: ReturnType<Query<P, R>['compiled']> | undefined;
  return {
    compiled() {
      compiled ??= { sql: sql(), bind: binder(namesIn(parameters)) };
      return compiled;
    },
  };
}

function binder(names: readonly string[]) {
  return (row: object): unknown[] => {
    // Plain field access, because Reflect.get is slow and the fold binds millions of values.
    const values = row as Readonly<Record<string, unknown>>;
    const bound: unknown[] = [];
    for (const name of names) bound.push(values[name]);
    return bound;
  };
}
