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
