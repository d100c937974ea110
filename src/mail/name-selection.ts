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

/** RFC 6154 attributes in lower case, by the names people use for such folders. */
const SPECIAL_USES: Readonly<Record<string, string>> = {
  sent: '\\sent',
  drafts: '\\drafts',
  draft: '\\drafts',
  trash: '\\trash',
  bin: '\\trash',
  spam: '\\junk',
  junk: '\\junk',
  archive: '\\archive',
  flagged: '\\flagged',
};

/** Returns the special use that a word such as `sent` stands for, in lower case; undefined for any other word. */
export function specialUseCalled(word: string): string | undefined {
  const name = word.toLowerCase();
  return Object.hasOwn(SPECIAL_USES, name) ? SPECIAL_USES[name] : undefined;
}

/**
 * Returns the folders of one mailbox that a name of the command line means: the folder with that path (`INBOX` in any
 * case, as in IMAP); else those that fit it as a pattern with `*`; else those with the special use that it names.
 */
export function foldersMeant<
  F extends { readonly path: string; readonly specialUse: string | null },
>(name: string, folders: readonly F[]): readonly F[] {
  const exact = folders.filter(({ path }) => path === name || (isInbox(name) && isInbox(path)));
  if (exact.length > 0) return exact;
  if (name.includes('*')) return folders.filter(({ path }) => matches(name, path));
  const use = specialUseCalled(name);
  return use === undefined
    ? []
    : folders.filter(({ specialUse }) => specialUse?.toLowerCase() === use);
}

/** Returns whether a path is that of the inbox, whose case does not matter. */
export function isInbox(path: string): boolean {
  return path.toUpperCase() === 'INBOX';
}
