/** A folder of the archive that has messages to restore, or is restored empty. */
export interface SourceFolder {
  /** The mailbox's address. */
  readonly address: string;
  readonly path: string;
  /** Separates the levels of the path; empty where there are none. */
  readonly delimiter: string;
  readonly specialUse: string | null;
}

/** What the target server says about names. */
export interface NameRules {
  /** The hierarchy separator; empty on a server without levels. */
  readonly delimiter: string;
  /** Prefix of the personal namespace: `INBOX.` or empty. */
  readonly prefix: string;
  /** Characters that the server refuses in names, besides its delimiter. */
  readonly refused: string;
  /** Full paths of the server's folders by special use. */
  readonly specialUse: ReadonlyMap<string, string>;
}

/**
 * Where a restore puts folders: below a path of its own, or where they were. In place there is one mailbox, since the
 * folders of two cannot be told apart there.
 */
export type Layout =
  | { readonly kind: 'below'; readonly levels: readonly string[]; readonly byAddress: boolean }
  | { readonly kind: 'in-place' };

export interface TargetFolder {
  readonly source: SourceFolder;
  /** Full path on the server. */
  readonly path: string;
  /** A level has other characters than in the archive. */
  readonly replaced: boolean;
  /** A level got a number since another folder has its name. */
  readonly numbered: boolean;
}

interface Node {
  /** The name as the server could have it. */
  readonly wanted: string;
  readonly replaced: boolean;
  readonly children: Map<string, Node>;
  /** Undefined for a level that only parts others. */
  source: SourceFolder | undefined;
}

interface Place {
  /** Empty for the root. */
  readonly path: string;
  readonly replaced: boolean;
  readonly numbered: boolean;
}

/**
 * Returns where each folder goes, in the order given. Two folders of the archive never get one path, even where the
 * archive has two with one name. Below one parent, a name that the server accepts goes to the folder that has it, and not
 * to one whose name had to be changed.
 */
export function targetFolders(
  sources: readonly SourceFolder[],
  layout: Layout,
  rules: NameRules,
): TargetFolder[] {
  const special: ReadonlyMap<SourceFolder, string> =
    layout.kind === 'in-place' ? specialFolders(sources, rules) : new Map();
  const root = treeOf(sources, layout, rules);
  const taken = new Set([...special.values()].map((path) => pathKey(path, rules)));
  const found = new Map<SourceFolder, TargetFolder>();

  const place = (node: Node, parent: Place): void => {
    // Names that stay as they are come first, so that a changed one never takes the name of another folder.
    const ordered = [...node.children.values()].toSorted(
      (a, b) => Number(a.replaced) - Number(b.replaced),
    );
    for (const child of ordered) {
      const { source } = child;
      const known = source === undefined ? undefined : special.get(source);
      const here =
        known === undefined
          ? freePlace(child, parent, rules, taken)
          : { path: known, replaced: false, numbered: false };
      if (source !== undefined) found.set(source, { source, ...here });
      place(child, here);
    }
  };
  place(root, { path: '', replaced: false, numbered: false });
  return sources.flatMap((source) => found.get(source) ?? []);
}

/** The server's own folders for special uses: each for the first folder of the archive that has the use. */
function specialFolders(
  sources: readonly SourceFolder[],
  { specialUse }: NameRules,
): Map<SourceFolder, string> {
  const uses = new Set<string>();
  const paths = new Set<string>();
  const given = new Map<SourceFolder, string>();
  for (const source of sources) {
    const use = source.specialUse;
    const path = use === null ? undefined : specialUse.get(use);
    if (use === null || path === undefined || uses.has(use) || paths.has(path)) continue;
    uses.add(use);
    paths.add(path);
    given.set(source, path);
  }
  return given;
}

function treeOf(sources: readonly SourceFolder[], layout: Layout, rules: NameRules): Node {
  const root = newNode('', false);
  for (const source of sources) {
    const { address, path, delimiter } = source;
    const above =
      layout.kind === 'in-place' ? [] : [...layout.levels, ...(layout.byAddress ? [address] : [])];
    const levels = [...above, ...(delimiter === '' ? [path] : path.split(delimiter))];
    // IMAP ignores the case of INBOX alone, and only at the top.
    if (levels[0]?.toUpperCase() === 'INBOX') levels[0] = 'INBOX';
    const last = levels.pop() ?? '';
    const parent = levels.reduce((node, level) => childOf(node, level, level, rules), root);
    let key = last;
    while (parent.children.get(key)?.source !== undefined) key += '\0';
    childOf(parent, key, last, rules).source = source;
  }
  return root;
}

function newNode(wanted: string, replaced: boolean): Node {
  return { wanted, replaced, children: new Map(), source: undefined };
}

function childOf(parent: Node, key: string, level: string, rules: NameRules): Node {
  const known = parent.children.get(key);
  if (known !== undefined) return known;
  const wanted = acceptedLevel(level, rules);
  const child = newNode(wanted, wanted !== level);
  parent.children.set(key, child);
  return child;
}

/** One level of a path as the server accepts it: `_` for each character that cannot be there, and for no characters. */
export function acceptedLevel(
  level: string,
  { delimiter, refused }: Pick<NameRules, 'delimiter' | 'refused'>,
): string {
  let accepted = '';
  // A lone surrogate has no UTF-8, and two of them would become one name on the wire.
  for (const char of level.toWellFormed()) {
    const isRefused = char === delimiter || refused.includes(char) || /\p{Cc}/u.test(char);
    accepted += isRefused ? '_' : char;
  }
  return accepted === '' ? '_' : accepted;
}

/** The place of a folder below its parent, with ` (2)` or a higher number if its name is taken. */
function freePlace(node: Node, parent: Place, rules: NameRules, taken: Set<string>): Place {
  const isFlat = parent.path !== '' && rules.delimiter === '';
  const between = isFlat ? '_' : rules.delimiter;
  const fullPath = (name: string): string => {
    if (parent.path !== '') return `${parent.path}${between}${name}`;
    return name === 'INBOX' ? name : `${rules.prefix}${name}`;
  };
  let path = fullPath(node.wanted);
  let number = 1;
  while (taken.has(pathKey(path, rules))) {
    number += 1;
    path = fullPath(`${node.wanted} (${number})`);
  }
  taken.add(pathKey(path, rules));
  return {
    path,
    replaced: parent.replaced || node.replaced || isFlat,
    numbered: parent.numbered || number > 1,
  };
}

/** The same text for two paths that are one folder: IMAP ignores the case of INBOX alone. */
function pathKey(path: string, { delimiter }: NameRules): string {
  const end = delimiter === '' ? -1 : path.indexOf(delimiter);
  const first = end < 0 ? path : path.slice(0, end);
  return first.toUpperCase() === 'INBOX' ? `INBOX${path.slice(first.length)}` : path;
}
