import { errorsOf } from './mailkeep-error.ts';

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

/** An error of family `usage`: the operation cannot be called as it was typed. Exit code 2. */
export const operationError = errorsOf<OperationFacts>('usage');
