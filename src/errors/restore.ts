import { errorsOf, hasCode, type MailkeepError } from './mailkeep-error.ts';

/** Codes of a restore and of the server it goes to, with the facts that fill their sentences. */
export interface RestoreFacts {
  /** `--to` is no address of an IMAP server; `found` never has a password in it. */
  readonly 'restore-target-invalid': { readonly found: string; readonly problem: string };
  /** Without TLS a password can be read on its way: allowed to this machine only. */
  readonly 'restore-needs-tls': { readonly host: string };
  readonly 'restore-no-password': { readonly user: string };
  /** `source` is a file or a variable of the environment. */
  readonly 'restore-password-unreadable': { readonly source: string; readonly reason: string };
  /** In place there can be one mailbox only. */
  readonly 'restore-several-mailboxes': { readonly mailboxes: readonly string[] };
  /** Another process carries out the same restore. */
  readonly 'restore-running': { readonly target: string };
  /** The plan cannot be journaled, so an interruption could not be continued. */
  readonly 'restore-journal-unwritable': { readonly file: string; readonly reason: string };
  readonly 'restore-login-refused': {
    readonly user: string;
    readonly host: string;
    readonly text: string;
  };
  readonly 'restore-unreachable': {
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
  readonly 'restore-certificate': { readonly host: string; readonly reason: string };
  /** A command was answered with NO or BAD: nothing was stored. `response` is the response code, if any (RFC 5530). */
  readonly 'restore-refused': {
    readonly command: string;
    readonly response: string | null;
    readonly text: string;
  };
  /** The server asks to wait; `waitMs` is null where it does not say how long. */
  readonly 'restore-throttled': { readonly text: string; readonly waitMs: number | null };
  /** The connection broke; of a command under way nobody knows whether it was carried out. */
  readonly 'restore-connection-lost': { readonly host: string; readonly reason: string };
  /** The connection broke `tries` times in a row, or could not be made again. */
  readonly 'restore-gave-up': {
    readonly host: string;
    readonly tries: number;
    readonly reason: string;
  };
  /** The counts of what became of the messages do not add up to the plan. */
  readonly 'restore-incomplete': { readonly planned: number; readonly accounted: number };
}

/** An error of a restore. What the server has stays there, and the same command continues. */
export const restoreError = errorsOf<RestoreFacts>(
  'origin',
  {
    'restore-target-invalid': 'usage',
    'restore-needs-tls': 'usage',
    'restore-no-password': 'usage',
    'restore-password-unreadable': 'usage',
    'restore-several-mailboxes': 'usage',
    'restore-running': 'in-use',
    'restore-journal-unwritable': 'disk',
    'restore-login-refused': 'auth',
    'restore-incomplete': 'damage',
  },
  ['restore-unreachable', 'restore-throttled', 'restore-connection-lost', 'restore-gave-up'],
);

/** True for an error of a restore with this code. */
export function isRestoreError<Code extends keyof RestoreFacts>(
  error: unknown,
  code: Code,
): error is MailkeepError<Code, RestoreFacts[Code]> {
  return hasCode(error, code);
}
