import { MailkeepError } from './mailkeep-error.ts';

/** Codes of wrong command lines, with the facts that fill their sentences. */
export interface UsageFacts {
  /** The parser of the command line refused; `problem` is its own words about option or argument names. */
  readonly 'usage-invalid': { readonly command: string; readonly problem: string };
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
  /** Each candidate: as much of its id as tells it apart, and what people know the message by. */
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
