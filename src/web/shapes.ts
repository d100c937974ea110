import type { SearchNode } from '../catalog/query-ast.ts';

/** Rows that are offered at most. */
export const MOST_ROWS = 8;

/** What may be meant by the word under the caret. */
export interface CompletionRow {
  /** What replaces the query from `from` to `to`, in UTF-16 code units. */
  readonly insert: string;
  readonly from: number;
  readonly to: number;
  /** What it is called. Strangers wrote names and addresses: they are only text. */
  readonly label: string;
  readonly detail: string;
  /** Messages that the term finds by itself; null where that is not known at once. */
  readonly count: number | null;
  readonly kind:
    | 'operator'
    | 'person'
    | 'folder'
    | 'mailbox'
    | 'account'
    | 'value'
    | 'type'
    | 'date'
    | 'search';
}

export interface CompletionRequest {
  readonly query: string;
  /** UTF-16 code units before the caret. */
  readonly caret: number;
  readonly now: number;
  readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>;
  /** Returns the number of messages that a query finds, where it is known already. */
  readonly knownCount: (query: string) => number | null;
}

/** A row before it is known what it replaces. */
export type OfferedRow = Omit<CompletionRow, 'from' | 'to'>;
