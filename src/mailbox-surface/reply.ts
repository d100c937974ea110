export interface FileRange {
  readonly path: string | Buffer;
  readonly start: number;
  readonly length: number;
}

/** What an operation answers, before faults and latency have their say. */
export type Reply =
  | { readonly kind: 'empty'; readonly status: number }
  | {
      readonly kind: 'text';
      readonly status: number;
      readonly text: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'bytes'; readonly type: string; readonly bytes: Buffer }
  /** A large source that is streamed from its file instead of being read whole. */
  | { readonly kind: 'file'; readonly type: string; readonly range: FileRange };

/** An answer whose bytes are in memory. */
export type ReadyReply = Exclude<Reply, { kind: 'file' }>;

export const NO_CONTENT: ReadyReply = { kind: 'empty', status: 204 };

/** A single resource or a list in the `data` wrapper. */
export function dataReply(data: unknown, status = 200): ReadyReply {
  return { kind: 'text', status, text: JSON.stringify({ data }) };
}

/** Returns a page: items that are JSON texts already, with their pagination. */
export function pageReply(items: readonly string[], page: Page, total: number): ReadyReply {
  const totalPages = Math.ceil(total / page.perPage);
  return {
    kind: 'text',
    status: 200,
    text: `{"data":[${items.join(',')}],"pagination":{"page":${page.page},"perPage":${page.perPage},"total":${total},"totalPages":${totalPages}}}`,
  };
}

/** Returns one page of a collection that is there as a whole. */
export function pageOfAll<T>(
  all: readonly T[],
  page: Page,
  recordOf: (item: T) => object,
): ReadyReply {
  const offset = pageOffset(page);
  const items = all.slice(offset, offset + page.perPage);
  return pageReply(
    items.map((item) => JSON.stringify(recordOf(item))),
    page,
    all.length,
  );
}

/** Which page was asked for; both are 1-based and within their limits. */
export interface Page {
  readonly page: number;
  readonly perPage: number;
}

export function pageOffset(page: Page): number {
  return (page.page - 1) * page.perPage;
}
