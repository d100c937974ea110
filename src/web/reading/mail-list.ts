import type { SearchHit } from '../../catalog/search/hit.ts';
import type { CountRequest, HitCount } from '../../catalog/search/search.ts';
import type { Afterwards } from '../../catalog/timeline/afterwards.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import type { SearchNode } from '../../search/ast.ts';
import { type ListPlace, type ListSort, other, positionOf } from './list-place.ts';

/**
 * Rows of a page: a tall window is full of them. More would delay the first paint, since the browser lays all of them
 * out; a script asks for what follows.
 */
const ROWS = 30;
/** A page is not worth waiting for longer than this, in milliseconds, to know how many rows there are in all. */
const COUNTING_MS = 150;
/** A page with fewer rows, and a place to continue from, is better than one that others wait for longer than this. */
const LISTING_MS = 500;

const ENDED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

/** What would be found instead of nothing. */
export interface NothingFound {
  /** Names in the query that nothing goes by at its time, as sentences. */
  readonly notes: readonly string[];
  /** The term without which the query finds something, and the query without it. */
  readonly without: OtherQuery | null;
  /** A word that other words begin with, such as `invoice*` for `invoices`, and the query with it. */
  readonly beginning: OtherQuery | null;
}

/** A query that finds something, and the term that makes the difference. */
export interface OtherQuery {
  readonly term: string;
  readonly query: string;
  readonly found: HitCount;
}

/** A row of a list. */
export interface ListHit extends SearchHit {
  /** Messages of its conversation, where it has others. */
  readonly conversation?: number;
  /** What became of it since the moment that the query names. */
  readonly since?: Afterwards;
}

export interface MailList {
  readonly hits: readonly ListHit[];
  /** Null while that is not known yet. */
  readonly all: HitCount | null;
  /** Of all, how many are deleted at the service; null where that was not counted to the end. */
  readonly ended: number | null;
  /** What `after=` takes to continue: an id, or a place where time ran out. Null on the last page. */
  readonly next: string | null;
  /** What `after=` takes for the page before: an empty text for the first one. Null where this is the first. */
  readonly before?: string | null;
  /** Only where nothing is found. */
  readonly nothing?: NothingFound | undefined;
}

export interface MailRows extends Pick<MailList, 'hits' | 'next'> {
  /** The same for `before=`; null where the page is known to be the first. */
  readonly previous: string | null;
}

export type MailCounts = Pick<MailList, 'all' | 'ended' | 'nothing'>;

/** Reads one page of what a query finds. */
export function mailList(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  place: ListPlace | undefined,
): MailList {
  return reader.catalog.snapshot(() => {
    const rows = mailRows(reader, request, sort, place, ROWS);
    const isAll = place === undefined && rows.next === null;
    const all = isAll
      ? { count: rows.hits.length, complete: true }
      : reader.catalog.countHitsWhile(request, within(COUNTING_MS));
    const [first] = rows.hits;
    const start =
      first === undefined ? endOf(place, sort) : reader.catalog.messages.docidOf(first.line.id);
    const before =
      place === undefined || start === undefined ? null : pageBefore(reader, request, sort, start);
    return { ...rows, all, ended: endedOf(reader, request), before };
  });
}

/**
 * Finds the page that ends before a row: where there are more rows than it has, it begins behind the last of these.
 * Without the time to find out, the list begins again.
 */
function pageBefore(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  docid: number,
): string | null {
  let rows = 0;
  const part = { ...request, sort: other(sort), after: docid };
  for (const found of reader.catalog.foundDocids(part, within(COUNTING_MS))) {
    rows += 1;
    if (rows > ROWS) return positionOf(reader, found, sort);
  }
  return rows === 0 ? null : '';
}

/** Reads rows of what a query finds; how many there are in all is another question. */
export function mailRows(
  reader: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  place: ListPlace | undefined,
  limit: number,
): MailRows {
  const { catalog } = reader;
  const isBefore = place?.side === 'before';
  const direction = isBefore ? other(sort) : sort;
  const { hits: found, stoppedAt } = catalog.search({
    ...{ ...request, limit: limit + 1, sort: direction, after: startOf(place, sort) },
    mayContinue: within(LISTING_MS),
  });
  const hits = described(catalog, found.slice(0, limit), request);
  if (isBefore) hits.reverse();
  const [first, last] = [hits[0]?.line.id ?? null, hits.at(-1)?.line.id ?? null];
  const beyond = stoppedAt === null ? null : positionOf(reader, stoppedAt, direction);
  const hasMore = found.length > limit;
  return isBefore
    ? { hits, next: last, previous: hasMore ? first : beyond }
    : { hits, next: hasMore ? last : beyond, previous: place === undefined ? null : first };
}

/** Adds what all rows of a page are asked about together. */
function described(
  catalog: Reader['catalog'],
  hits: readonly SearchHit[],
  request: CountRequest,
): ListHit[] {
  // A limited sign-in is told the second of a message, and not its number.
  const docids = hits.map(({ line, docid }) => catalog.messages.docidOf(line.id) ?? docid);
  const sizes = catalog.conversationSizes(docids, request);
  const since = request.asOf === undefined ? undefined : catalog.afterwards(docids, request);
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

/** The docid behind which, in the other direction, everything is that a list without a row has passed. */
function endOf(place: ListPlace | undefined, sort: ListSort): number | undefined {
  if (place?.side !== 'after') return place?.docid;
  return sort === 'newest' ? place.docid - 1 : place.docid + 1;
}

/** The docid that a search continues after. */
function startOf(place: ListPlace | undefined, sort: ListSort): number | undefined {
  if (place?.side !== 'at') return place?.docid;
  return sort === 'newest' ? place.docid + 1 : place.docid - 1;
}

/** Counts the rows before the one at a place, as far as there is time: with it, and in all. */
export function positionIn(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  { docid }: ListPlace,
): { readonly before: HitCount; readonly all: HitCount } {
  return catalog.snapshot(() => ({
    before: catalog.countHitsWhile(
      { ...request, sort: other(sort), after: docid },
      within(COUNTING_MS),
    ),
    all: catalog.countHitsWhile(request, within(COUNTING_MS)),
  }));
}

/** Counts what a query finds as far as there is time. */
export function countsOf(reader: Pick<Reader, 'catalog'>, request: CountRequest): MailCounts {
  const all = reader.catalog.countHitsWhile(request, within(COUNTING_MS));
  return { all, ended: endedOf(reader, request) };
}

function endedOf({ catalog }: Pick<Reader, 'catalog'>, request: CountRequest): MailList['ended'] {
  const { node } = request;
  const gone = catalog.countHitsWhile(
    { ...request, node: { kind: 'and', nodes: [node, ENDED], span: node.span } },
    within(COUNTING_MS),
  );
  return gone.complete ? gone.count : null;
}

/** Returns a function that says for so many milliseconds that there is time left. */
export function within(ms: number): () => boolean {
  const end = performance.now() + ms;
  return () => performance.now() < end;
}
