import type { Catalog } from '../catalog/catalog.ts';
import type { FilePosition } from '../catalog/files.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import type { CountRequest, HitCount, SearchHit } from '../catalog/search.ts';
import type { Respelling } from '../catalog/spelling.ts';
import type { LaterChange, Timeline, TimelineBar } from '../catalog/timeline.ts';
import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { namedMessage } from './message-view.ts';

export type ListSort = 'newest' | 'oldest';

export interface ListPlace {
  readonly side: 'after' | 'before' | 'at';
  readonly docid: number;
}

/** A position between messages where a listing timed out. An id would identify a message instead. */
const POSITION = /^@(\d{1,15})$/;
const TIME = /^\d{4}-\d\d-\d\dT/;

/** Reads `after=`, `before=` or `at=`, each with an id or its prefix. `at=` also takes a moment in ISO 8601. */
export function listPlace(
  { catalog }: Pick<Reader, 'catalog'>,
  parameter: (name: string) => string | undefined,
  sort: ListSort,
): ListPlace | undefined {
  for (const side of ['after', 'before', 'at'] as const) {
    const typed = parameter(side);
    if (typed === undefined) continue;
    const position = POSITION.exec(typed)?.[1];
    if (position !== undefined) {
      const direction = side === 'after' ? sort : other(sort);
      return { side, docid: catalog.positions.meant(Number(position), direction) };
    }
    if (side === 'at' && TIME.test(typed) && !Number.isNaN(Date.parse(typed))) {
      const second = Math.max(0, Math.floor(Date.parse(typed) / 1000));
      const docid = second * DOCIDS_PER_SECOND;
      return { side, docid: sort === 'newest' ? docid + DOCIDS_PER_SECOND - 1 : docid };
    }
    const match = namedMessage({ catalog }, typed);
    const docid = match.kind === 'one' ? catalog.messages.docidOf(match.id) : undefined;
    if (docid !== undefined) return { side, docid };
  }
  return undefined;
}

/** Returns the `after=` value that continues from a docid; in reverse order, it is the `before=` value. */
function positionOf({ catalog }: Pick<Reader, 'catalog'>, docid: number, sort: ListSort): string {
  return `@${catalog.positions.shown(docid, sort)}`;
}

function other(sort: ListSort): ListSort {
  return sort === 'newest' ? 'oldest' : 'newest';
}

/** Rows per page, enough to fill a tall window. More would delay the first paint; a script fetches the rest. */
const ROWS = 30;
const COUNTING_MS = 150;
/** Time limit for listing rows, in milliseconds. A short page that can be continued is better than a long wait. */
const LISTING_MS = 500;

const ENDED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

export interface NoResults {
  readonly notes: readonly string[];
  readonly without: OtherQuery | null;
  /** A prefix such as `invoice*` for `invoices`, and the query that contains it. */
  readonly beginning: OtherQuery | null;
  /** The query with similar words that the archive has. */
  readonly spelling: Respelling | null;
}

export interface OtherQuery {
  readonly term: string;
  readonly query: string;
  readonly found: HitCount;
}

export interface ListHit extends SearchHit {
  readonly conversation?: number;
  readonly since?: LaterChange;
}

export interface MailList {
  readonly hits: readonly ListHit[];
  /** Null while unknown. */
  readonly all: HitCount | null;
  /** How many of these were deleted at the service; null if counting timed out. */
  readonly ended: number | null;
  /** `after=` value of the next page: an id, or the position where time ran out. Null on the last page. */
  readonly next: string | null;
  /** `before=` value of the previous page; null if this page is known to be the first. */
  readonly previous: string | null;
  /** `after=` value of the previous page, empty for the first page. Null if this is the first page. */
  readonly before?: string | null;
  readonly nothing?: NoResults | undefined;
  /** The query with the word at the caret as a prefix, if that was searched for. */
  readonly searched?: string | undefined;
}

export type MailCounts = Pick<MailList, 'all' | 'ended' | 'nothing'>;

