import type { SearchNode } from '../../search/ast.ts';
import type { Connection } from '../connection.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { type FileGroup, fileGroup } from './groups.ts';

/** Which attachments are meant: those of the messages that a query finds. */
export interface FilesRequest extends CountRequest {
  /** Only this group. */
  readonly group?: FileGroup | undefined;
  /** Pictures that stand in the text of their message count as well: mostly logos of signatures. */
  readonly inlinePictures?: boolean | undefined;
}

/** A place in the list of attachments: an attachment of a message, or with number 0 what is before its first. */
export interface FilePosition {
  readonly docid: number;
  readonly number: number;
}

/** A distinct content with the newest message of the result that has it. */
export interface FoundFile extends FilePosition {
  readonly filename: string | null;
  /** In lower case. */
  readonly type: string;
  readonly size: number;
  readonly hash: Buffer;
  readonly group: FileGroup;
  readonly textId: number | null;
}

/** How far a walk has come. */
interface Reached {
  readonly reached: FilePosition;
}

interface Row extends Omit<FoundFile, 'group' | 'textId'> {
  readonly text_id: number | null;
}

/** Messages whose attachments one statement reads: at first, and at most. */
const FIRST = 128;
const MOST = 2_048;
/** Messages that one search is asked about. */
const AMONG = 16;
/** Searches of that kind; whoever needs more walks over the result once. */
const MOST_SEARCHES = 32;

const SPAN = { start: 0, end: 0 };
const HAS_ANY: SearchNode = {
  kind: 'or',
  nodes: [
    { kind: 'has', what: 'attachment', span: SPAN },
    { kind: 'has', what: 'inline', span: SPAN },
  ],
  span: SPAN,
};

/**
 * Walks over the distinct contents that a query's messages attach, those of the newest message first. A content counts
 * where the newest message of the result has it, and nowhere else: also where the walk begins behind that message.
 */
