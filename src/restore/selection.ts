import type { Catalog } from '../catalog/catalog.ts';
import { matchingFolders } from '../catalog/folder-names.ts';
import type { ListedPlace } from '../catalog/list.ts';
import type { SearchNode } from '../search/ast.ts';
import { lastPlaces } from './last-places.ts';
import type { RestorePlan } from './plan.ts';

/** What is restored. */
export interface RestoreSelection {
  /** Only messages that a query finds; `text` is what was typed. */
  readonly query: {
    readonly text: string;
    readonly node: SearchNode;
    readonly accounts: ReadonlyMap<string, string>;
  } | null;
  /** Addresses or resource ids; empty for all mailboxes. */
  readonly mailboxes: readonly string[];
  /** Paths, patterns or purposes, as `list` takes them; empty for all folders. */
  readonly folders: readonly string[];
  /** Milliseconds since the epoch; null for the present. */
  readonly asOf: number | null;
  /** What was typed for it. */
  readonly asOfText: string | null;
  /** Messages without a current place in their mailbox, each once, from its last place there. */
  readonly deleted: boolean;
}

/** What a selection is read from. */
export type Chosen = Pick<
  Catalog,
  'snapshot' | 'reached' | 'commitAt' | 'listPlaces' | 'foundDocids' | 'folders'
>;

/** Fills a plan with what a selection has, as of one state of the archive. */
export function choose(catalog: Chosen, selection: RestoreSelection, plan: RestorePlan): void {
  catalog.snapshot(() => {
    const { query, deleted } = selection;
    if (query !== null) {
      const { text: _, ...asked } = query;
      plan.narrow(catalog.foundDocids({ ...asked, ...momentOf(selection) }));
    }
    // Folders keep their order: that in which the archive met them.
    if (query === null && !deleted)
      for (const folder of standing(catalog, selection)) plan.addFolder(folder);
    for (const place of placesOf(catalog, selection, plan)) {
      // Without its bytes it is unknown whether the query would find a message.
      if (query !== null && (place.line.id === null || !plan.isFound(place.docid))) continue;
      plan.add(place);
    }
  });
}

/** Folders that stood then, also empty ones. */
function standing({ folders, commitAt }: Chosen, selection: RestoreSelection) {
  const { asOf } = selection;
  const known = folders.all({ gone: true }).toSorted((a, b) => a.id - b.id);
  if (asOf === null) {
    const live = known
      .filter(({ gone }) => !gone)
      .map(({ folder, ...rest }) => ({ ...rest, path: folder }));
    return meant(live, selection);
  }
  const commit = commitAt(asOf)?.number ?? 0;
  const spans = new Map(
    folders
      .spans()
      .filter(({ from, to }) => from <= commit && (to === null || to > commit))
      .map((span) => [span.folder, span]),
  );
  const stood = known.flatMap(({ folder: _, ...rest }) => {
    const span = spans.get(rest.id);
    return span === undefined ? [] : [{ ...rest, path: span.path, specialUse: span.specialUse }];
  });
  return meant(stood, selection);
}

function meant<F extends Parameters<typeof matchingFolders>[0][number] & { readonly id: number }>(
  folders: readonly F[],
  selection: RestoreSelection,
): F[] {
  const wanted = new Set(matchingFolders(folders, filterOf(selection)));
  return folders.filter((folder) => wanted.has(folder));
}

function filterOf({ mailboxes: mailbox, folders: folder }: RestoreSelection) {
  return { mailbox, folder };
}

/** Places of a selection, oldest first within a folder. */
function* placesOf(
  catalog: Chosen,
  selection: RestoreSelection,
  plan: RestorePlan,
): Generator<ListedPlace, void, undefined> {
  if (selection.deleted) {
    yield* deletedPlaces(catalog, selection, plan);
    return;
  }
  const filter = { ...filterOf(selection), ...momentOf(selection) };
  yield* catalog.listPlaces({ ...filter, sort: 'oldest' });
}

/** The last place of each message that has no current one in its mailbox, where that is in a folder that is meant. */
function* deletedPlaces(
  catalog: Chosen,
  selection: RestoreSelection,
  plan: RestorePlan,
): Generator<ListedPlace, void, undefined> {
  const known = catalog.folders.all({ gone: true });
  const wanted = new Set(
    meant(
      known.map(({ folder, ...rest }) => ({ ...rest, path: folder })),
      selection,
    ).map(({ id }) => id),
  );
  const ofMailbox = new Map(known.map(({ id, host, mailbox }) => [id, `${host} ${mailbox}`]));
  const mailboxOf = ({ folder }: ListedPlace): string => ofMailbox.get(folder.id) ?? '';
  const mailboxes = new Set([...wanted].map((id) => ofMailbox.get(id)));
  const moment = momentOf(selection);
  const ended = function* () {
    for (const place of catalog.listPlaces({ ...moment, deleted: true, sort: 'oldest' }))
      if (mailboxes.has(mailboxOf(place))) yield place;
  };
  for (const { docid } of ended()) plan.noteEnded(docid);
  for (const place of catalog.listPlaces(moment))
    if (plan.isEnded(place.docid)) plan.noteCurrent(place.docid, mailboxOf(place));
  const named = function* () {
    for (const place of ended()) {
      const { docid, line } = place;
      yield { docid, address: mailboxOf(place), endedAt: line.endedAt ?? '', place };
    }
  };
  for (const { place } of lastPlaces(named(), (docid, mailbox) => plan.isCurrent(docid, mailbox)))
    if (wanted.has(place.folder.id)) yield place;
}

function momentOf({ asOf }: RestoreSelection) {
  return asOf === null ? {} : { asOf };
}