/** @param opened id or prefix of the open message. Without a place, the list starts at it if it is on a later page. */
export function mailList(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  wanted: ListPlace | undefined,
  opened?: string,
): MailList {
  return reader.catalog.snapshot(() => {
    const rowsAt = (at: ListPlace | undefined) => ({
      place: at,
      rows: mailRows(reader, request, sort, at, ROWS),
    });
    const isOpened = ({ line }: SearchHit) => opened !== undefined && line.id.startsWith(opened);
    let listed = rowsAt(wanted);
    if (opened !== undefined && wanted === undefined && !listed.rows.hits.some(isOpened)) {
      const at = listPlace(reader, (name) => (name === 'at' ? opened : undefined), sort);
      const around = at && rowsAt(at);
      // The query may not match the message.
      if (around?.rows.hits.slice(0, 1).some(isOpened)) listed = around;
    }
    const { place, rows } = listed;
    const isAll = place === undefined && rows.next === null;
    const all = isAll
      ? { count: rows.hits.length, complete: true }
      : reader.catalog.prepare(request).countWhile(deadline(COUNTING_MS));
    const [first] = rows.hits;
    const start =
      first === undefined ? endOf(place, sort) : reader.catalog.messages.docidOf(first.line.id);
    const before =
      place === undefined || start === undefined ? null : pageBefore(reader, request, sort, start);
    return { ...rows, all, ended: endedOf(reader, request), before };
  });
}

/** Returns an `after=` value, empty for the first page or if time runs out; null if no earlier row was found. */
function pageBefore(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  docid: number,
): string | null {
  let rows = 0;
  const part = { sort: other(sort), after: docid };
  for (const found of reader.catalog.prepare(request).docids(part, deadline(COUNTING_MS))) {
    rows += 1;
    if (rows > ROWS) return positionOf(reader, found, sort);
  }
  return rows === 0 ? null : '';
}

export function mailRows(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  place: ListPlace | undefined,
  limit: number,
) {
  const { catalog } = reader;
  const isBefore = place?.side === 'before';
  const direction = isBefore ? other(sort) : sort;
  const { hits: found, stoppedAt } = catalog.prepare(request).page({
    ...{ limit: limit + 1, sort: direction, after: startOf(place, sort) },
    mayContinue: deadline(LISTING_MS),
  });
  const hits = describe(catalog, found.slice(0, limit), request);
  if (isBefore) hits.reverse();
  const [first, last] = [hits[0]?.line.id ?? null, hits.at(-1)?.line.id ?? null];
  const position = stoppedAt === null ? null : positionOf(reader, stoppedAt, direction);
  const hasMore = found.length > limit;
  /** `previous`: the `before=` value of the previous page; null if this page is known to be the first. */
  return isBefore
    ? { hits, next: last, previous: hasMore ? first : position }
    : { hits, next: hasMore ? last : position, previous: place === undefined ? null : first };
}

export type MailRows = ReturnType<typeof mailRows>;

function describe(
  catalog: Reader['catalog'],
  hits: readonly SearchHit[],
  request: CountRequest,
): ListHit[] {
  // A limited session gets the second of a message, but not its docid.
  const docids = hits.map(({ line, docid }) => catalog.messages.docidOf(line.id) ?? docid);
  const sizes = catalog.conversationSizes(docids, request);
  const since = request.asOf === undefined ? undefined : catalog.changesSince(docids, request);
  return hits.map((hit, at) => {
    const docid = docids[at] ?? hit.docid;
    const [conversation, became] = [sizes.get(docid), since?.get(docid)];
    return {
      ...hit,
      ...(conversation === undefined ? {} : { conversation }),
      ...(became === undefined ? {} : { since: became }),
    };
  });
}

function endOf(place: ListPlace | undefined, sort: ListSort): number | undefined {
  if (place?.side !== 'after') return place?.docid;
  return sort === 'newest' ? place.docid - 1 : place.docid + 1;
}

function startOf(place: ListPlace | undefined, sort: ListSort): number | undefined {
  if (place?.side !== 'at') return place?.docid;
  return sort === 'newest' ? place.docid + 1 : place.docid - 1;
}

