import { withScheme } from '../core/address.ts';
import { defineErrors, MailkeepError, reasonText, type Sentence } from '../core/errors.ts';
import { span } from '../core/text.ts';

/**
 * Codes and facts of all errors between this program and the service. `operation` is the name in the table of
 * operations; `host` is host and port. Facts never contain the service's own text (see `OriginRefusal.answer`).
 */
export interface OriginFacts {
  /** 401, also after reading the token again. Stops the account. Family `auth`. */
  readonly 'auth.refused': { readonly operation: string; readonly host: string };
  /** 403, undocumented: mailbox suspended, or not included in the token. `code` is the service's code, or empty. */
  readonly 'origin.forbidden': StatusFacts;
  readonly 'origin.mailbox-not-found': StatusFacts;
  /** 429 after all retries. `waitMs` is the remaining wait that the host requires. */
  readonly 'origin.rate-limited': StatusFacts & { readonly waitMs: number };
  /** Any other unsuccessful status. */
  readonly 'origin.status': StatusFacts;
  /** A redirect, never followed because the token would be sent along. `to` is its target's scheme and host. */
  readonly 'origin.redirected': {
    readonly operation: string;
    readonly host: string;
    readonly status: number;
    readonly to: string | null;
  };
  /**
   * No connection, or it broke before a response. `reason`: errno, TLS code or `not-http`; `sent` is false if unsent.
   */
  readonly 'origin.unreachable': {
    readonly operation: string;
    readonly host: string;
    readonly reason: string;
    readonly sent: boolean;
  };
  /** `phase`: no connection, no response, silence within the response, or a response that is too slow overall. */
  readonly 'origin.timeout': {
    readonly operation: string;
    readonly host: string;
    readonly phase: 'connect' | 'headers' | 'idle' | 'total';
    readonly afterMs: number;
    readonly sent: boolean;
  };
  /** The response ended early. `expected` is its Content-Length, or null. */
  readonly 'origin.cut-short': {
    readonly operation: string;
    readonly host: string;
    readonly received: number;
    readonly expected: number | null;
  };
  /** A response that is not JSON. `what`: a web page (a portal, a maintenance notice), another type, or broken JSON. */
  readonly 'origin.not-json': NotWhatItShouldBe;
  /** A source that is not `message/rfc822`. */
  readonly 'origin.not-mail': NotWhatItShouldBe;
  /** An attachment that is not `application/octet-stream`. */
  readonly 'origin.not-bytes': NotWhatItShouldBe;
  /** JSON of another shape: path of the field, type found (never a value), type expected. */
  readonly 'origin.shape': {
    readonly operation: string;
    readonly path: string;
    readonly found: string;
    readonly expected: string;
  };
  /** A response above a limit. `limit` is in bytes, or in entries of a listing. */
  readonly 'origin.too-large': {
    readonly operation: string;
    readonly host: string;
    readonly what: TooLarge;
    readonly limit: number;
  };
  /** A listing whose pages never reach its total: they repeat, are empty, or contradict it. */
  readonly 'origin.paging': {
    readonly operation: string;
    readonly host: string;
    readonly page: number;
    readonly shown: number;
    readonly total: number;
  };
  /** A write that may have taken effect. `reason` is the code of the failure; `status` is 0 without a response. */
  readonly 'origin.outcome-unknown': {
    readonly operation: string;
    readonly host: string;
    readonly reason: string;
    readonly status: number;
  };
  /** An argument does not fit the operation. Family `usage`. */
  readonly 'request-invalid': {
    readonly operation: string;
    readonly field: string;
    readonly expected: string;
  };
  /** Family `config`. `problem`: not a URL, not http(s), with credentials or query, or http beyond this machine. */
  readonly 'base-url-invalid': {
    readonly url: string;
    readonly problem: 'no-url' | 'scheme' | 'extras' | 'insecure';
  };
  /** A token that no HTTP header can carry (line breaks, non-ASCII). Family `config`. */
  readonly 'token-malformed': { readonly host: string };
  /** A temporary file for a large source could not be written. Family `disk`. */
  readonly 'spool-failed': { readonly dir: string; readonly reason: string };
}

/** Bytes of a response, or entries of a listing. */
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

