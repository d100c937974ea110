import type { KnownFolder } from '../../catalog/folders.ts';
import type { CountRequest } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { isImported } from '../../mail/import-host.ts';
import { parseQuery } from '../../search/parse.ts';
import { mailboxKey } from '../../state/scopes.ts';
import { within } from './mail-list.ts';
import { filterText } from './query-text.ts';
import { searchesFor } from './searches-for.ts';
import type { ServedReader } from './served-archive.ts';

/** Something of the side bar: a link that writes a query, and what that query finds. */
export interface SideEntry {
  readonly name: string;
  /** Null for a folder that no query can name, as its path is too long: it is no link then. */
  readonly query: string | null;
  /** Messages that the query finds; null where there was no time to count them. */
  readonly count: number | null;
  readonly specialUse: string | null;
}

export interface SideMailbox extends SideEntry {
  readonly imported: boolean;
  readonly folders: readonly SideEntry[];
  /** Folders that the service no longer has. */
  readonly earlier: readonly SideEntry[];
}

export interface SideTree {
  readonly all: SideEntry;
  readonly ended: SideEntry;
  readonly saved: readonly { readonly name: string; readonly query: string }[];
  readonly mailboxes: readonly SideMailbox[];
}

/** For all numbers of a tree together, in milliseconds: later ones are left out, and counted for the next page. */
const COUNTING_MS = 300;

/** Numbers that are kept. */
const MOST_COUNTS = 20_000;

/** Trees with their numbers, kept until the archive has another commit. */
export class SideTrees {
  #version = -1;
  readonly #counts = new Map<string, number>();

  /**
   * Returns the tree of an archive.
   *
   * @param asOfText `asof:…` as it stands in the query, or empty: each link and each number obeys it
   */
  of(
    reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
    asOfText: string,
    now: number,
  ): SideTree {
    const { catalog } = reader;
    const version = catalog.version();
    if (version !== this.#version) this.#counts.clear();
    this.#version = version;
    const mayContinue = within(COUNTING_MS);
    const entry = (name: string, filter: string, specialUse: string | null = null): SideEntry => {
      const query = `${filter} ${asOfText}`.trim();
      const request = requestOf(query, now);
      if (request === null) return { name, query: null, specialUse, count: null };
      return { name, query, specialUse, count: this.#count(reader, query, request, mayContinue) };
    };
    return catalog.snapshot(() => {
      const mailboxes = catalog.folders.mailboxes();
      const folders = Map.groupBy(catalog.folders.all({ gone: true }), mailboxKey);
      return {
        all: entry('All mail', ''),
        ended: entry('Deleted at the service', 'is:deleted'),
        saved: searchesFor(reader).map(({ name }) => ({
          name,
          query: `@${name} ${asOfText}`.trim(),
        })),
        mailboxes: mailboxes.map((mailbox) => {
          const inBox = filterText('mailbox', mailbox.address);
          // Two hosts may have a mailbox of the same address; its number is the one that the link finds.
          const prefix = mailboxes.length === 1 ? '' : `${inBox} `;
          const listed = (known: KnownFolder) =>
            entry(known.folder, `${prefix}${filterText('in', known.folder)}`, known.specialUse);
          const all = folders.get(mailboxKey(mailbox)) ?? [];
          const paths = new Set(all.filter(({ gone }) => !gone).map(({ folder }) => folder));
          return {
            ...entry(mailbox.address, inBox),
            imported: isImported(mailbox),
            folders: all
              .filter(({ gone }) => !gone)
              .sort(byUse)
              .map(listed),
            earlier: all.filter(({ gone, folder }) => gone && !paths.has(folder)).map(listed),
          };
        }),
      };
    });
  }

  /** Returns a number that stood in the last tree of now. */
  known(query: string): number | null {
    return this.#counts.get(keyOf(query, undefined)) ?? null;
  }

  #count(
    { catalog }: Pick<Reader, 'catalog'>,
    query: string,
    request: CountRequest,
    mayContinue: () => boolean,
  ): number | null {
    const key = keyOf(query, request.asOf);
    const known = this.#counts.get(key);
    if (known !== undefined) return known;
    if (!mayContinue()) return null;
    const found = catalog.countHitsWhile(request, mayContinue);
    if (!found.complete) return null;
    // A relative moment, such as asof:3d, is another one with each page.
    if (this.#counts.size >= MOST_COUNTS) this.#counts.clear();
    this.#counts.set(key, found.count);
    return found.count;
  }
}

function keyOf(query: string, asOf: number | undefined): string {
  return `${query}\0${asOf ?? ''}`;
}

/** Returns what a query asks for; null for one that cannot be asked. */
function requestOf(query: string, now: number): CountRequest | null {
  try {
    const { node, asOf } = parseQuery(query === '' ? '*' : query, { now });
    return { node, asOf: asOf ?? undefined };
  } catch (error) {
    // The service lets people give folders paths of any length.
    if (!(error instanceof MailkeepError) || error.family !== 'usage') throw error;
    return null;
  }
}

const USES = ['\\Inbox', '\\Sent', '\\Drafts', '\\Archive', '\\Flagged', '', '\\Junk', '\\Trash'];

/** INBOX first, Junk and Trash last; the others by their paths. */
function byUse(a: KnownFolder, b: KnownFolder): number {
  return rank(a) - rank(b) || a.folder.localeCompare(b.folder, 'en');
}

function rank({ folder, specialUse }: KnownFolder): number {
  const at = folder.toUpperCase() === 'INBOX' ? 0 : USES.indexOf(specialUse ?? '');
  return at < 0 ? USES.indexOf('') : at;
}
