import type { CatalogTables } from './database.ts';
import type { Query, Row } from './query.ts';

/** SQL with parameters bound by name. */
export interface BoundSql<P> {
  readonly sql: string;
  /** The name of each parameter's value, or null for one in `values`. */
  readonly slots: readonly (string | null)[];
  /** Known parameters. */
  readonly values: readonly unknown[];
  readonly bind: (values: P) => unknown[];
}

export function boundSql<P extends object>({
  sql,
  slots,
  values,
}: Omit<BoundSql<P>, 'bind'>): BoundSql<P> {
  return {
    sql,
    slots,
    values,
    bind(given) {
      // Plain field access: Reflect.get is slow here, and the fold binds millions of values.
      const named = given as Readonly<Record<string, unknown>>;
      const args = values.slice();
      for (let i = 0; i < slots.length; i += 1) {
        const name = slots[i];
        if (name !== null && name !== undefined) args[i] = named[name];
      }
      return args;
    },
  };
}

/** Returns the parameters `names`, for `values` and `set` with columns of the same names. */
export function named<P, N extends keyof P>(params: P, ...names: readonly N[]): Pick<P, N> {
  return Object.fromEntries(names.map((name) => [name, params[name]])) as Pick<P, N>;
}

type Table = keyof CatalogTables;
type Names<L extends string> = L extends `${infer First}, ${infer Rest}` ? First | Names<Rest> : L;
type Parameter<N extends string> = N extends `${string} = ${string}`
  ? never
  : N extends `+${infer Name}`
    ? Name
    : N;
/** A list of columns such as `'id, uid'`; a long one may be in several parts. */
type Columns<T extends Table, L extends string> =
  Parameter<Names<L>> extends keyof Row<T> ? L | readonly L[] : never;
type Values<T extends Table, L extends string> = Pick<Row<T>, Parameter<Names<L>> & keyof Row<T>>;
type List = string | readonly string[];

/*
 * Queries on one table whose parameters are columns: each parameter has its column's name and type. `keys` select rows
 * by equality. `rest` is SQL without parameters: further conditions (`AND …`), order, limit. A list of changes may also
 * have `+column`, which adds the parameter, and `column = expression`. Unlike `query`, these need no builder.
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

/** Inserts a row, or changes the one with its keys. */
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

/** Returns a query in SQL with parameters such as `:docid`. The caller declares its rows. */
export function sqlQuery<P extends object, R>(sql: string): Query<P, R> {
  const names = [...sql.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  return lazy(() => sql.replaceAll(/:\w+/g, PLACE), names);
}

/** See `Compiler` in `query.ts` for the plus. */
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

function assignments(changes: List, given: (name: string) => string): string[] {
  return partsOf(changes).map((part) => {
    const [name] = namesIn(part);
    if (name === undefined) return part;
    return `"${name}" = ${part === name ? '' : `"${name}" + `}${given(name)}`;
  });
}

function where(keys: List): string {
  return `WHERE ${
    namesIn(keys)
      .map((name) => `"${name}" = ${PLACE}`)
      .join(' AND ') || '1'
  }`;
}

/** Makes the SQL on first use. */
function lazy<P extends object, R>(sql: () => string, parameters: List): Query<P, R> {
  let bound: BoundSql<P> | undefined;
  return {
    compiled() {
      const slots = namesIn(parameters);
      bound ??= boundSql({ sql: sql(), slots, values: slots.map(() => null) });
      return bound;
    },
  };
}