/** Limits that count entries, not bytes. */
const ENTRIES: ReadonlySet<string> = new Set(['folders', 'mailboxes', 'pages']);

const LATER = 'Nothing is lost; the next sync continues where this one stopped.';
const WRONG_ADDRESS =
  'Check baseUrl in the configuration: it may point at a web site, or something between here and the service (a portal, a proxy) may answer instead.';

function meantUrl(url: string): string | null {
  const meant = withScheme(url);
  return meant === null ? null : `Did you mean ${meant}?`;
}

function notWhatItShouldBe(facts: OriginFacts['origin.not-json'], expected: string): Sentence {
  const { host, operation, what, contentType } = facts;
  const came = {
    'web-page': 'a web page',
    'other-type': contentType === '' ? 'content without a type' : contentType,
    broken: 'broken content',
    encoded: 'an encoding that was not requested',
  }[what];
  return [`${host} answered ${operation} with ${came} instead of ${expected}.`, WRONG_ADDRESS];
}

/** An error between this program and the service. */
export const originError = defineErrors({
  auth: {
    'auth.refused': ({ host }: OriginFacts['auth.refused']) => [
      `${host} refused the token: it is missing, malformed, expired or revoked.`,
      'Create a new token in the panel of your mail service, and store it where the configuration reads it.',
    ],
  },
  origin: {
    'origin.forbidden': ({ host, code }: OriginFacts['origin.forbidden']) => [
      `${host} refuses access to the mailbox with status 403${code === '' ? '' : ` (${code})`}.`,
      'The mailbox may be suspended, or the token may not cover it. Check both in the control panel of your mail service.',
    ],
    'origin.mailbox-not-found': ({ host }: OriginFacts['origin.mailbox-not-found']) => [
      `${host} reports that the mailbox does not exist.`,
      'Archived mail stays available and searchable. If the mailbox is back, the next sync continues.',
    ],
    'origin.rate-limited': ({ host, waitMs }: OriginFacts['origin.rate-limited']) => [
      `${host} keeps reporting too many requests${waitMs > 0 ? `, and asked for a pause of ${span(waitMs)}` : ''}.`,
      `Lower rateLimit.requestsPerMinute in the configuration. ${LATER}`,
    ],
    'origin.status': ({ host, operation, status, code }: OriginFacts['origin.status']) => [
      `${host} answered ${operation} with status ${status}${code === '' ? '' : ` (${code})`}.`,
      status >= 500
        ? `The service has an internal problem. ${LATER}`
        : status === 404
          ? WRONG_ADDRESS
          : null,
    ],
    'origin.redirected': ({ host, to }: OriginFacts['origin.redirected']) => [
      `${host} redirects to ${to ?? 'another address'}; mailkeep does not follow, because it would send the token there.`,
      'If that is the right address, write it as baseUrl in the configuration.',
    ],
    'origin.unreachable': ({ host, reason }: OriginFacts['origin.unreachable']) => [
      `${host} cannot be reached: ${reasonText(reason)}.`,
      `Check the network, and baseUrl in the configuration. ${LATER}`,
    ],
    'origin.timeout': ({ host, operation, phase, afterMs }: OriginFacts['origin.timeout']) => [
      {
        connect: `${host} did not accept a connection within ${span(afterMs)}.`,
        headers: `${host} did not answer ${operation} within ${span(afterMs)}.`,
        idle: `${host} stopped during its answer to ${operation}: no data for ${span(afterMs)}.`,
        total: `${host} took longer than ${span(afterMs)} to answer ${operation}.`,
      }[phase],
      LATER,
    ],
    'origin.cut-short': ({
      host,
      operation,
      received,
      expected,
    }: OriginFacts['origin.cut-short']) => [
      `The answer of ${host} to ${operation} broke off after ${received} bytes${expected === null ? '' : ` of ${expected}`}.`,
      LATER,
    ],
    'origin.not-json': (facts: OriginFacts['origin.not-json']) => notWhatItShouldBe(facts, 'JSON'),
    'origin.not-mail': (facts: OriginFacts['origin.not-mail']) =>
      notWhatItShouldBe(facts, 'a message (message/rfc822)'),
    'origin.not-bytes': (facts: OriginFacts['origin.not-bytes']) =>
      notWhatItShouldBe(facts, 'an attachment (application/octet-stream)'),
    'origin.shape': ({ operation, path, found, expected }: OriginFacts['origin.shape']) => [
      `The service's answer to ${operation} does not match its description: ${path} is ${found}, not ${expected}.`,
      WRONG_ADDRESS,
    ],
    'origin.too-large': ({ host, operation, what, limit }: OriginFacts['origin.too-large']) =>
      `The answer of ${host} to ${operation} is larger than mailkeep accepts: more than ${limit} ${ENTRIES.has(what) ? what : `bytes (${what})`}.`,
    'origin.paging': ({ host, operation, page, shown, total }: OriginFacts['origin.paging']) => [
      `${host} answers ${operation} with pages that do not add up: it counts ${total} entries, showed ${shown}, and page ${page} brings nothing new.`,
      'Everything it showed was used, and nothing was concluded about the rest. Report it to the service.',
    ],
    'origin.outcome-unknown': ({
      host,
      operation,
      reason,
    }: OriginFacts['origin.outcome-unknown']) => [
      `It is not known whether ${operation} took effect: ${host} gave no clear answer (${reason}).`,
      'Check before you send it again.',
    ],
  },
  usage: {
    'request-invalid': ({ operation, field, expected }: OriginFacts['request-invalid']) =>
      expected === 'no such field' || expected === 'no such parameter'
        ? `${operation} has ${expected} as "${field}".`
        : `${operation} does not take this as "${field}": ${/^(needs|not|cannot) /.test(expected) ? '' : 'expected '}${expected}.`,
  },
  config: {
    'base-url-invalid': ({ url, problem }: OriginFacts['base-url-invalid']) => [
      {
        'no-url': `"${url}" is not a valid URL.`,
        scheme: `"${url}" begins with neither https:// nor http://.`,
        extras:
          'The address of the service must not hold a user name, a password, a query or a fragment.',
        insecure: `"${url}" uses http to another machine, so the token would be sent unencrypted.`,
      }[problem],
      problem === 'no-url' || problem === 'scheme'
        ? meantUrl(url)
        : problem === 'insecure'
          ? 'Use https, or set "insecure": true next to it in the configuration.'
          : null,
    ],
    'token-malformed': ({ host }: OriginFacts['token-malformed']) => [
      `The token for ${host} contains invalid characters.`,
      'Copy it again, as a single line.',
    ],
  },
  disk: {
    'spool-failed': ({ dir, reason }: OriginFacts['spool-failed']) => [
      `A large message could not be stored in ${dir}: ${reasonText(reason)}.`,
      'Check the disk and the permissions, then run the command again.',
    ],
  },
});

