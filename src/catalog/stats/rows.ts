/** What messages are counted by. */
export const DIMENSIONS = [
  'year',
  'month',
  'mailbox',
  'folder',
  'type',
  'from',
  'to',
  'domain',
] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** Messages, their bytes, and how many of them are deleted. */
export interface Sums {
  readonly messages: number;
  readonly bytes: number;
  readonly deleted: number;
}

export function plus(a: Sums, b: Sums): Sums {
  return {
    messages: a.messages + b.messages,
    bytes: a.bytes + b.bytes,
    deleted: a.deleted + b.deleted,
  };
}

/** One row of statistics. */
export interface StatsRow {
  /** `2026`, `2026-03`, an address, a path, a type, or a domain. */
  readonly key: string;
  readonly messages: number;
  /** Bytes of the messages; of a type, those of its distinct contents; null where they are not counted. */
  readonly bytes: number | null;
  /** Null where they are not counted. */
  readonly deleted: number | null;
  /** Of a type: distinct contents. */
  readonly contents?: number;
  /** Of an address or domain: when the last message was received, ISO 8601. */
  readonly last?: string | null;
  /** What a search takes to find exactly these messages; null where the language cannot name them. */
  readonly query: string | null;
}

/** A message among the largest. */
export interface LargeMessage {
  readonly id: string;
  readonly size: number;
  readonly date: string | null;
  readonly subject: string | null;
  readonly from: { readonly name: string; readonly address: string } | null;
}

/** Messages with one Message-ID and different bytes, such as one's own copy and that of a list. */
export interface DuplicateRow {
  readonly messageId: string | null;
  readonly subject: string | null;
  readonly messages: number;
  readonly bytes: number;
  readonly query: string | null;
}

/** What no quotation marks can hold in a query. */
const UNQUOTABLE = /["“”„]/u;

/** Returns a term of a query with its value in quotation marks; null for a value that has some itself. */
export function term(operator: string, value: string): string | null {
  return UNQUOTABLE.test(value) || value === '' ? null : `${operator}:"${value}"`;
}
