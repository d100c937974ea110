/** Returns whether a name fits a pattern, in which `*` stands for any run of characters. Case matters, as in folder paths. */
export function matches(pattern: string, name: string): boolean {
  // Greedy, and linear in practice: patterns come from the user's own configuration or command line.
  const [first = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return pattern === name;
  if (!name.startsWith(first)) return false;
  const last = rest[rest.length - 1] ?? '';
  let from = first.length;
  for (const piece of rest.slice(0, -1)) {
    const at = name.indexOf(piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return name.length - last.length >= from && name.endsWith(last);
}

/** The names that a configuration selects, and a command line narrows: `*` matches any run of characters. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** The names that a command asks for; undefined for everything that the configuration selects. */
  readonly only?: readonly string[];
}

/**
 * Returns whether a pattern of `include` matches the name, none of `exclude` does and, if `only` is present, one of its
 * patterns does. Case matters, as in folder paths.
 */
export function selects({ include, exclude, only }: Selection, name: string): boolean {
  const fits = (pattern: string): boolean => matches(pattern, name);
  return include.some(fits) && !exclude.some(fits) && (only === undefined || only.some(fits));
}
