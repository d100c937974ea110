import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** Codes of what a pass itself finds wrong, with the facts that fill their sentences. */
export interface SyncFacts {
  readonly 'sync.interrupted': Readonly<Record<string, never>>;
  /** A page with more or fewer items than its own total allows, also when asked again. */
  readonly 'sync.inconsistent-page': {
    readonly folder: string;
    readonly items: number;
    readonly total: number;
  };
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

export type SyncCode = keyof SyncFacts;

const SYNC_FAMILY: Readonly<Partial<Record<SyncCode, ErrorFamily>>> = {
  'sync.interrupted': 'interrupted',
  'sync.held': 'held',
  'disk.low': 'disk',
};

/** An error of a pass. Family `origin` unless its entry above names another. */
export function syncError<C extends SyncCode>(
  code: C,
  facts: SyncFacts[C],
): MailkeepError<C, SyncFacts[C]> {
  return new MailkeepError(SYNC_FAMILY[code] ?? 'origin', code, facts);
}

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

/**
 * Codes of everything that can go wrong between this program and the service, with the facts that fill their
 * sentences. `operation` is the name in the table of operations; `host` is host and port. What the service
 * wrote in its own words is in no fact (see `OriginRefusal.answer`).
 */
export interface OriginFacts {
  /** 401, also after the token was read again. Stops the account. Family `auth`. */
  readonly 'auth.refused': { readonly operation: string; readonly host: string };
  /** 403: the token does not include this mailbox, or the mailbox is suspended; the conditions are not documented. `code` is the service's own, empty when it sent none. */
  readonly 'origin.forbidden': StatusFacts;
  readonly 'origin.mailbox-not-found': StatusFacts;
  /** 429, and the time for trying was used up. `waitMs` is how long the host still wants to be left alone. */
  readonly 'origin.rate-limited': StatusFacts & { readonly waitMs: number };
  /** Any other status that is no success. */
  readonly 'origin.status': StatusFacts;
  /** A redirect: it is never followed, since the token would go along. `to` is where it points, scheme and host only. */
  readonly 'origin.redirected': {
    readonly operation: string;
    readonly host: string;
    readonly status: number;
    readonly to: string | null;
  };
  /** No connection, or it broke before an answer began. `reason` is the errno or TLS code, such as ECONNREFUSED, or `not-http`; `sent` is false when the request never left. */
  readonly 'origin.unreachable': {
    readonly operation: string;
    readonly host: string;
    readonly reason: string;
    readonly sent: boolean;
  };
  /** `phase`: no connection, no answer, silence within the answer, or an answer too slow on the whole. */
  readonly 'origin.timeout': {
    readonly operation: string;
    readonly host: string;
    readonly phase: 'connect' | 'headers' | 'idle' | 'total';
    readonly afterMs: number;
    readonly sent: boolean;
  };
  /** The answer ended early. `expected` is its Content-Length, null where none was sent. */
  readonly 'origin.cut-short': {
    readonly operation: string;
    readonly host: string;
    readonly received: number;
    readonly expected: number | null;
  };
  /** An answer that is not JSON. `what`: a web page (a portal, a maintenance notice), another type, or broken JSON. */
  readonly 'origin.not-json': NotWhatItShouldBe;
  /** A source that is not `message/rfc822`. */
  readonly 'origin.not-mail': NotWhatItShouldBe;
  /** An attachment that is not `application/octet-stream`. */
  readonly 'origin.not-bytes': NotWhatItShouldBe;
  /** JSON of another shape: the path of the field, what is there (a type, never a value), what belongs there. */
  readonly 'origin.shape': {
    readonly operation: string;
    readonly path: string;
    readonly found: string;
    readonly expected: string;
  };
  /** A ceiling on what a server may say. `limit` is in bytes, or in pages. */
  readonly 'origin.too-large': {
    readonly operation: string;
    readonly host: string;
    readonly what: 'headers' | 'json' | 'source' | 'attachment' | 'pages';
    readonly limit: number;
  };
  /** A write whose outcome is unknown: it may have taken effect. `reason` is the code of what went wrong; `status` 0 when no answer came. */
  readonly 'origin.outcome-unknown': {
    readonly operation: string;
    readonly host: string;
    readonly reason: string;
    readonly status: number;
  };
  /** What a program or command line gave does not fit the operation. Family `usage`. */
  readonly 'request-invalid': {
    readonly operation: string;
    readonly field: string;
    readonly expected: string;
  };
  /** Family `config`. `problem`: not a URL at all, another scheme than http(s), credentials or a query inside, or http beyond this machine. */
  readonly 'base-url-invalid': {
    readonly url: string;
    readonly problem: 'no-url' | 'scheme' | 'extras' | 'insecure';
  };
  /** A token that no HTTP header can carry (line breaks, non-ASCII). Family `config`. */
  readonly 'token-malformed': { readonly host: string };
  /** A temporary file for a large source could not be written. Family `disk`. */
  readonly 'spool-failed': { readonly dir: string; readonly reason: string };
}

interface StatusFacts {
  readonly [fact: string]: string | number;
  readonly operation: string;
  readonly host: string;
  readonly status: number;
  readonly code: string;
}

interface NotWhatItShouldBe {
  readonly [fact: string]: string | number;
  readonly operation: string;
  readonly host: string;
  readonly status: number;
  readonly what: 'web-page' | 'other-type' | 'broken' | 'encoded';
  readonly contentType: string;
}

export type OriginCode = keyof OriginFacts;

const ORIGIN_FAMILY: Readonly<Partial<Record<OriginCode, 'auth' | 'usage' | 'config' | 'disk'>>> = {
  'auth.refused': 'auth',
  'request-invalid': 'usage',
  'base-url-invalid': 'config',
  'token-malformed': 'config',
  'spool-failed': 'disk',
};

/** An error between this program and the service. Family `origin` unless its entry above names another. */
export function originError<C extends OriginCode>(
  code: C,
  facts: OriginFacts[C],
  options: { readonly cause?: unknown; readonly retryable?: boolean } = {},
): MailkeepError<C, OriginFacts[C]> {
  return new MailkeepError(ORIGIN_FAMILY[code] ?? 'origin', code, facts, options);
}

/** What the service said in its error envelope. Its words may quote mail or secrets: show them to the asker, log them nowhere. */
export interface OriginAnswer {
  /** As it was sent; empty on the platform surface, which has none. */
  readonly code: string;
  readonly message: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Platform surface, 422 only: messages by field. */
  readonly errors: Readonly<Record<string, readonly string[]>>;
  /** Platform surface only. */
  readonly correlationId: string | null;
}

export type RefusalCode =
  | 'auth.refused'
  | 'origin.forbidden'
  | 'origin.mailbox-not-found'
  | 'origin.rate-limited'
  | 'origin.status';

/** The service answered, and the answer is no. */
export class OriginRefusal<C extends RefusalCode = RefusalCode> extends MailkeepError<
  C,
  OriginFacts[C]
> {
  override readonly name = 'OriginRefusal';

  constructor(
    code: C,
    facts: OriginFacts[C],
    readonly status: number,
    /** Not enumerable in JSON or logs on purpose: see OriginAnswer. */
    answer: OriginAnswer | null,
    /** What Retry-After asked for, in milliseconds and capped; null where it asked nothing. */
    readonly retryAfterMs: number | null,
    options: { readonly retryable?: boolean } = {},
  ) {
    super(ORIGIN_FAMILY[code] === 'auth' ? 'auth' : 'origin', code, facts, options);
    this.#answer = answer;
  }

  readonly #answer: OriginAnswer | null;

  get answer(): OriginAnswer | null {
    return this.#answer;
  }
}
