import type { SearchHit } from '../../catalog/search/hit.ts';
import type { CountRequest, HitCount } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import type { SearchNode } from '../../search/ast.ts';

/** Rows of a page. */
export const ROWS = 100;
/** A page is not worth waiting for longer than this, in milliseconds, to know how many rows there are in all. */
const COUNTING_MS = 150;

const ENDED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

export interface MailList {
  readonly hits: readonly SearchHit[];
  readonly all: HitCount;
  /** Of all, how many are deleted at the service; null where that was not counted to the end. */
  readonly ended: number | null;
  /** The id to continue after; null on the last page. */
  readonly next: string | null;
}

export type ListSort = 'newest' | 'oldest';

/**
 * Reads one page of what a query finds.
 *
 * @param after the last message of the page before, if any
 */
export function mailList(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  sort: ListSort,
  after: string | undefined,
): MailList {
  return catalog.snapshot(() => {
    const from = after === undefined ? undefined : catalog.messages.docidOf(after);
    const found = catalog.search({ ...request, limit: ROWS + 1, sort, after: from }).hits;
    const hits = found.slice(0, ROWS);
    const isAll = from === undefined && found.length <= ROWS;
    const all = isAll
      ? { count: hits.length, complete: true }
      : catalog.countHitsWhile(request, within(COUNTING_MS));
    const { node } = request;
    const gone = catalog.countHitsWhile(
      { ...request, node: { kind: 'and', nodes: [node, ENDED], span: node.span } },
      within(COUNTING_MS),
    );
    return {
      hits,
      all,
      ended: gone.complete ? gone.count : null,
      next: found.length > ROWS ? (hits.at(-1)?.line.id ?? null) : null,
    };
  });
}

/** Returns a function that says for so many milliseconds that there is time left. */
export function within(ms: number): () => boolean {
  const end = performance.now() + ms;
  return () => performance.now() < end;
}
