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
  /** AND, OR, NOT, - or NEAR without an operand. */
  readonly 'search-missing-operand': At;
  /** NEAR joins words and phrases only. */
  readonly 'search-near-operand': At;
  /** `asof:` applies to the complete query: it appears once, outside OR, NOT and brackets. */
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

/** Codes of the configuration room, with the facts that fill their sentences. */
export interface ConfigFacts {
  /** No file at any of the places that were searched, or none at the one that was asked for. */
  readonly 'config-not-found': { readonly searched: readonly string[] };
  /** `reason` is the errno name, such as EACCES. */
  readonly 'config-unreadable': { readonly file: string; readonly reason: string };
  /** `line` and `column` count from 1; null if the parser does not report them. */
  readonly 'config-not-json': {
    readonly file: string;
    readonly line: number | null;
    readonly column: number | null;
  };
  /**
   * Lists of one length: the path of each wrong field, what stood there (never a secret; empty for a field that is
   * unknown), what belongs there (for an unknown field, the names there are), and what was probably meant (or empty).
   */
  readonly 'config-invalid': {
    readonly file: string;
    readonly paths: readonly string[];
    readonly found: readonly string[];
    readonly expected: readonly string[];
    readonly suggestions: readonly string[];
  };
  readonly 'config-exists': { readonly file: string };
  /** Where the token was looked for: `env NAME`, `file PATH`, `credential NAME`. */
  readonly 'token-missing': { readonly source: string; readonly name: string };
  readonly 'token-empty': { readonly source: string; readonly name: string };
  readonly 'token-unreadable': {
    readonly source: string;
    readonly name: string;
    readonly reason: string;
  };
  /** The text holds white space or control characters inside: it cannot be sent in a header. */
  readonly 'token-unusable': { readonly source: string; readonly name: string };
}

export type ConfigCode = keyof ConfigFacts;

/** An error of family `config`: the user's settings are the cause, and exit code 2 the effect. */
export function configError<C extends ConfigCode>(
  code: C,
  facts: ConfigFacts[C],
  cause?: unknown,
): MailkeepError<C, ConfigFacts[C]> {
  return new MailkeepError('config', code, facts, cause === undefined ? {} : { cause });
}

/**
 * Codes of operations that were asked for by hand, with the facts that fill their sentences. Nothing was sent
 * when one of these is raised, but for a question that an address had to be looked up with.
 */
export interface OperationFacts {
  /** `nearest`: names it may have been meant for, best first. */
  readonly 'operation-unknown': { readonly operation: string; readonly nearest: readonly string[] };
  /** `inBody`: the name is a field of the body. */
  readonly 'operation-param-unknown': {
    readonly operation: string;
    readonly param: string;
    readonly nearest: string | null;
    readonly known: readonly string[];
    readonly inBody: boolean;
  };
  readonly 'operation-param-missing': {
    readonly operation: string;
    readonly param: string;
    readonly expected: string;
    readonly help: string;
  };
  readonly 'operation-param-invalid': {
    readonly operation: string;
    readonly param: string;
    readonly found: string;
    readonly expected: string;
  };
  readonly 'operation-param-twice': { readonly operation: string; readonly param: string };
  readonly 'operation-no-body': { readonly operation: string };
  readonly 'operation-body-missing': {
    readonly operation: string;
    readonly fields: readonly string[];
  };
  readonly 'operation-field-unknown': {
    readonly operation: string;
    readonly field: string;
    readonly nearest: string | null;
    readonly known: readonly string[];
  };
  /** `source` is a file, or says that the text was piped or typed. */
  readonly 'operation-body-unreadable': { readonly source: string; readonly reason: string };
  /** `line` and `column` show where it stops being JSON; null if it is JSON, but not an object. */
  readonly 'operation-body-no-object': {
    readonly source: string;
    readonly line: number | null;
    readonly column: number | null;
  };
  readonly 'operation-needs-platform': { readonly operation: string; readonly account: string };
  readonly 'operation-needs-account': { readonly known: readonly string[] };
  /** `act` is a name of an operation or of a command. */
  readonly 'operation-needs-yes': { readonly act: string };
  readonly 'operation-bytes-on-terminal': { readonly operation: string };
  /** The address belongs to none of the mailboxes that the token of the account reaches. */
  readonly 'operation-mailbox-unknown': {
    readonly address: string;
    readonly account: string;
    readonly known: readonly string[];
    readonly suggestion: string | null;
  };
  /** None of several accounts reaches the mailbox; `known` are those that they reach together. */
  readonly 'operation-mailbox-nowhere': {
    readonly address: string;
    readonly known: readonly string[];
    readonly suggestion: string | null;
  };
}

export type OperationCode = keyof OperationFacts;

/** An error of family `usage`: the operation cannot be called as it was typed. Exit code 2. */
export function operationError<C extends OperationCode>(
  code: C,
  facts: OperationFacts[C],
): MailkeepError<C, OperationFacts[C]> {
  return new MailkeepError('usage', code, facts);
}

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
    readonly expected: string;
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

export type UsageCode = keyof UsageFacts;

/** An error of family `usage`, with exit code 2: what was typed cannot be done as typed. Unwritable files are `disk`. */
export function usageError<C extends UsageCode>(
  code: C,
  facts: UsageFacts[C],
): MailkeepError<C, UsageFacts[C]> {
  return new MailkeepError(code === 'usage-save-failed' ? 'disk' : 'usage', code, facts);
}
