import { errorsOf } from './mailkeep-error.ts';

/** Codes of bringing a second copy level, with the facts that fill their sentences. */
export interface CopyFacts {
  /** The folder holds another archive. */
  readonly 'copy-other-archive': {
    readonly to: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** Files there that look like a log cannot be read: they may be of another archive. */
  readonly 'copy-unreadable': { readonly to: string };
  /** The copy has commits that this archive lacks: it would become shorter. */
  readonly 'copy-ahead': { readonly to: string; readonly number: number; readonly here: number };
  /** The copy has another commit under a number: somebody wrote to it. */
  readonly 'copy-diverged': { readonly to: string; readonly number: number; readonly here: number };
  /** The folder holds no archive, but other files. */
  readonly 'copy-elsewhere': { readonly to: string; readonly stranger: string };
  /** The log of the copy is a link: it would be written, and tidied, somewhere else than in the folder that was named. */
  readonly 'copy-linked': { readonly file: string };
  /** The folder is the archive itself, or lies in it. */
  readonly 'copy-onto-itself': { readonly to: string };
}

/** Nothing was changed when one of these is thrown. */
export const copyError = errorsOf<CopyFacts>('usage');

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

/** An error about a webhook. */
export const webhookError = errorsOf<WebhookFacts>({
  'webhook-unknown': 'usage',
  'webhook-ambiguous': 'usage',
  'webhook-secrets-unwritable': 'disk',
  'webhook-secret-lost': 'disk',
  'webhook-secret-unreadable': 'disk',
  'webhook-missing': 'origin',
  'webhook-off': 'origin',
  'webhook-failing': 'origin',
});

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
  readonly 'daemon-socket-failed': { readonly file: string; readonly reason: string };
}

/** An error between a command and a running daemon. */
export const daemonError = errorsOf<DaemonFacts>({
  'daemon-stopped': 'interrupted',
  'daemon-failed': 'interrupted',
  'daemon-version': 'in-use',
  'daemon-answer': 'in-use',
  'daemon-socket-foreign': 'config',
  'daemon-socket-folder': 'config',
  'daemon-socket-failed': 'config',
});

export interface ServiceUnitsFacts {
  /** Files that are there already, and say something else. */
  readonly 'service-units-differ': { readonly files: readonly string[] };
  /** A path with a control character, which no unit can name. */
  readonly 'service-units-path': { readonly path: string };
  readonly 'service-units-unwritable': { readonly file: string; readonly reason: string };
}

/** An error of installing units. Exit code 2. */
export const serviceUnitsError = errorsOf<ServiceUnitsFacts>('usage', {
  'service-units-unwritable': 'disk',
});

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

/** An error of the local service's set-up. Exit code 2, but for `sandbox-source-changed`, which is a fault of one request. */
export const serviceError = errorsOf<ServiceFacts>('usage');

/** Codes of the web interface, with the facts that fill their sentences. */
export interface WebFacts {
  /** Nobody serves this archive to whom a sign-in link could be asked of. */
  readonly 'web-not-running': { readonly dataDir: string };
  /** An address that other machines reach, without an https address in front of it. */
  readonly 'web-not-loopback': { readonly host: string };
  readonly 'web-cannot-listen': {
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
  /** No token of the API has this id or name. */
  readonly 'token-unknown': { readonly token: string };
  /** The archive's state, which holds tokens, cannot be written. */
  readonly 'token-unwritable': { readonly dataDir: string };
}

/** An error of starting the web interface, or of asking it for a link. */
export const webError = errorsOf<WebFacts>('config', {
  'web-not-running': 'origin',
  'token-unknown': 'origin',
  'token-unwritable': 'disk',
});
