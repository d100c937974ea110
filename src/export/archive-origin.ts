import type { ListedPlace } from '../catalog/list.ts';
import { scratchDatabase } from '../disk/scratch-database.ts';
import { isDated, receivedAt } from '../mail/docid.ts';
import type { SearchNode } from '../search/ast.ts';
import type { ExportArchive, ExportSelection } from './export-options.ts';
import type { ManifestHead } from './manifest.ts';
import type { ExportOrigin, Selected, SelectionTaker } from './origin.ts';

/** Returns the places of a selection of an archive, with their sources. */
export function archiveOrigin({ catalog, sources, selection }: ExportArchive): ExportOrigin {
  return {
    sources,
    history: (id) => catalog.history(id),
    async select(taker) {
      const chosen = new ChosenDocids();
      try {
        return catalog.snapshot(() => readSelection({ catalog, selection }, chosen, taker));
      } finally {
        chosen.close();
      }
    },
  };
}

/** Sets of docids, in a temporary database: a query may find more than fits into memory. */
class ChosenDocids {
  readonly #db = scratchDatabase(`
    CREATE TABLE found (docid INTEGER PRIMARY KEY);
    CREATE TABLE gone (docid INTEGER PRIMARY KEY);
    BEGIN`);
  readonly #isFound = this.#asking('SELECT 1 FROM found WHERE docid = ?');
  readonly #isGone = this.#asking('SELECT 1 FROM gone WHERE docid = ?');

  /** Only messages with these docids are meant. */
  narrow(docids: Iterable<number>): void {
    const add = this.#db.prepare('INSERT OR IGNORE INTO found (docid) VALUES (?)');
    for (const docid of docids) add.run(docid);
  }

  isFound(docid: number): boolean {
    return this.#isFound(docid);
  }

  /** The lowest and the highest docid that is meant; undefined where none is. */
  range(): { readonly low: number; readonly high: number } | undefined {
    const row = this.#db
      .prepare<[], { low: number | null; high: number | null }>(
        'SELECT min(docid) AS low, max(docid) AS high FROM found',
      )
      .get();
    const { low = null, high = null } = row ?? {};
    return low === null || high === null ? undefined : { low, high };
  }

  /** Messages with these docids have no current place. */
  noteGone(docids: Iterable<number>): void {
    const add = this.#db.prepare('INSERT OR IGNORE INTO gone (docid) VALUES (?)');
    for (const docid of docids) add.run(docid);
  }

  isGone(docid: number): boolean {
    return this.#isGone(docid);
  }

  close(): void {
    this.#db.close();
  }

  #asking(query: string): (docid: number) => boolean {
    const statement = this.#db.prepare<[number], unknown>(query);
    return (docid) => statement.get(docid) !== undefined;
  }
}

type Archive = Pick<ExportArchive, 'catalog' | 'selection'>;

function readSelection(
  archive: Archive,
  chosen: ChosenDocids,
  { folders, place }: SelectionTaker,
): Selected {
  const { catalog, selection } = archive;
  const { query, docids = null, asOf } = selection;
  const isNarrowed = query !== null || docids !== null;
  if (query !== null) {
    const { text: _, ...asked } = query;
    chosen.narrow(catalog.foundDocids({ ...asked, ...momentOf(asOf) }));
  }
  if (docids !== null) chosen.narrow(docids);
  const met = catalog.folders.all({ gone: true }).toSorted((a, b) => a.id - b.id);
  folders(met.map(({ folder: path, ...rest }) => ({ ...rest, path })));
  for (const one of listed(archive, chosen, isNarrowed)) {
    // Without bytes it is unknown whether the query would find a message.
    if (isNarrowed && (one.line.id === null || !chosen.isFound(one.docid))) continue;
    place(one);
  }
  const { number, hash } = catalog.reached();
  const at = asOf === null ? null : catalog.commitAt(asOf);
  return {
    commit: { number, hash },
    asOf:
      asOf === null
        ? null
        : { number: at?.number ?? 0, time: new Date(at?.time ?? 0).toISOString() },
    selection: saidOf(selection),
  };
}

function saidOf(selection: ExportSelection): ManifestHead['selection'] {
  const {
    query,
    docids = null,
    mailboxes = [],
    folders = [],
    deleted,
    withDeleted = false,
  } = selection;
  const only = (names: readonly string[]) => (names.length > 1 ? names : (names[0] ?? null));
  return {
    query: query?.text ?? null,
    ...(docids === null ? {} : { ids: new Set(docids).size }),
    ...{ mailbox: only(mailboxes), folder: only(folders), deleted },
    ...(withDeleted ? { withDeleted } : {}),
  };
}

function momentOf(asOf: number | null) {
  return asOf === null ? {} : { asOf };
}

/** The places of a selection; where it is narrowed, of more messages than are meant. */
function* listed(
  { catalog, selection }: Archive,
  chosen: ChosenDocids,
  isNarrowed: boolean,
): Generator<ListedPlace, void, undefined> {
  const { query, mailboxes, folders, deleted, withDeleted = false, asOf } = selection;
  const range = isNarrowed ? chosen.range() : undefined;
  if (isNarrowed && range === undefined) return;
  const moment = momentOf(asOf);
  const filter = {
    ...{ mailbox: mailboxes, folder: folders },
    // Only the time in which the messages were received is walked over; those without a date lie in none.
    ...(range === undefined || !isDated(range.low)
      ? {}
      : { from: receivedAt(range.low), to: receivedAt(range.high) + 1000 }),
    ...moment,
  };
  yield* catalog.listPlaces({ ...filter, deleted });
  if (deleted || !withDeleted) return;
  const nodes = [IS_DELETED, ...(query === null ? [] : [query.node])];
  const { accounts = new Map() } = query ?? {};
  const node = { kind: 'and', nodes, span: IS_DELETED.span } as const;
  chosen.noteGone(catalog.foundDocids({ node, accounts, ...moment }));
  yield* lastPlaces(catalog.listPlaces({ ...filter, deleted: true }), (docid) =>
    chosen.isGone(docid),
  );
}

const IS_DELETED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

/** Of each message that is gone, the ended place, or those that ended together last; places of one message come together. */
function* lastPlaces(
  ended: Iterable<ListedPlace>,
  isGone: (docid: number) => boolean,
): Generator<ListedPlace, void, undefined> {
  let last: ListedPlace[] = [];
  for (const place of ended) {
    const [before] = last;
    if (before !== undefined && before.docid !== place.docid) {
      yield* last;
      last = [];
    }
    if (!isGone(place.docid)) continue;
    const at = place.line.endedAt ?? '';
    const lastAt = last[0]?.line.endedAt ?? '';
    if (last.length === 0 || at > lastAt) last = [place];
    else if (at === lastAt) last.push(place);
  }
  yield* last;
}
