import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import type { ListedPlace } from '../catalog/list.ts';
import type { HistoryLine } from '../catalog/messages.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import { scratchDatabase } from '../core/sqlite.ts';
import { hasDate, receivedAt } from '../mail/docid.ts';
import type { NamedFolder } from './export-names.ts';
import type { ManifestEntry, ManifestFile, ManifestHead, MissingPlace } from './manifest-shapes.ts';
import type { ExportArchive, ExportSelection } from './plan-export.ts';

export const EXPORT_FORMATS = ['eml', 'zip', 'mbox', 'maildir'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const MANIFEST_NAME = 'mailkeep-export.json';
export const UNFINISHED_NAME = 'mailkeep-export.unfinished.json';

export const MANIFEST_VERSION = 'export 1';

/**
 * Yields a manifest as one JSON object with one item per line, which can be read line by line. The last field is the
 * SHA-256 of all bytes before its line.
 */
export function* manifestText({
  head,
  entries,
  files,
  missing,
}: {
  readonly head: ManifestHead;
  readonly entries: Iterable<ManifestEntry>;
  readonly files: Iterable<ManifestFile>;
  readonly missing: Iterable<MissingPlace>;
}) {
  const digest = createHash('sha256');
  let text = `${JSON.stringify(head).slice(0, -1)},\n`;
  const flush = function* (): Generator<string> {
    digest.update(text);
    yield text;
    text = '';
  };
  const lists: readonly (readonly [string, Iterable<unknown>])[] = [
    ['entries', entries],
    ['files', files],
    ['missing', missing],
  ];
  for (const [name, items] of lists) {
    text += `"${name}":[`;
    let first = true;
    for (const item of items) {
      text += `${first ? '' : ','}\n${JSON.stringify(item)}`;
      first = false;
      if (text.length > 65_536) yield* flush();
    }
    text += '\n],\n';
  }
  yield* flush();
  yield `"sha256":"${digest.digest('hex')}"}\n`;
}

export type ManifestEvent =
  | { readonly what: 'head'; readonly head: ManifestHead }
  | { readonly what: 'entry'; readonly entry: ManifestEntry }
  | { readonly what: 'file'; readonly file: ManifestFile }
  | { readonly what: 'missing'; readonly place: MissingPlace };

export class ManifestDamaged extends Error {}

/**
 * Reads a manifest line by line. The hash is on the last line, so trust nothing until the end.
 *
 * @throws ManifestDamaged
 */
export async function* readManifest(
  lines: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<ManifestEvent, void, undefined> {
  // Loaded on use, because zod slows the start of exports and imports that read no manifest.
  const shapes = await import('./manifest-shapes.ts');
  const digest = createHash('sha256');
  let list: 'entries' | 'files' | 'missing' | undefined;
  let hasHead = false;
  for await (const line of lines) {
    const seal = /^"sha256":"([0-9a-f]{64})"\}$/.exec(line)?.[1];
    if (seal !== undefined) {
      if (seal !== digest.digest('hex')) throw new ManifestDamaged('the hash differs');
      return;
    }
    digest.update(`${line}\n`);
    if (!hasHead) {
      hasHead = true;
      yield { what: 'head', head: validate(shapes.headShape, `${line.replace(/,$/, '')}}`) };
      continue;
    }
    const section = /^"(entries|files|missing)":\[$/.exec(line)?.[1];
    if (section === 'entries' || section === 'files' || section === 'missing') list = section;
    else if (line === '],') list = undefined;
    else if (list !== undefined) yield itemOf(shapes, list, line);
    else throw new ManifestDamaged('a line that is none');
  }
  throw new ManifestDamaged('it ends early');
}

function validate<T>(shape: z.ZodType<T>, line: string): T {
  const item = parseJson(line);
  const isValid = (value: unknown): value is T => shape.safeParse(value).success;
  if (!isValid(item)) throw new ManifestDamaged('a line that is none');
  return item;
}

function itemOf(
  { entryShape, fileShape, missingShape }: typeof import('./manifest-shapes.ts'),
  list: 'entries' | 'files' | 'missing',
  line: string,
): ManifestEvent {
  const item = line.replace(/,$/, '');
  if (list === 'entries') return { what: 'entry', entry: validate(entryShape, item) };
  if (list === 'files') return { what: 'file', file: validate(fileShape, item) };
  return { what: 'missing', place: validate(missingShape, item) };
}

type SidecarPlace = Pick<
  ManifestEntry,
  'mailbox' | 'folder' | 'generation' | 'uid' | 'flags' | 'firstSeen' | 'endedAt'
>;

export interface Sidecar extends Omit<ManifestEntry, 'path' | 'sha256' | 'inMbox'> {
  readonly id: string;
  readonly places: readonly SidecarPlace[];
  readonly history: readonly Omit<HistoryLine, 'id'>[];
}

/** @param history all events in the message's history; events after the commit `exported` are omitted */
export function sidecarOf(
  { path: _path, sha256: id, inMbox: _inMbox, ...place }: ManifestEntry,
  history: readonly HistoryLine[],
  exported: number,
): Sidecar {
  const events = history.filter(({ commit }) => commit <= exported);
  return {
    id,
    ...place,
    places: listPlaces(events),
    history: events.map(({ id: _id, ...line }) => line),
  };
}

function listPlaces(history: readonly HistoryLine[]): SidecarPlace[] {
  const places = new Map<string, SidecarPlace>();
  for (const { event, time, mailbox, folder, generation, uid, flags } of history) {
    const key = JSON.stringify([mailbox, folder, generation, uid]);
    const before = places.get(key);
    places.set(key, {
      ...{ mailbox, folder, generation, uid },
      flags: flags ?? before?.flags ?? [],
      firstSeen: before?.firstSeen ?? time,
      endedAt: event === 'ended' ? time : event === 'reopened' ? null : (before?.endedAt ?? null),
    });
  }
  return [...places.values()];
}

export function sidecarText(sidecar: Sidecar): string {
  return `${JSON.stringify(sidecar, null, 2)}\n`;
}

export function* sidecarsText(sidecars: Iterable<Sidecar>): Generator<string> {
  let first = true;
  for (const sidecar of sidecars) {
    yield `${first ? '[' : ','}\n${JSON.stringify(sidecar)}`;
    first = false;
  }
  yield first ? '[]\n' : '\n]\n';
}

export interface SelectedPlace extends Pick<ListedPlace, 'line' | 'generation' | 'docid'> {
  readonly folder: NamedFolder & Pick<ListedPlace['folder'], 'specialUse' | 'namesake'>;
}

interface SelectionConsumer {
  /** @param met all folders that ever existed, in order of discovery */
  folders(met: readonly NamedFolder[]): void;
  place(place: SelectedPlace): void;
}

type Selected = Pick<ManifestHead, 'commit' | 'asOf' | 'selection'>;

/** Passes the folders and selected places to `consumer`, all from the same state of the archive. */
export function selectPlaces(archive: ExportArchive, consumer: SelectionConsumer): Selected {
  const sets = { found: new DocidSet(), gone: new DocidSet() };
  try {
    return archive.catalog.snapshot(() => readSelection(archive, sets, consumer));
  } finally {
    sets.found.close();
    sets.gone.close();
  }
}

/** A set stored in a temporary database, because a query can match more docids than fit in memory. */
export class DocidSet {
  readonly #db = scratchDatabase('CREATE TABLE docids (docid INTEGER PRIMARY KEY); BEGIN');
  readonly #lookup = this.#db.prepare<[number]>('SELECT 1 FROM docids WHERE docid = ?');

  add(docids: Iterable<number>): void {
    const add = this.#db.prepare('INSERT OR IGNORE INTO docids VALUES (?)');
    for (const docid of docids) add.run(docid);
  }

  has(docid: number): boolean {
    return this.#lookup.get(docid) !== undefined;
  }

  range(): { readonly low: number; readonly high: number } | undefined {
    return this.#db
      .prepare<[], { low: number; high: number }>(
        'SELECT min(docid) AS low, max(docid) AS high FROM docids HAVING count(*) > 0',
      )
      .get();
  }

  close(): void {
    this.#db.close();
  }
}

/** Messages that match the query, and messages deleted from all folders. */
type DocidSets = Readonly<Record<'found' | 'gone', DocidSet>>;

function readSelection(
  archive: ExportArchive,
  sets: DocidSets,
  { folders, place }: SelectionConsumer,
): Selected {
  const { catalog, selection } = archive;
  const { query, docids = null, asOf } = selection;
  const isNarrowed = query !== null || docids !== null;
  if (query !== null) {
    const { text: _, ...asked } = query;
    sets.found.add(catalog.prepare({ ...asked, ...toMoment(asOf) }).docids());
  }
  if (docids !== null) sets.found.add(docids);
  const met = catalog.folders.all({ gone: true }).toSorted((a, b) => a.id - b.id);
  folders(met.map(({ folder: path, ...rest }) => ({ ...rest, path })));
  for (const one of selectedPlaces(archive, sets, isNarrowed)) {
    // A query cannot match a message whose bytes are missing.
    if (isNarrowed && (one.line.id === null || !sets.found.has(one.docid))) continue;
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
    selection: describeSelection(selection),
  };
}

function describeSelection(selection: ExportSelection): ManifestHead['selection'] {
  const {
    query,
    docids = null,
    mailboxes = [],
    folders = [],
    deleted,
    withDeleted = false,
  } = selection;
  const simplify = (names: readonly string[]) => (names.length > 1 ? names : (names[0] ?? null));
  return {
    query: query?.text ?? null,
    ...(docids === null ? {} : { ids: new Set(docids).size }),
    ...{ mailbox: simplify(mailboxes), folder: simplify(folders), deleted },
    ...(withDeleted ? { withDeleted } : {}),
  };
}

function toMoment(asOf: number | null) {
  return asOf === null ? {} : { asOf };
}

/** Yields the places in a selection. If it is narrowed, the caller must filter the places by docid. */
function* selectedPlaces(
  { catalog, selection }: ExportArchive,
  { found, gone }: DocidSets,
  isNarrowed: boolean,
): Generator<ListedPlace, void, undefined> {
  const { query, mailboxes, folders, deleted, withDeleted = false, asOf } = selection;
  const range = isNarrowed ? found.range() : undefined;
  if (isNarrowed && range === undefined) return;
  const moment = toMoment(asOf);
  const filter = {
    ...{ mailbox: mailboxes, folder: folders },
    // Scan only the period in which the messages were received. Undated messages have none.
    ...(range === undefined || !hasDate(range.low)
      ? {}
      : { from: receivedAt(range.low), to: receivedAt(range.high) + 1000 }),
    ...moment,
  };
  yield* catalog.listPlaces({ ...filter, deleted });
  if (deleted || !withDeleted) return;
  const nodes = [IS_DELETED, ...(query === null ? [] : [query.node])];
  const { accounts = new Map() } = query ?? {};
  const node = { kind: 'and', nodes, span: IS_DELETED.span } as const;
  gone.add(catalog.prepare({ node, accounts, ...moment }).docids());
  yield* lastPlaces(catalog.listPlaces({ ...filter, deleted: true }), gone);
}

const IS_DELETED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

/** Yields each deleted message's last place, or all that ended together. A message's places must be adjacent. */
function* lastPlaces(
  ended: Iterable<ListedPlace>,
  gone: DocidSet,
): Generator<ListedPlace, void, undefined> {
  let last: ListedPlace[] = [];
  for (const place of ended) {
    const [before] = last;
    if (before !== undefined && before.docid !== place.docid) {
      yield* last;
      last = [];
    }
    if (!gone.has(place.docid)) continue;
    const at = place.line.endedAt ?? '';
    const lastAt = last[0]?.line.endedAt ?? '';
    if (last.length === 0 || at > lastAt) last = [place];
    else if (at === lastAt) last.push(place);
  }
  yield* last;
}
