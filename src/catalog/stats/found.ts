import type { SearchNode } from '../../search/ast.ts';
import type { Connection } from '../connection.ts';
import type { CountRequest, SearchQueries } from '../search/search.ts';
import type { Sums } from './rows.ts';

/** A message that a query finds. */
export interface FoundMessage {
  readonly docid: number;
  readonly size: number;
  readonly deleted: boolean;
}

/** Docids that one statement asks about. */
const CHUNK = 5_000;
const SPAN = { start: 0, end: 0 };

/** What a query finds, counted message by message. */
export class Found {
  #docids: readonly number[] | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly search: Pick<SearchQueries, 'foundDocids'>,
    private readonly request: CountRequest,
  ) {}

  /** Returns the messages that the query finds, or those of them that another term finds as well, newest first. */
  messages(term?: SearchNode): FoundMessage[] {
    const docids = term === undefined ? this.#all() : this.#docidsOf(term);
    const state: SearchNode = { kind: 'state', state: 'deleted', span: SPAN };
    const deleted = new Set(this.#docidsOf(...(term === undefined ? [state] : [term, state])));
    const sizes = new Map(
      this.rowsOf<{ docid: number; size: number }>(
        docids,
        'SELECT docid, size FROM messages WHERE docid IN',
      ).map(({ docid, size }) => [docid, size]),
    );
    return docids.map((docid) => ({
      docid,
      size: sizes.get(docid) ?? 0,
      deleted: deleted.has(docid),
    }));
  }

  sums(term?: SearchNode): Sums {
    return sumsOf(this.messages(term));
  }

  /** All rows that a statement gives of the messages; it ends before the list of their docids. */
  rows<R>(sql: string): R[] {
    return this.rowsOf<R>(this.#all(), sql);
  }

  rowsOf<R>(docids: readonly number[], sql: string): R[] {
    const rows: R[] = [];
    for (let at = 0; at < docids.length; at += CHUNK) {
      const list = JSON.stringify(docids.slice(at, at + CHUNK));
      for (const row of this.connection.text<R>(`${sql} (SELECT value FROM json_each(?))`, [list]))
        rows.push(row);
    }
    return rows;
  }

  #all(): readonly number[] {
    this.#docids ??= [...this.search.foundDocids(this.request)];
    return this.#docids;
  }

  #docidsOf(...terms: readonly SearchNode[]): number[] {
    const node: SearchNode = { kind: 'and', nodes: [this.request.node, ...terms], span: SPAN };
    return [...this.search.foundDocids({ ...this.request, node })];
  }
}

export function sumsOf(messages: readonly FoundMessage[]): Sums {
  return {
    messages: messages.length,
    bytes: messages.reduce((sum, { size }) => sum + size, 0),
    deleted: messages.filter(({ deleted }) => deleted).length,
  };
}

/** Returns a term that names a folder, mailbox or type. */
export function named(kind: 'folder' | 'mailbox' | 'mime', value: string): SearchNode {
  return { kind, value, span: SPAN };
}

/** Returns a query that finds everything. */
export function everything(): SearchNode {
  return { kind: 'all', span: SPAN };
}