export function countPosition(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  { docid }: ListPlace,
): { readonly before: HitCount; readonly all: HitCount } {
  return catalog.snapshot(() => ({
    before: catalog
      .prepare(request)
      .countWhile(deadline(COUNTING_MS), { sort: other(sort), after: docid }),
    all: catalog.prepare(request).countWhile(deadline(COUNTING_MS)),
  }));
}

export function countRows(reader: Pick<Reader, 'catalog'>, request: CountRequest): MailCounts {
  const all = reader.catalog.prepare(request).countWhile(deadline(COUNTING_MS));
  return { all, ended: endedOf(reader, request) };
}

function endedOf({ catalog }: Pick<Reader, 'catalog'>, request: CountRequest): MailList['ended'] {
  const { node } = request;
  const gone = catalog
    .prepare({ ...request, node: { kind: 'and', nodes: [node, ENDED], span: node.span } })
    .countWhile(deadline(COUNTING_MS));
  return gone.complete ? gone.count : null;
}

export function deadline(ms: number): () => boolean {
  const end = performance.now() + ms;
  return () => performance.now() < end;
}

/** Received dates are in whole seconds. All times here are milliseconds since the epoch. */
function nextSecond(moment: number): number {
  return (Math.floor(moment / 1000) + 1) * 1000;
}

function receivedAfter(moment: number): SearchNode {
  return { kind: 'received', from: nextSecond(moment), to: null, span: { start: 0, end: 0 } };
}

/** Returns a query for messages stored after the moment of an `asof:` term, which is the end of a second. */
export function storedAfterText(moment: number): string {
  return `added:${new Date(nextSecond(moment)).toISOString().replace('.000Z', 'Z')}..`;
}

/** A bar of the list's timeline. When the past is shown, it may contain only messages that have arrived since. */
export interface ListBar extends TimelineBar {
  readonly later?: number;
}

export type ListTimeline = Omit<Timeline, 'bars'> & { readonly bars: readonly ListBar[] };

/** Counts results by time. For a past moment, also counts today's results received since. */
export function listTimeline(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  timeZone: string | undefined,
  mayContinue: () => boolean,
): ListTimeline {
  const { asOf, node, ...rest } = request;
  if (asOf === undefined) return catalog.timeline({ ...request, timeZone }, mayContinue);
  return catalog.snapshot(() => {
    const filter: SearchNode = { kind: 'and', nodes: [node, receivedAfter(asOf)], span: node.span };
    const today = { ...rest, node: filter, timeZone };
    const recent = catalog.timeline(today, mayContinue);
    const until = recent.bars.at(-1)?.to;
    const past = catalog.timeline({ ...request, timeZone, until }, mayContinue);
    if (until === undefined) return past;
    const unit = past.bars.length === 0 ? recent.unit : past.unit;
    const { bars } =
      unit === recent.unit ? recent : catalog.timeline({ ...today, unit }, mayContinue);
    return { ...past, unit, bars: joinBars(past.bars, bars) };
  });
}

function joinBars(past: readonly TimelineBar[], recent: readonly TimelineBar[]): ListBar[] {
  const bars = new Map<string, ListBar>(past.map((bar) => [bar.key, bar]));
  for (const { messages, ...bar } of recent) {
    const known = bars.get(bar.key) ?? { ...bar, messages: 0, ended: 0 };
    bars.set(bar.key, { ...known, later: messages });
  }
  return [...bars.values()].sort((a, b) => a.from - b.from);
}

export function encodePosition(
  { positions }: Pick<Catalog, 'positions'>,
  { docid, number }: FilePosition,
): string {
  // The message at the docid may have more attachments: `oldest` is the rank of that message itself.
  return positionText({ docid: positions.shown(docid, 'oldest'), number });
}

export function positionText({ docid, number }: FilePosition): string {
  return `${docid}-${number}`;
}

export function decodePosition(
  { positions }: Pick<Catalog, 'positions'>,
  text: string,
): FilePosition | undefined {
  const parts = /^(\d{1,15})-(\d{1,5})$/.exec(text);
  if (parts === null) return undefined;
  return { docid: positions.meant(Number(parts[1]), 'oldest'), number: Number(parts[2]) };
}