/** The service's error envelope. Its text may quote mail or secrets: show it to the caller only, and never log it. */
export interface OriginAnswer {
  /** As sent; empty in the Platform API, which has none. */
  readonly code: string;
  readonly message: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Platform API, 422 only: messages by field. */
  readonly errors: Readonly<Record<string, readonly string[]>>;
  /** Platform API only. */
  readonly correlationId: string | null;
}

export type RefusalCode =
  | 'auth.refused'
  | 'origin.forbidden'
  | 'origin.mailbox-not-found'
  | 'origin.rate-limited'
  | 'origin.status';

/** The service refused the request. */
export class OriginRefusal<C extends RefusalCode = RefusalCode> extends MailkeepError<
  C,
  OriginFacts[C]
> {
  override readonly name = 'OriginRefusal';

  constructor(
    code: C,
    facts: OriginFacts[C],
    readonly status: number,
    /** A private field, to stay out of JSON and logs: see OriginAnswer. */
    answer: OriginAnswer | null,
    /** Retry-After in milliseconds, capped; null without one. */
    readonly retryAfterMs: number | null,
    options: { readonly retryable?: boolean } = {},
  ) {
    super(code === 'auth.refused' ? 'auth' : 'origin', code, facts, options);
    this.#answer = answer;
  }

  readonly #answer: OriginAnswer | null;

  get answer(): OriginAnswer | null {
    return this.#answer;
  }
}
