import type { Catalog } from '../catalog/catalog.ts';
import { matchingFolders } from '../catalog/folders.ts';
import type { ListedPlace } from '../catalog/list.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import { mergeWalks } from '../catalog/search-sql.ts';
import { DocidSet } from './export-manifest.ts';
import type { RestorePlan } from './plan-restore.ts';

interface EndedPlace {
  readonly docid: number;
  readonly address: string;
  readonly endedAt: string;
}

/**
 * Yields one place for each message and mailbox: its last one, if the message is not in that mailbox now. If several
 * places ended together, the first one is used.
 *
 * @param ended the places of a message must be adjacent
 * @param isCurrent whether the message is in this mailbox now
 */
export function* lastPlaces<Place extends EndedPlace>(
  ended: Iterable<Place>,
  isCurrent: (docid: number, address: string) => boolean,
): Generator<Place, void, undefined> {
  let docid: number | undefined;
  const last = new Map<string, Place>();
  for (const place of ended) {
    if (place.docid !== docid) {
      yield* last.values();
      last.clear();
      docid = place.docid;
    }
    if (isCurrent(place.docid, place.address)) continue;
    const entry = last.get(place.address);
    if (entry === undefined || place.endedAt > entry.endedAt) last.set(place.address, place);
  }
  yield* last.values();
}

export interface RestoreSelection {
  /** `text` is the user's input. */
  readonly query: {
    readonly text: string;
    readonly node: SearchNode;
    readonly accounts: ReadonlyMap<string, string>;
  } | null;
  /** Addresses or resource ids; empty for all mailboxes. */
  readonly mailboxes: readonly string[];
  /** Paths, patterns or special uses, like those of `list`; empty for all folders. */
  readonly folders: readonly string[];
  readonly asOf: number | null;
  readonly asOfText: string | null;
  /** Selects messages deleted from their mailbox, each in its last place there. Pending deletions are among them. */
  readonly deleted: boolean;
}

export type SelectableCatalog = Pick<
  Catalog,
  'snapshot' | 'reached' | 'commitAt' | 'listPlaces' | 'prepare' | 'folders'
>;

export function addSelection(
  catalog: SelectableCatalog,
  selection: RestoreSelection,
  plan: RestorePlan,
): void {
  const found = new DocidSet();
  try {
    catalog.snapshot(() => {
      const { query, deleted } = selection;
      if (query !== null) {
        const { text: _, ...asked } = query;
        found.add(catalog.prepare({ ...asked, ...toMoment(selection) }).docids());
      }
      // Empty folders are also restored.
      if (query === null && !deleted)
        for (const folder of existingFolders(catalog, selection)) plan.addFolder(folder);
      const places = deleted ? deletedPlaces(catalog, selection) : getPlaces(catalog, selection);
      for (const place of places) {
        if (query === null || (place.line.id !== null && found.has(place.docid))) plan.add(place);
      }
    });
  } finally {
    found.close();
  }
}

/** Returns the folders that existed at the selected time, in order of discovery. */
function existingFolders({ folders, commitAt }: SelectableCatalog, selection: RestoreSelection) {
  const { asOf } = selection;
  const commit = asOf === null ? undefined : (commitAt(asOf)?.number ?? 0);
  const spans = new Map(
    folders
      .spans()
      .filter(({ from, to }) => from <= (commit ?? 0) && (to === null || to > (commit ?? 0)))
      .map((span) => [span.folder, span]),
  );
  const entries = knownFolders(folders).flatMap((folder) => {
    if (commit === undefined) return folder.gone ? [] : [folder];
    const span = spans.get(folder.id);
    return span === undefined ? [] : [{ ...folder, path: span.path, specialUse: span.specialUse }];
  });
  return matchingFolders(entries, toFilter(selection)).toSorted((a, b) => a.id - b.id);
}

function knownFolders(folders: SelectableCatalog['folders']) {
  return folders.all({ gone: true }).map(({ folder: path, ...rest }) => ({ ...rest, path }));
}

function toFilter({ mailboxes: mailbox, folders: folder }: RestoreSelection) {
  return { mailbox, folder };
}

function getPlaces(catalog: SelectableCatalog, selection: RestoreSelection): Iterable<ListedPlace> {
  const filter = { ...toFilter(selection), ...toMoment(selection) };
  return catalog.listPlaces({ ...filter, sort: 'oldest' });
}

