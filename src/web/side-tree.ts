import type { FolderName, KnownFolder } from '../catalog/folders.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { ParseContext } from '../catalog/query-ast.ts';
import type { CountRequest } from '../catalog/search.ts';
import { folderKey, mailboxKey } from '../core/state.ts';
import { savedTerm } from '../core/text.ts';
import { isImported } from '../mail/identity.ts';
import { deadline } from './mail-list.ts';
import { addTerm, filterText } from './query-text.ts';
import { type ServedReader, searchesFor, VersionCache } from './served-archive.ts';
import { plainRequest } from './understood-query.ts';

/**
 * Returns display names by path, with slashes and without the `INBOX` that some servers prepend to all folders. Folders
 * whose names would clash keep their paths.
 */
export function folderLabels(
  folders: Iterable<Pick<FolderName, 'path' | 'delimiter'>>,
): ReadonlyMap<string, string> {
  const labels = new Map<string, string>();
  const paths = new Map<string, Set<string>>();
  for (const folder of folders) {
    const label = labelOf(folder);
    labels.set(folder.path, label);
    const same = paths.get(label) ?? new Set();
    paths.set(label, same.add(folder.path));
  }
  for (const same of paths.values())
    if (same.size > 1) for (const path of same) labels.set(path, path);
  return labels;
}

function labelOf({ path, delimiter }: Pick<FolderName, 'path' | 'delimiter'>): string {
  if (delimiter === '') return path;
  const parts = path.split(delimiter);
  // An empty part would leave nothing between two slashes.
  if (parts.length === 1 || parts.includes('')) return path;
  return (parts[0]?.toUpperCase() === 'INBOX' ? parts.slice(1) : parts).join(' / ');
}

export type FolderTag = 'imported' | 'unwatched' | 'incomplete';

export type FolderTree = ReturnType<FolderTrees['of']>;
export type FolderTreeEntry = FolderTree['all'];
export type MailboxTree = FolderTree['mailboxes'][number];
export type EarlierFolder = MailboxTree['earlier'][number];

interface Entry {
  readonly path: string | null;
  readonly specialUse: string | null;
  readonly tag: FolderTag | null;
}

/** Time limit for all counts in a tree, in milliseconds. The rest is omitted, and counted for the next page. */
const COUNTING_MS = 300;

const MAX_COUNTS = 20_000;

interface FolderThen extends Pick<KnownFolder, 'specialUse'> {
  readonly path: string;
  readonly isGone: boolean;
  readonly from: number;
  readonly to: number;
}

export class FolderTrees {
  readonly #counts = new VersionCache<string, number>(MAX_COUNTS);

