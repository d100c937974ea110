import { MailkeepError } from './mailkeep-error.ts';

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
  /** A ceiling on what a server may say. `limit` is in bytes, or counts what the listing consists of. */
  readonly 'origin.too-large': {
    readonly operation: string;
    readonly host: string;
    readonly what: TooLarge;
    readonly limit: number;
  };
  /** A listing whose pages do not lead to all items that it counts: they repeat, are empty, or contradict its total. */
  readonly 'origin.paging': {
    readonly operation: string;
    readonly host: string;
    readonly page: number;
    readonly shown: number;
    readonly total: number;
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

/** Bytes of an answer, or the entries of a listing. */
export type TooLarge =
  | 'headers'
  | 'json'
  | 'source'
  | 'attachment'
  | 'folder names'
  | 'folders'
  | 'mailboxes'
  | 'pages';

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
