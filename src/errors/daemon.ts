import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** A port of the daemon's that cannot be listened on; `section` is the one of the configuration that names it. */
export interface ListenFacts {
  readonly 'cannot-listen': {
    readonly section: string;
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
}

/** Exit code 2: the configuration names an address that is taken, not this machine's, or not allowed. */
export function cannotListen(
  facts: ListenFacts['cannot-listen'],
  cause: unknown,
): MailkeepError<'cannot-listen', ListenFacts['cannot-listen']> {
  return new MailkeepError('config', 'cannot-listen', facts, { cause });
}

/** Codes of the local service (`mailkeep sandbox`), with the facts that fill their sentences. */
export interface ServiceFacts {
  /** A path given as a seed cannot be read. */
  readonly 'sandbox-seed-unreadable': { readonly path: string; readonly reason: string };
  /** A file that was loaded as a message is no longer what it was when it was loaded. */
  readonly 'sandbox-source-changed': { readonly path: string };
  /** The port is taken, or may not be listened on. */
  readonly 'sandbox-cannot-listen': {
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
  /** The state file is no state of this service, or of another version of it. */
  readonly 'sandbox-state-unusable': { readonly file: string; readonly reason: string };
}

export type ServiceCode = keyof ServiceFacts;

/** An error of the local service's set-up. Exit code 2, but for `sandbox-source-changed`, which is a fault of one request. */
export function serviceError<C extends ServiceCode>(
  code: C,
  facts: ServiceFacts[C],
  cause?: unknown,
): MailkeepError<C, ServiceFacts[C]> {
  return new MailkeepError('usage', code, facts, { cause });
}

export interface ServiceUnitsFacts {
  /** Files that are there already, and say something else. */
  readonly 'service-units-differ': { readonly files: readonly string[] };
  /** A path with a control character, which no unit can name. */
  readonly 'service-units-path': { readonly path: string };
  readonly 'service-units-unwritable': { readonly file: string; readonly reason: string };
}

/** An error of installing units. Exit code 2. */
export function serviceUnitsError<C extends keyof ServiceUnitsFacts>(
  code: C,
  facts: ServiceUnitsFacts[C],
  cause?: unknown,
): MailkeepError<C, ServiceUnitsFacts[C]> {
  return new MailkeepError(code === 'service-units-unwritable' ? 'disk' : 'usage', code, facts, {
    cause,
  });
}

/** Codes of webhooks and their secrets, with the facts that fill their sentences. */
export interface WebhookFacts {
  /** `where` names the accounts or the mailbox that were looked through. */
  readonly 'webhook-unknown': { readonly id: string; readonly where: string };
  readonly 'webhook-ambiguous': { readonly id: string; readonly candidates: readonly string[] };
  /** The secrets' folder or a file in it cannot be written. Nothing was asked of the service. */
  readonly 'webhook-secrets-unwritable': { readonly file: string; readonly reason: string };
  /** A secret that the service will not show again was not stored; `deleted`: the webhook was taken back. */
  readonly 'webhook-secret-lost': {
    readonly id: string;
    readonly file: string;
    readonly reason: string;
    readonly deleted: boolean;
  };
  readonly 'webhook-secret-unreadable': { readonly file: string; readonly reason: string };
  /** A webhook that was created from here does not deliver: mail is found by the schedule only. */
  readonly 'webhook-missing': { readonly id: string };
  /** `status` as the service says it: paused, disabled. */
  readonly 'webhook-off': { readonly id: string; readonly status: string };
  /** `failures` in a row, by the service's log. */
  readonly 'webhook-failing': { readonly id: string; readonly failures: number };
}

export type WebhookCode = keyof WebhookFacts;

const WEBHOOK_FAMILY: Readonly<Record<WebhookCode, ErrorFamily>> = {
  'webhook-unknown': 'usage',
  'webhook-ambiguous': 'usage',
  'webhook-secrets-unwritable': 'disk',
  'webhook-secret-lost': 'disk',
  'webhook-secret-unreadable': 'disk',
  'webhook-missing': 'origin',
  'webhook-off': 'origin',
  'webhook-failing': 'origin',
};

/** An error about a webhook; its family is in the table above. */
export function webhookError<C extends WebhookCode>(
  code: C,
  facts: WebhookFacts[C],
  cause?: unknown,
): MailkeepError<C, WebhookFacts[C]> {
  return new MailkeepError(WEBHOOK_FAMILY[code], code, facts, { cause });
}

/** Codes of what goes wrong between a command and a running daemon, with the facts that fill their sentences. */
export interface DaemonFacts {
  /** The daemon ended before the pass that was asked for did. */
  readonly 'daemon-stopped': Readonly<Record<string, never>>;
  /** An internal error of the daemon; its log has the details. */
  readonly 'daemon-failed': Readonly<Record<string, never>>;
  /** The daemon is another version of the program. */
  readonly 'daemon-version': { readonly found: string; readonly own: string };
  /** What answers at the control socket says nothing that can be read. */
  readonly 'daemon-answer': Readonly<Record<string, never>>;
  /** What the archive names as its control socket is not the user's own. */
  readonly 'daemon-socket-foreign': { readonly file: string };
  /** The folder where the control socket would be belongs to somebody else. */
  readonly 'daemon-socket-folder': { readonly folder: string };
}

export type DaemonCode = keyof DaemonFacts;

const DAEMON_FAMILY: Readonly<Record<DaemonCode, ErrorFamily>> = {
  'daemon-stopped': 'interrupted',
  'daemon-failed': 'interrupted',
  'daemon-version': 'in-use',
  'daemon-answer': 'in-use',
  'daemon-socket-foreign': 'config',
  'daemon-socket-folder': 'config',
};

export function daemonError<C extends DaemonCode>(
  code: C,
  facts: DaemonFacts[C],
): MailkeepError<C, DaemonFacts[C]> {
  return new MailkeepError(DAEMON_FAMILY[code], code, facts);
}