export class FoundFiles {
  /** Hashes that were met. */
  readonly #seen = new Set<string>();
  readonly #request: FilesRequest;
  readonly #rowFilter: string;
  /** Whether the query finds every message. */
  readonly #isAll: boolean;
  #searches = 0;
  /** What the query finds down to a docid, once it was walked over. */
  #found: { readonly low: number; readonly docids: readonly number[] } | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly search: Pick<SearchQueries, 'walkFound'>,
    request: FilesRequest,
  ) {
    const { node, asOf, scope } = request;
    this.#isAll = node.kind === 'all' && asOf === undefined && scope === undefined;
    this.#request = { ...request, node: { kind: 'and', nodes: [node, HAS_ANY], span: node.span } };
    // What an older version listed without its hash, or not at all, comes with the next indexing.
    this.#rowFilter = `a.hash IS NOT NULL AND a.type <> ''${
      request.inlinePictures === true ? '' : " AND NOT (a.inline = 1 AND a.type LIKE 'image/%')"
    }`;
  }

  /** Distinct contents that were met: what the walk holds in memory. */
  get met(): number {
    return this.#seen.size;
  }

  /**
   * Yields what is behind a position, or everything; and wherever some thousand messages were read, the position that was
   * reached, so that whoever waits can give up. Ends where `mayContinue` says no.
   */
  *behind(
    position: FilePosition | undefined,
    mayContinue: () => boolean,
  ): Generator<FoundFile | Reached, void, undefined> {
    const { group } = this.#request;
    const after = position === undefined ? undefined : position.docid + 1;
    const docids = this.search.walkFound({ ...this.#request, after }, mayContinue);
    try {
      for (let size = FIRST; ; size = Math.min(MOST, size * 2)) {
        const { chunk, end } = taken(docids, size);
        for (const row of this.#rowsOf(chunk)) {
          if (position !== undefined && isAt(row, position)) continue;
          const key = row.hash.toString('latin1');
          if (this.#seen.has(key)) continue;
          this.#seen.add(key);
          const its = fileGroup(row.type, row.filename);
          // Each group has what it would have without the others: the newest message decides the type as well.
          if (group !== undefined && group !== its) continue;
          if (position !== undefined && this.#isEarlier(row.hash, position)) continue;
          const { text_id: textId, ...rest } = row;
          yield { ...rest, textId, group: its };
        }
        if (end === null) return;
        // Before the first attachment of whatever comes next.
        const next = end ?? chunk.at(-1) ?? 0;
        yield { reached: { docid: next - 1, number: 0 } };
        if (end !== undefined) return;
      }
    } finally {
      docids.return(null);
    }
  }

  /** Returns the newest message of the result that has a content. */
  newestWith(hash: Buffer): FoundFile | undefined {
    const docids = this.#newestAmong(this.#holders(hash));
    if (docids === undefined) return undefined;
    const [row] = [...this.#rowsOf([docids])].filter((known) => known.hash.equals(hash));
    if (row === undefined) return undefined;
    const { text_id: textId, ...rest } = row;
    return { ...rest, textId, group: fileGroup(row.type, row.filename) };
  }

  #rowsOf(docids: readonly number[]): IterableIterator<Row> {
    return this.connection.text<Row>(
      `SELECT a.docid, a.number, a.filename, a.type, a.size, a.hash, a.text_id FROM attachments a
       WHERE a.docid IN (SELECT value FROM json_each(?)) AND ${this.#rowFilter}
       ORDER BY a.docid DESC, a.number`,
      [JSON.stringify(docids)],
    );
  }

  /** Whether a message of the result at or before a position has a content. */
  #isEarlier(hash: Buffer, { docid, number }: FilePosition): boolean {
    const earlier = this.connection.column<number>(
      `SELECT DISTINCT a.docid FROM attachments a
       WHERE a.hash = ? AND ${this.#rowFilter} AND (a.docid > ? OR (a.docid = ? AND a.number <= ?))`,
      [hash, BigInt(docid), BigInt(docid), BigInt(number)],
    );
    if (earlier.length === 0 || this.#isAll) return earlier.length > 0;
    // As far as any content of this walk may ask.
    if (this.#searches >= MOST_SEARCHES) this.#foundFrom(docid);
    return this.#newestAmong(earlier) !== undefined;
  }

  #holders(hash: Buffer): number[] {
    return this.connection.column<number>(
      `SELECT DISTINCT a.docid FROM attachments a WHERE a.hash = ? AND ${this.#rowFilter}`,
      [hash],
    );
  }

  /** Returns the newest of some messages that the query finds. */
  #newestAmong(docids: readonly number[]): number | undefined {
    const newest = docids.toSorted((a, b) => b - a);
    let at = 0;
    for (; at < newest.length && this.#searches < MOST_SEARCHES; at += AMONG) {
      this.#searches += 1;
      const among = newest.slice(at, at + AMONG);
      for (const docid of this.search.walkFound({ ...this.#request, among })) return docid;
    }
    const oldest = newest.at(-1);
    if (oldest === undefined || at >= newest.length) return undefined;
    const found = this.#foundFrom(oldest);
    return newest.slice(at).find((docid) => isAmong(found, docid));
  }

  /** Returns what the query finds from the newest message to one. */
  #foundFrom(docid: number): readonly number[] {
    if (this.#found !== undefined && this.#found.low <= docid) return this.#found.docids;
    const docids: number[] = [];
    for (const found of this.search.walkFound(this.#request)) {
      if (found < docid) break;
      docids.push(found);
    }
    this.#found = { low: docid, docids };
    return docids;
  }
}

/** Whether a docid is among others, the highest of which comes first. */
function isAmong(docids: readonly number[], docid: number): boolean {
  let [from, to] = [0, docids.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((docids[middle] ?? 0) > docid) from = middle + 1;
    else to = middle;
  }
  return docids[from] === docid;
}

/** Whether an attachment is at or before a position. */
function isAt(row: FilePosition, { docid, number }: FilePosition): boolean {
  return row.docid > docid || (row.docid === docid && row.number <= number);
}

/** The next of a walk; `end` is what it returned, or undefined where there may be more. */
function taken(
  docids: Generator<number, number | null, undefined>,
  most: number,
): { readonly chunk: number[]; readonly end: number | null | undefined } {
  const chunk: number[] = [];
  while (chunk.length < most) {
    const next = docids.next();
    if (next.done === true) return { chunk, end: next.value };
    chunk.push(next.value);
  }
  return { chunk, end: undefined };
}
