import { MailkeepError } from './mailkeep-error.ts';

/** Codes of wrong command lines, with the facts that fill their sentences. */
export interface UsageFacts {
  /** The parser of the command line refused; `problem` is its own words about option or argument names. */
  readonly 'usage-invalid': { readonly command: string; readonly problem: string };
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
  readonly 'usage-unknown-account': { readonly account: string; readonly known: readonly string[] };
  readonly 'usage-unknown-message': { readonly id: string };
  /** Each candidate: as much of its id as tells it apart, and what people know the message by. */
  readonly 'usage-ambiguous-id': { readonly id: string; readonly candidates: readonly string[] };
  readonly 'usage-unknown-search': { readonly name: string; readonly suggestion: string | null };
  readonly 'usage-search-exists': { readonly name: string; readonly query: string };
  readonly 'usage-no-archive': { readonly dataDir: string };
  readonly 'usage-bad-date': { readonly option: string; readonly found: string };
  /** The archive is there, but holds no bytes of this message: it was purged, or never came whole. */
  readonly 'usage-no-source': { readonly id: string; readonly reason: string };
  readonly 'usage-save-failed': { readonly file: string; readonly reason: string };
}

export type UsageCode = keyof UsageFacts;

/** An error of family `usage`: what was typed cannot be done as typed. Exit code 2. */
export function usageError<C extends UsageCode>(
  code: C,
  facts: UsageFacts[C],
): MailkeepError<C, UsageFacts[C]> {
  return new MailkeepError('usage', code, facts);
}
