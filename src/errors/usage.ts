import { errorsOf } from './mailkeep-error.ts';

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
  /** AND, OR, NOT, - or NEAR without an operand. */
  readonly 'search-missing-operand': At;
  /** NEAR joins words and phrases only. */
  readonly 'search-near-operand': At;
  /** `asof:` applies to the complete query: it appears once, outside OR, NOT and brackets. */
  readonly 'search-misplaced-asof': At;
  /** So many words begin with so few letters that looking for all of them would take long. */
  readonly 'search-short-prefix': At & { readonly least: number };
  /** A sign that other programs take for a wildcard, an alternative or a regular expression, where it is none here. */
  readonly 'search-bad-wildcard': At & { readonly sign: '*' | '?' | '|' | '/' };
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
      | 'ranked'
      | 'spellings';
  };
}

/** An error in what was typed; exit code 2. */
export const searchError = errorsOf<SearchFacts>('usage');

/** Codes of wrong command lines, with the facts that fill their sentences. */
export interface UsageFacts {
  /** The parser of the command line refused; `problem` is its own words about option or argument names. */
  readonly 'usage-invalid': { readonly command: string; readonly problem: string };
  /** An argument of the library: its name, such as `options.limit`, and what is wrong with it. */
  readonly 'argument-invalid': { readonly argument: string; readonly problem: string };
  /** No command, where there are several; `help` is what the help says of them. */
  readonly 'usage-no-command': { readonly help: string };
  readonly 'usage-option': {
    readonly option: string;
    readonly found: string;
    /** A kind of name, or the words of the command line's own parsers. */
    readonly expected: 'configured-name' | 'search-name' | (string & {});
  };
  /** A question could not be asked because standard input is no terminal. */
  readonly 'usage-not-interactive': {
    readonly command: string;
    readonly missing: readonly string[];
  };
  readonly 'usage-unknown-account': {
    readonly account: string;
    readonly known: readonly string[];
    readonly suggestion: string | null;
  };
  /** A folder, mailbox or account that the archive never had; `candidates` may be empty. */
  readonly 'usage-unknown-name': {
    readonly kind: 'folder' | 'mailbox' | 'account';
    readonly found: string;
    readonly suggestion: string | null;
    readonly candidates: readonly string[];
  };
  /** `sync --mailbox` of a mailbox that the token does not reach; `known` are those it does, as far as is known. */
  readonly 'usage-unreachable-mailbox': {
    readonly mailbox: string;
    readonly known: readonly string[];
    readonly suggestion: string | null;
  };
  readonly 'usage-unlisted-folder': { readonly folder: string; readonly suggestion: string | null };
  /** A folder that went at the service: what was in it is found as deleted, or as of a time. */
  readonly 'usage-folder-gone': { readonly folder: string };
  readonly 'usage-unknown-message': { readonly id: string };
  /** Each candidate: as much of its id as makes it unique, and what people know the message by. */
  readonly 'usage-ambiguous-id': { readonly id: string; readonly candidates: readonly string[] };
  /** `--ids` of what cannot be read. */
  readonly 'usage-ids-unreadable': { readonly source: string; readonly reason: string };
  readonly 'usage-unknown-search': { readonly name: string; readonly suggestion: string | null };
  readonly 'usage-search-exists': { readonly name: string; readonly query: string };
  readonly 'usage-no-archive': { readonly dataDir: string };
  readonly 'usage-bad-date': { readonly option: string; readonly found: string };
  /** The archive is there, but holds no bytes of this message: it was purged, or never came whole. */
  readonly 'usage-no-source': { readonly id: string; readonly reason: string };
  /** A file that was asked for cannot be written; family `disk`: nothing is wrong with the command line. */
  readonly 'usage-save-failed': { readonly file: string; readonly reason: string };
}

/** An error of family `usage`, with exit code 2: what was typed cannot be done as typed. Unwritable files are `disk`. */
export const usageError = errorsOf<UsageFacts>('usage', { 'usage-save-failed': 'disk' });