  /** @param asOfText `asof:…` or empty @param tags current tags, by `folderKey` and `mailboxKey` */
  of(
    reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
    asOfText: string,
    context: ParseContext,
    tags: ReadonlyMap<string, FolderTag>,
  ) {
    const { catalog } = reader;
    const mayContinue = deadline(COUNTING_MS);
    const counting = { catalog, version: catalog.version(), mayContinue };
    const asOf = asOfText === '' ? null : (plainRequest(asOfText, context)?.asOf ?? null);
    const entry = (
      name: string,
      filter: string,
      { path = null, specialUse = null, tag = null }: Partial<Entry> = {},
    ) => {
      const query = `${filter} ${asOfText}`.trim();
      const request = plainRequest(query, context);
      const count = request && this.#count(counting, query, request);
      /** Null if all messages are read, or unread ones were not counted. */
      const unread = null as { readonly count: number; readonly query: string } | null;
      // If the path is too long for a query, there is none, and the entry is not a link.
      return { name, path, query: request && query, specialUse, tag, count, unread };
    };
    const tagOf = (key: string) => (asOf === null ? (tags.get(key) ?? null) : null);
    return catalog.snapshot(() => {
      const mailboxes = catalog.folders.mailboxes();
      const known = Map.groupBy(catalog.folders.all({ gone: true }), mailboxKey);
      const then = foldersThen(catalog, asOf);
      const tree = {
        all: entry('All mail', ''),
        ended: entry('Deleted at the service', 'is:deleted'),
        saved: searchesFor(reader).map(({ name }) => ({
          name,
          query: `${savedTerm(name)} ${asOfText}`.trim(),
        })),
        mailboxes: mailboxes.flatMap((mailbox) => {
          const mailboxTerm = filterText('mailbox', mailbox.address);
          // Two hosts may have mailboxes with the same address; the count must match the link's results.
          const prefix = mailboxes.length === 1 ? '' : `${mailboxTerm} `;
          const ofBox = known.get(mailboxKey(mailbox)) ?? [];
          const folders = ofBox.flatMap(({ id, delimiter }) => {
            const folder = then.get(id);
            return folder === undefined ? [] : [{ ...folder, delimiter }];
          });
          if (asOf !== null && folders.length === 0) return [];
          const imported = isImported(mailbox);
          const labels = folderLabels(folders);
          const treeEntry = ({ path, specialUse }: FolderThen) => {
            const tag = tagOf(folderKey({ ...mailbox, folder: path }));
            const filter = `${prefix}${filterText('in', path)}`;
            return entry(labels.get(path) ?? path, filter, { path, specialUse, tag });
          };
          const live = folders.filter(({ isGone }) => !isGone);
          const paths = new Set(live.map(({ path }) => path));
          const former = folders.filter(({ isGone, path }) => isGone && !paths.has(path));
          const tag = imported ? 'imported' : tagOf(mailboxKey(mailbox));
          return [
            {
              ...entry(mailbox.address, mailboxTerm, { tag }),
              imported,
              folders: live.sort(byUse).map(treeEntry),
              // Several folders may have had the same path, one after the other.
              earlier: [...Map.groupBy(former, ({ path }) => path).values()].flatMap((group) => {
                const [first] = group;
                if (first === undefined) return [];
                const from = Math.min(...group.map((one) => one.from));
                const to = Math.max(...group.map((one) => one.to));
                // When the folder was first and last known to exist, in milliseconds since the epoch.
                return [{ ...treeEntry(first), from, to }];
              }),
            },
          ];
        }),
      };
      // Unread counts come last, as they matter least. There are no totals for single mailboxes or for the past.
      const isQuick = asOf === null && reader.mailboxes === null;
      if (isQuick && !catalog.sumUnread(mayContinue)) return tree;
      const addUnread = <T extends ReturnType<typeof entry>>(one: T): T => {
        if (one.count === 0 || one.query === null) return one;
        const query = addTerm(one.query, 'is:unread');
        const request = plainRequest(query, context);
        const count = request && this.#count(counting, query, request);
        return count === null || count === 0 ? one : { ...one, unread: { count, query } };
      };
      return {
        ...tree,
        mailboxes: tree.mailboxes.map((mailbox) => ({
          ...addUnread(mailbox),
          folders: mailbox.folders.map(addUnread),
        })),
      };
    });
  }

  known({ catalog }: Pick<Reader, 'catalog'>, query: string): number | null {
    return this.#counts.find(catalog.version(), keyOf(query, undefined)) ?? null;
  }

  #count(
    counting: { catalog: Reader['catalog']; version: number; mayContinue: () => boolean },
    query: string,
    request: CountRequest,
  ): number | null {
    const { catalog, version, mayContinue } = counting;
    // A relative moment, such as asof:3d, means a different time on each page.
    const key = keyOf(query, request.asOf);
    const cached = this.#counts.find(version, key);
    if (cached !== undefined) return cached;
    if (!mayContinue()) return null;
    const found = catalog.prepare(request).countWhile(mayContinue);
    return found.complete ? this.#counts.keep(key, found.count) : null;
  }
}

function keyOf(query: string, asOf: number | undefined): string {
  return `${query}\0${asOf ?? ''}`;
}

/** Returns folders by id. @param asOf milliseconds since the epoch; null for now */
function foldersThen(
  catalog: ServedReader['catalog'],
  asOf: number | null,
): ReadonlyMap<number, FolderThen> {
  const then = asOf ?? Infinity;
  const folders = new Map<number, FolderThen>();
  for (const { folder, path, specialUse, fromTime, toTime } of catalog.folders.spans()) {
    if (fromTime > then) continue;
    const isGone = toTime !== null && toTime <= then;
    folders.set(folder, {
      ...{ path, specialUse, isGone },
      from: folders.get(folder)?.from ?? fromTime,
      to: toTime ?? fromTime,
    });
  }
  return folders;
}

const USES = ['\\Inbox', '\\Sent', '\\Drafts', '\\Archive', '\\Flagged', '', '\\Junk', '\\Trash'];

function byUse(a: FolderThen, b: FolderThen): number {
  return rank(a) - rank(b) || a.path.localeCompare(b.path, 'en');
}

function rank({ path, specialUse }: FolderThen): number {
  const at = path.toUpperCase() === 'INBOX' ? 0 : USES.indexOf(specialUse ?? '');
  return at < 0 ? USES.indexOf('') : at;
}
