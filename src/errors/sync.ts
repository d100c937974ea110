import { errorsOf, MailkeepError } from './mailkeep-error.ts';

/** Codes of what a pass itself finds wrong, with the facts that fill their sentences. */
export interface SyncFacts {
  readonly 'sync.interrupted': Readonly<Record<string, never>>;
  /** The folder listing counts messages, and the folder's newest page shows none. */
  readonly 'sync.counts-disagree': {
    readonly folder: string;
    readonly listed: number;
    readonly shown: number;
  };
  /** The origin's count of a folder is not what its answers account for, in that many passes in a row. */
  readonly 'sync.does-not-add-up': { readonly total: number; readonly times: number };
  /** A listing of folders without INBOX: it is not the whole listing. */
  readonly 'sync.no-inbox': { readonly listed: number };
  /** A listing of folders that counts more of them than it shows. */
  readonly 'sync.folders-incomplete': { readonly shown: number };
  /** Folders that are listed with an empty path: nothing can be asked of them. */
  readonly 'sync.folder-without-path': { readonly withoutPath: number; readonly shown: number };
  /** A mailbox that is archived is not among those the token reaches; `since` is ISO 8601. */
  readonly 'sync.mailbox-unreachable': { readonly address: string; readonly since: string };
  /** The service refuses a mailbox that the list of the platform surface shows as suspended; `since` is ISO 8601: when it was first listed so. */
  readonly 'sync.mailbox-suspended': { readonly address: string; readonly since: string };
  /** Reading a source marked an unseen message as seen, twice in a row. */
  readonly 'sync.marks-seen': { readonly host: string };
  /**
   * Places of these mailboxes look gone, and too many at once: the brake keeps them current. `until` is ISO 8601: a
   * pass after it accepts what is still gone then; null where that is not known.
   */
  readonly 'sync.held': {
    readonly held: number;
    readonly mailboxes: readonly string[];
    readonly until: string | null;
  };
  /**
   * What had been forgotten came again, and was in quarantine before it came whole and could be recognised: the log
   * has what was listed of it, and perhaps a part of it.
   */
  readonly 'sync.forgotten-in-quarantine': { readonly id: string };
  /** Messages of these mailboxes could not be fetched whole; they are tried again. */
  readonly 'sync.quarantined': {
    readonly quarantined: number;
    readonly mailboxes: readonly string[];
  };
  /** Bytes free where the archive is, and the least that must stay free. */
  readonly 'disk.low': { readonly free: number; readonly minFreeBytes: number };
}

/** An error of a pass. Family `origin` unless it is named here. */
export const syncError = errorsOf<SyncFacts>('origin', {
  'sync.interrupted': 'interrupted',
  'sync.held': 'held',
  'disk.low': 'disk',
});

/** Codes of what is known of a mailbox without a pass over it, with the facts that fill their sentences. */
export interface MailboxErrorFacts {
  /** `quota` as the service names it: STORAGE or MESSAGE. `percent` is rounded down. */
  readonly 'mailbox-nearly-full': {
    readonly address: string;
    readonly quota: string;
    readonly percent: number;
  };
}

/** A mailbox that is nearly full. */
export function nearlyFull(facts: MailboxErrorFacts['mailbox-nearly-full']) {
  return new MailkeepError('origin', 'mailbox-nearly-full', facts);
}
