import type { SearchNode } from '../../search/ast.ts';
import type { Connection } from '../connection.ts';
import { isVisible } from '../scope.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import { type Carrier, carriersOf } from './carriers.ts';
import type { FileGroup } from './group-names.ts';
import { fileGroup } from './groups.ts';

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
  /** The same of attachments that the reader may know. */
  readonly #meant: string;
  /** Whether the query finds every message. */
  readonly #isAll: boolean;
  #searches = 0;
  /** What the query finds, the newest first, as far as it was walked over. */
  readonly #found: number[] = [];
  #walk: Generator<number, number | null, undefined> | undefined;

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
    this.#meant = `${this.#rowFilter}${scope === undefined ? '' : ` AND ${isVisible(scope)}`}`;
  }

  /** Distinct contents that were met: what the walk holds in memory. */
  get met(): number {
    return this.#seen.size;
  }

  /**
   * Yields what is behind a position, or everything; and wherever some thousand messages were read, the position that was
   * reached, so that whoever waits can give up. Ends where `mayContinue` says no. A content is met again behind a position
   * where there was no time to find the newer message that has it.
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
          if (position !== undefined && this.#isEarlier(row.hash, position, mayContinue)) continue;
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
      this.#walk?.return(null);
    }
  }

  /** Returns the newest message of the result that has a content; undefined also where there is no time to find it. */
  newestWith(hash: Buffer, mayContinue: () => boolean): FoundFile | undefined {
    const docid = this.#newestAmong(this.#carriers(hash, mayContinue), mayContinue);
    this.#walk?.return(null);
    if (docid === undefined) return undefined;
    const [row] = [...this.#rowsOf([docid])].filter((known) => known.hash.equals(hash));
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
  #isEarlier(hash: Buffer, position: FilePosition, mayContinue: () => boolean): boolean {
    const carriers = this.#carriers(hash, mayContinue);
    const earlier = upTo(carriers, position);
    if (!this.#isAll) return this.#newestAmong(earlier, mayContinue) !== undefined;
    const [first] = earlier;
    return first !== undefined;
  }

  /** The attachments with a content, those of the newest message first. */
  #carriers(hash: Buffer, mayContinue: () => boolean): Iterable<Carrier> {
    const asked = { meant: this.#meant, order: 'newest' } as const;
    return carriersOf(this.connection, hash, asked, mayContinue);
  }

  /** Returns the newest message with one of some attachments that the query finds; these come newest first. */
  #newestAmong(carriers: Iterable<Carrier>, mayContinue: () => boolean): number | undefined {
    let among: number[] = [];
    for (const { docid } of carriers) {
      if (among.at(-1) === docid) continue;
      if (among.length === AMONG) {
        const found = this.#newestOf(among, mayContinue);
        if (found !== undefined || !mayContinue()) return found;
        among = [];
      }
      among.push(docid);
    }
    return this.#newestOf(among, mayContinue);
  }

  #newestOf(among: readonly number[], mayContinue: () => boolean): number | undefined {
    const oldest = among.at(-1);
    if (oldest === undefined) return undefined;
    if (this.#searches < MOST_SEARCHES) {
      this.#searches += 1;
      for (const docid of this.search.walkFound({ ...this.#request, among }, mayContinue))
        return docid;
      return undefined;
    }
    this.#findDownTo(oldest, mayContinue);
    return among.find((docid) => isAmong(this.#found, docid));
  }

  /** Walks on over what the query finds, from where the last walk ended down to a docid. */
  #findDownTo(docid: number, mayContinue: () => boolean): void {
    this.#walk ??= this.search.walkFound(this.#request, mayContinue);
    while ((this.#found.at(-1) ?? Number.POSITIVE_INFINITY) > docid) {
      const next = this.#walk.next();
      if (next.done === true) return;
      this.#found.push(next.value);
    }
  }
}

/** The attachments at or before a position. */
function* upTo(
  carriers: Iterable<Carrier>,
  position: FilePosition,
): Generator<Carrier, void, undefined> {
  for (const carrier of carriers) {
    if (carrier.docid < position.docid) return;
    if (isAt(carrier, position)) yield carrier;
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
