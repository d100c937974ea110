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
