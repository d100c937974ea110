/** Values are parsed without the schema library, which would double the startup time of read-only commands. */

/** Returns the value in its shape, or undefined: another version or a damaged disk may have left something else. */
export type Read<T> = (value: unknown) => T | undefined;

/** Parses a stored text. Returns undefined if another program wrote it or its page is damaged. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

export const number: Read<number> = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
export const integer: Read<number> = (value) =>
  Number.isSafeInteger(value) ? number(value) : undefined;
export const count: Read<number> = (value) => {
  const found = integer(value);
  return found !== undefined && found >= 0 ? found : undefined;
};
export const text: Read<string> = (value) => (typeof value === 'string' ? value : undefined);
export const flag: Read<boolean> = (value) => (typeof value === 'boolean' ? value : undefined);
export const mark: Read<true> = (value) => (value === true ? true : undefined);

export function nullable<T>(read: Read<T>): Read<T | null> {
  return (value) => (value === null ? null : read(value));
}

export function withDefault<T, D>(read: Read<T>, instead: D): Read<T | D> {
  return (value) => read(value) ?? instead;
}

export function oneOf<const T extends string>(texts: readonly T[]): Read<T> {
  return (value) => texts.find((known) => known === value);
}

/** Reads a list and drops malformed items. */
export function list<T>(item: Read<T>): Read<readonly T[]> {
  return (value) =>
    Array.isArray(value) ? value.map(item).filter((found) => found !== undefined) : undefined;
}

/** Reads a list. Returns undefined unless every item has the right shape. */
export function strictList<T>(item: Read<T>): Read<readonly T[]> {
  return (value) => {
    const found = list(item)(value);
    return Array.isArray(value) && found?.length === value.length ? found : undefined;
  };
}

/** Reads an object with arbitrary field names and drops malformed values. */
export function record<T>(item: Read<T>): Read<Record<string, T>> {
  return (value) => {
    if (typeof value !== 'object' || value === null) return undefined;
    const read = Object.entries(value).map(([name, field]) => [name, item(field)] as const);
    return Object.fromEntries(
      read.flatMap(([name, field]) => (field === undefined ? [] : [[name, field]])),
    );
  };
}

type Fields = Readonly<Record<string, Read<unknown>>>;
type Shaped<F extends Fields> = {
  readonly [Name in keyof F]: Exclude<ReturnType<F[Name]>, undefined>;
};

export type ReadValue<R extends Read<unknown>> = Exclude<ReturnType<R>, undefined>;

/** Reads an object that has all of these fields, and drops any other fields. */
export function fields<F extends Fields>(shape: F): Read<Shaped<F>>;
export function fields(shape: Fields): Read<object> {
  return (value) => {
    if (typeof value !== 'object' || value === null) return undefined;
    const found: Record<string, unknown> = {};
    for (const [name, read] of Object.entries(shape)) {
      const field = read(Reflect.get(value, name));
      if (field === undefined) return undefined;
      found[name] = field;
    }
    return found;
  };
}
