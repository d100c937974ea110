/** Which names a configuration or a command line selects: `*` stands for any run of characters. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** True when some pattern of `include` matches the name and none of `exclude` does. Case matters, as in folder paths. */
export function selects(selection: Selection, name: string): boolean {
  return (
    selection.include.some((pattern) => matches(pattern, name)) &&
    !selection.exclude.some((pattern) => matches(pattern, name))
  );
}

/** Greedy match of `*` patterns, linear in practice: patterns come from the user's own configuration. */
export function matches(pattern: string, name: string): boolean {
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