/** Yields the last place of each message deleted from its mailbox, if that place's folder is selected. */
function* deletedPlaces(
  catalog: SelectableCatalog,
  selection: RestoreSelection,
): Generator<ListedPlace, void, undefined> {
  const folders = knownFolders(catalog.folders);
  const ids = new Set(matchingFolders(folders, toFilter(selection)).map(({ id }) => id));
  const mailboxes = new Map(folders.map(({ id, host, mailbox }) => [id, `${host} ${mailbox}`]));
  const mailboxOf = ({ folder }: ListedPlace): string => mailboxes.get(folder.id) ?? '';
  const listing = { ...toMoment(selection), sort: 'oldest' } as const;
  // The mailbox does not have them now, even if the archive keeps their places open.
  const held = () =>
    selection.asOf === null ? catalog.listPlaces({ ...listing, held: true }) : [].values();
  const keyOf = ({ folder, generation, line }: ListedPlace): string =>
    `${folder.id} ${generation} ${line.uid}`;
  const heldKeys = new Set<string>();
  for (const place of held()) heldKeys.add(keyOf(place));
  const current = catalog.listPlaces(listing);
  const ended = function* () {
    const walks = [held(), catalog.listPlaces({ ...listing, deleted: true })];
    for (const place of mergeWalks(walks, ({ docid }) => docid, 'oldest')) {
      const { docid, line } = place;
      const endedAt = heldKeys.has(keyOf(place)) ? PENDING : (line.endedAt ?? '');
      yield { docid, address: mailboxOf(place), endedAt, place };
    }
  };
  const isThere = (place: ListedPlace): boolean => !heldKeys.has(keyOf(place));
  try {
    for (const { place } of lastPlaces(ended(), mailboxLookup(current, mailboxOf, isThere)))
      if (ids.has(place.folder.id)) yield place;
  } finally {
    current.return?.();
  }
}

/** Sorts after every time in ISO 8601. */
const PENDING = '~';

/** Returns a function that reports whether a message is in a mailbox. Docids must not decrease between calls. */
function mailboxLookup(
  current: Iterator<ListedPlace>,
  mailboxOf: (place: ListedPlace) => string,
  isThere: (place: ListedPlace) => boolean,
): (docid: number, mailbox: string) => boolean {
  let next = current.next();
  let at: number | undefined;
  const mailboxes = new Set<string>();
  return (docid, mailbox) => {
    if (docid !== at) mailboxes.clear();
    at = docid;
    for (; next.done !== true && next.value.docid <= docid; next = current.next())
      if (next.value.docid === docid && isThere(next.value)) mailboxes.add(mailboxOf(next.value));
    return mailboxes.has(mailbox);
  };
}

function toMoment({ asOf }: RestoreSelection) {
  return asOf === null ? {} : { asOf };
}

export interface SourceFolder {
  readonly address: string;
  readonly path: string;
  /** Empty if the mailbox has no hierarchy. */
  readonly delimiter: string;
  readonly specialUse: string | null;
}

export interface NameRules {
  /** Empty if the server has no hierarchy. */
  readonly delimiter: string;
  /** Prefix of the personal namespace: `INBOX.` or empty. */
  readonly prefix: string;
  /** Characters that the server refuses in names, in addition to its delimiter. */
  readonly refused: string;
  readonly specialUse: ReadonlyMap<string, string>;
}

/** Destination of restored folders: under a new path or, for a single mailbox, their original paths. */
export type Layout =
  | { readonly kind: 'below'; readonly levels: readonly string[]; readonly byAddress: boolean }
  | { readonly kind: 'in-place' };

interface Place {
  readonly path: string;
  readonly replaced: boolean;
  /** True if a number was added because another folder already has the name. */
  readonly numbered: boolean;
}

export interface TargetFolder extends Place {
  readonly source: SourceFolder;
}

/**
 * Assigns each folder a unique path on the server, even if names are identical. Valid names take priority over changed
 * ones. Preserves the order.
 */
