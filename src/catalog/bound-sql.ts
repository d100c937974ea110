/** SQL with its parameters: a function from named values to positional ones. */
export interface BoundSql<P> {
  readonly sql: string;
  /** For each parameter the name of its value, or null where it is one of `values`. */
  readonly slots: readonly (string | null)[];
  /** The parameters that are known. */
  readonly values: readonly unknown[];
  readonly bind: (values: P) => unknown[];
}

/** Returns SQL that binds the values of its slots by their names. */
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
      // Read as fields: Reflect.get leaves compiled code each time, and the fold binds some million values.
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

/** Returns parameters under their own names, for `values` and `set` where they are named like their columns. */
export function named<P, N extends keyof P>(params: P, ...names: readonly N[]): Pick<P, N> {
  // The names are those of the fields.
  return Object.fromEntries(names.map((name) => [name, params[name]])) as Pick<P, N>;
}
