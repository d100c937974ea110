import { findTerm, termsOf, withoutTerm, withTerm } from './query-terms.ts';

/** Returns a filter of the query language, such as `in:"INBOX.Old mail"`. */
export function filterText(operator: string, value: string): string {
  const isPlain = /^[\p{L}\p{N}@._+/-]+$/u.test(value);
  return `${operator}:${isPlain ? value : `"${value.replaceAll('"', '')}"`}`;
}

/** What no quotation marks can hold in a query. */
const UNQUOTABLE = /["“”„]/u;

/** Returns a filter that finds a folder; null for a path that the language cannot name. */
export function folderText(path: string): string | null {
  return UNQUOTABLE.test(path) ? null : filterText('in', path);
}

/** Returns a filter that finds mailboxes of one address: by their ids, where the language cannot name it. */
export function mailboxText(
  mailboxes: readonly { readonly address: string; readonly mailbox: string }[],
): string {
  const address = mailboxes[0]?.address ?? '';
  if (!UNQUOTABLE.test(address)) return filterText('mailbox', address);
  const ids = mailboxes.map(({ mailbox }) => filterText('mailbox', mailbox));
  return ids.length === 1 ? ids.join('') : `(${ids.join(' OR ')})`;
}

/** Returns a query that asks for something, or does not any more; the rest stays as it was typed. */
export function toggled(query: string, text: string): string {
  const term = findTerm(query, text);
  return term === undefined ? withTerm(query, text) : withoutTerm(query, term);
}

/** Returns the part of a query that says as of when: `asof:…` as it was typed, or an empty text. */
export function asOfWord(query: string): string {
  return termsOf(query).terms.find(({ operator }) => operator === 'asof')?.text ?? '';
}

/**
 * Returns a query as of another moment; what else stands in it stays as it was typed.
 *
 * @param moment milliseconds since the epoch; null for now
 */
export function asOf(query: string, moment: number | null): string {
  const old = asOfWord(query);
  const without = old === '' ? query : toggled(query, old);
  if (moment === null) return without;
  // Whole seconds in UTC: the query has no finer moments, and its zone is not the reader's.
  const word = `asof:${new Date(moment).toISOString().replace(/\.\d+Z$/, 'Z')}`;
  return withTerm(without, word);
}

/** Returns the moment that a query names for a time: queries have whole seconds, and mean the end of them. */
export function namedMoment(time: number): number {
  return Math.floor(time / 1000) * 1000 + 999;
}

export interface MailAddress {
  readonly q?: string | undefined;
  readonly m?: string | undefined;
  readonly view?: string | undefined;
  readonly after?: string | undefined;
  readonly sort?: string | undefined;
}

/** Returns the address of a page, with the parameters that have a value. */
export function pageAddress(
  path: string,
  parameters: MailAddress & Record<string, string | undefined>,
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value]],
  );
  const search = new URLSearchParams(given).toString();
  return search === '' ? path : `${path}?${search}`;
}