export function targetFolders(
  sources: readonly SourceFolder[],
  layout: Layout,
  rules: NameRules,
): TargetFolder[] {
  const special: ReadonlyMap<SourceFolder, string> =
    layout.kind === 'in-place' ? specialFolders(sources, rules) : new Map();
  const taken = new Set([...special.values()].map((path) => pathKey(path, rules)));
  const found = new Map<SourceFolder, TargetFolder>();
  const items = sources.map((source) => ({ source, levels: levelsOf(source, layout) }));

  const place = (inside: typeof items, depth: number, parent: Place): void => {
    const isHere = ({ levels }: (typeof items)[number]): boolean => levels.length === depth + 1;
    const groups = new Map<string, typeof items>();
    for (const item of inside) {
      let key = item.levels[depth] ?? '';
      // Folders with the same path each get a separate place.
      while (isHere(item) && groups.get(key)?.some(isHere) === true) key += '\0';
      groups.set(key, groups.get(key) ?? []);
      groups.get(key)?.push(item);
    }
    const nodes = [...groups.values()].map((below) => {
      const level = below[0]?.levels[depth] ?? '';
      const wanted = acceptableName(level, rules);
      return { below, wanted, replaced: wanted !== level };
    });
    // Place unchanged names first, so that a changed name never takes another folder's.
    for (const node of nodes.toSorted((a, b) => Number(a.replaced) - Number(b.replaced))) {
      const source = node.below.find(isHere)?.source;
      const path = source === undefined ? undefined : special.get(source);
      const here =
        path === undefined
          ? freePlace(node, parent, rules, taken)
          : { path, replaced: false, numbered: false };
      if (source !== undefined) found.set(source, { source, ...here });
      const children = node.below.filter((item) => !isHere(item));
      if (children.length > 0) place(children, depth + 1, here);
    }
  };
  place(items, 0, { path: '', replaced: false, numbered: false });
  return sources.flatMap((source) => found.get(source) ?? []);
}

function levelsOf({ address, path, delimiter }: SourceFolder, layout: Layout): string[] {
  const above =
    layout.kind === 'in-place' ? [] : [...layout.levels, ...(layout.byAddress ? [address] : [])];
  const levels = [...above, ...(delimiter === '' ? [path] : path.split(delimiter))];
  // IMAP ignores case only in INBOX, and only at the top level.
  if (levels[0]?.toUpperCase() === 'INBOX') levels[0] = 'INBOX';
  return levels;
}

/** Assigns the server's special-use folders. If several folders have the same use, the first one gets it. */
function specialFolders(
  sources: readonly SourceFolder[],
  { specialUse }: NameRules,
): Map<SourceFolder, string> {
  const uses = new Set<string>();
  const paths = new Set<string>();
  const result = new Map<SourceFolder, string>();
  for (const source of sources) {
    const use = source.specialUse;
    const path = use === null ? undefined : specialUse.get(use);
    if (use === null || path === undefined || uses.has(use) || paths.has(path)) continue;
    uses.add(use);
    paths.add(path);
    result.set(source, path);
  }
  return result;
}

export function acceptableName(
  level: string,
  { delimiter, refused }: Pick<NameRules, 'delimiter' | 'refused'>,
): string {
  let result = '';
  // A lone surrogate has no UTF-8 form, so two such names would become identical.
  for (const char of level.toWellFormed()) {
    const isRefused = char === delimiter || refused.includes(char) || /\p{Cc}/u.test(char);
    result += isRefused ? '_' : char;
  }
  return result === '' ? '_' : result;
}

/** Appends ` (2)` or a higher number if the name is taken. */
function freePlace(
  node: { readonly wanted: string; readonly replaced: boolean },
  parent: Place,
  rules: NameRules,
  taken: Set<string>,
): Place {
  const isFlat = parent.path !== '' && rules.delimiter === '';
  const separator = isFlat ? '_' : rules.delimiter;
  const toPath = (name: string): string => {
    if (parent.path !== '') return `${parent.path}${separator}${name}`;
    return name === 'INBOX' ? name : `${rules.prefix}${name}`;
  };
  let path = toPath(node.wanted);
  let number = 1;
  while (taken.has(pathKey(path, rules))) {
    number += 1;
    path = toPath(`${node.wanted} (${number})`);
  }
  taken.add(pathKey(path, rules));
  return {
    path,
    replaced: parent.replaced || node.replaced || isFlat,
    numbered: parent.numbered || number > 1,
  };
}

/** Returns the same key for all paths that IMAP treats as one folder. Only INBOX ignores case. */
function pathKey(path: string, { delimiter }: NameRules): string {
  const end = delimiter === '' ? -1 : path.indexOf(delimiter);
  const first = end < 0 ? path : path.slice(0, end);
  return first.toUpperCase() === 'INBOX' ? `INBOX${path.slice(first.length)}` : path;
}
