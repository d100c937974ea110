/** Where a node stands in the query: UTF-16 code units from `start` up to `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The parts of a message that text is sought in. `any` is all of them. */
export type TextField =
  | 'any'
  | 'from'
  | 'to'
  | 'cc'
  | 'bcc'
  | 'deliveredto'
  | 'recip'
  | 'contact'
  | 'subject'
  | 'body'
  | 'filename';

/** Those of them that name people. */
export type PeopleField = Exclude<TextField, 'any' | 'subject' | 'body' | 'filename'>;

/** What a message can be, by its flags or by its end. */
export const STATES = [
  'unread',
  'read',
  'starred',
  'unstarred',
  'answered',
  'unanswered',
  'forwarded',
  'draft',
  'deleted',
] as const;
export type State = (typeof STATES)[number];

/** A word or a phrase: its words stand one after the other. With `prefix` the last one may go on. */
export interface TextNode {
  readonly kind: 'text';
  readonly field: TextField;
  readonly text: string;
  readonly prefix: boolean;
  readonly span: Span;
}

/**
 * How a query was understood. Times are milliseconds since the epoch, intervals half-open; sizes are bytes of
 * the raw source, both ends included.
 */
export type SearchNode =
  | TextNode
  | { readonly kind: 'and' | 'or'; readonly nodes: readonly SearchNode[]; readonly span: Span }
  | { readonly kind: 'not'; readonly node: SearchNode; readonly span: Span }
  /** All within `distance` words of each other, in any order. */
  | {
      readonly kind: 'near';
      readonly terms: readonly TextNode[];
      readonly distance: number;
      readonly span: Span;
    }
  | { readonly kind: 'all'; readonly span: Span }
  | { readonly kind: 'has'; readonly what: 'attachment' | 'inline'; readonly span: Span }
  /** An address of the archive's own mailboxes. */
  | { readonly kind: 'me'; readonly field: PeopleField; readonly span: Span }
  | { readonly kind: NamedKind; readonly value: string; readonly span: Span }
  | { readonly kind: 'state'; readonly state: State; readonly span: Span }
  | {
      readonly kind: 'received';
      readonly from: number | null;
      readonly to: number | null;
      readonly span: Span;
    }
  /** By when the archive observed it: stored for the first time, or deleted at the origin and so ever since. */
  | {
      readonly kind: 'observed';
      readonly what: 'added' | 'deleted';
      readonly from: number | null;
      readonly to: number | null;
      readonly span: Span;
    }
  | {
      readonly kind: 'size';
      readonly min: number | null;
      readonly max: number | null;
      readonly span: Span;
    };

/** Filters by a name that the archive gives a meaning to. */
export type NamedKind =
  | 'list'
  | 'mime'
  | 'id'
  | 'thread'
  | 'folder'
  | 'mailbox'
  | 'account'
  | 'flag';

/** A whole query. */
export interface SearchQuery {
  readonly node: SearchNode;
  /** From `asof:`, milliseconds since the epoch. */
  readonly asOf: number | null;
  /** Words without a letter or digit: no index holds them, so they are left out. */
  readonly ignored: readonly Span[];
}

export interface ParseContext {
  /** Milliseconds since the epoch: what relative dates are relative to. */
  readonly now: number;
  /** IANA name of the zone whose days are meant; absent: this machine's. */
  readonly timeZone?: string;
}
