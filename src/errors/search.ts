import { MailkeepError } from './mailkeep-error.ts';

/** Where in the query text: `position` counts UTF-16 code units from 0, `found` is what stands there. */
type At = {
  readonly position: number;
  readonly found: string;
};

/** Codes of queries that cannot be understood, with the facts that fill their sentences. */
export interface SearchFacts {
  /** Nothing to look for: no text, or only signs that no index holds. */
  readonly 'search-empty': { readonly query: string };
  /** `suggestion` is the operator that was probably meant, or null; quoting makes it plain text. */
  readonly 'search-unknown-operator': At & { readonly suggestion: string | null };
  /** Known elsewhere, but about data that an archive does not have; `instead` is an operator to try, or null. */
  readonly 'search-foreign-operator': At & { readonly instead: string | null };
  readonly 'search-missing-value': At & { readonly expected: string };
  /** A value an operator does not know; `expected` lists those it does. */
  readonly 'search-bad-value': At & {
    readonly operator: string;
    readonly expected: readonly string[];
    readonly suggestion: string | null;
  };
  readonly 'search-bad-date': At & { readonly operator: string };
  /** Day and month could be either way round. */
  readonly 'search-ambiguous-date': At & { readonly operator: string };
  readonly 'search-bad-size': At & { readonly operator: string };
  /** A quotation mark or bracket that is never closed, or a closing one that was never opened. */
  readonly 'search-unbalanced': At;
  /** AND, OR, NOT, - or NEAR without something to stand beside. */
  readonly 'search-missing-operand': At;
  /** NEAR joins words and phrases only. */
  readonly 'search-near-operand': At;
  /** `asof:` belongs beside the rest of the query, not inside OR, NOT or brackets, and once. */
  readonly 'search-misplaced-asof': At;
  /** So many words begin with so few letters that looking for all of them would take long. */
  readonly 'search-short-prefix': At & { readonly least: number };
  readonly 'search-too-long': { readonly length: number; readonly limit: number };
  /** Too many words, too deep, or too many alternatives once filters are multiplied out. */
  readonly 'search-too-complex': {
    readonly limit: number;
    readonly of:
      | 'terms'
      | 'depth'
      | 'alternatives'
      | 'prefixes'
      | 'stars'
      | 'phrase'
      | 'near'
      | 'ranked';
  };
}

export type SearchCode = keyof SearchFacts;

/** An error in what was typed; exit code 2. */
export function searchError<C extends SearchCode>(
  code: C,
  facts: SearchFacts[C],
): MailkeepError<C, SearchFacts[C]> {
  return new MailkeepError('usage', code, facts);
}
