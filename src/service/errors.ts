import { withScheme } from '../core/address.ts';
import { defineErrors, MailkeepError, reasonText, type Sentence } from '../core/errors.ts';
import { span } from '../core/text.ts';

interface Exchange {
  readonly operation: string;
  readonly host: string;
}

/** `code` is the service's error code, or empty. */
type StatusFacts = Exchange & { readonly status: number; readonly code: string };

/** `web-page` means a portal page or a maintenance notice. */
type WrongContent = Exchange & {
  readonly status: number;
  readonly what: 'web-page' | 'other-type' | 'broken' | 'encoded';
  readonly contentType: string;
};

export type TooLarge =
  | 'headers'
  | 'json'
  | 'source'
  | 'attachment'
  | 'folder names'
  | 'folders'
  | 'mailboxes'
  | 'pages';

const ENTRIES: ReadonlySet<string> = new Set(['folders', 'mailboxes', 'pages']);

const RESUME_HINT = 'Nothing is lost; the next sync continues where this one stopped.';
const WRONG_ADDRESS =
  'Check baseUrl in the configuration: it may point at a web site, or something between here and the service (a portal, a proxy) may answer instead.';

function suggestUrl(url: string): string | null {
  const meant = withScheme(url);
  return meant === null ? null : `Did you mean ${meant}?`;
}

function wrongContent(f: WrongContent, expected: string): Sentence {
  const body = {
    'web-page': 'a web page',
    'other-type': f.contentType === '' ? 'content without a type' : f.contentType,
    broken: 'broken content',
    encoded: 'an encoding that was not requested',
  }[f.what];
  return [`${f.host} answered ${f.operation} with ${body} instead of ${expected}.`, WRONG_ADDRESS];
}

/** Errors in communication with the service. Facts never contain text from the service (see `OriginAnswer`). */
export const originError = defineErrors({
  auth: {
    /** 401, even after rereading the token. Stops the account. */
    'auth.refused': ({ host }: Exchange) => [
      `${host} refused the token: it is missing, malformed, expired or revoked.`,
      'Create a new token in the panel of your mail service, and store it where the configuration reads it.',
    ],
  },
  origin: {
    /** Undocumented 403: the mailbox is suspended, or the token does not include it. */
    'origin.forbidden': ({ host, code }: StatusFacts) => [
      `${host} refuses access to the mailbox with status 403${code === '' ? '' : ` (${code})`}.`,
      'The mailbox may be suspended, or the token may not cover it. Check both in the control panel of your mail service.',
    ],
    'origin.mailbox-not-found': ({ host }: StatusFacts) => [
      `${host} reports that the mailbox does not exist.`,
      'Archived mail stays available and searchable. If the mailbox is back, the next sync continues.',
    ],
    /** 429 after all retries. `waitMs` is the wait that the host still requires. */
    'origin.rate-limited': ({ host, waitMs }: StatusFacts & { readonly waitMs: number }) => [
      `${host} keeps reporting too many requests${waitMs > 0 ? `, and asked for a pause of ${span(waitMs)}` : ''}.`,
      `Lower rateLimit.requestsPerMinute in the configuration. ${RESUME_HINT}`,
    ],
    'origin.status': ({ host, operation, status, code }: StatusFacts) => [
      `${host} answered ${operation} with status ${status}${code === '' ? '' : ` (${code})`}.`,
      status >= 500
        ? `The service has an internal problem. ${RESUME_HINT}`
        : status === 404
          ? WRONG_ADDRESS
          : null,
    ],
    /** Redirects are never followed, because the target would get the token. `to` is the target's scheme and host. */
    'origin.redirected': (
      f: Exchange & { readonly status: number; readonly to: string | null },
    ) => [
      `${f.host} redirects to ${f.to ?? 'another address'}; mailkeep does not follow, because it would send the token there.`,
      'If that is the right address, write it as baseUrl in the configuration.',
    ],
    /** `reason` is an errno, a TLS code or `not-http`. `sent` is true if the request was sent before the failure. */
    'origin.unreachable': (f: Exchange & { readonly reason: string; readonly sent: boolean }) => [
      `${f.host} cannot be reached: ${reasonText(f.reason)}.`,
      `Check the network, and baseUrl in the configuration. ${RESUME_HINT}`,
    ],
    'origin.timeout': ({
      host,
      operation,
      phase,
      afterMs,
    }: Exchange & {
      readonly phase: 'connect' | 'headers' | 'idle' | 'total';
      readonly afterMs: number;
      readonly sent: boolean;
    }) => [
      {
        connect: `${host} did not accept a connection within ${span(afterMs)}.`,
        headers: `${host} did not answer ${operation} within ${span(afterMs)}.`,
        idle: `${host} stopped during its answer to ${operation}: no data for ${span(afterMs)}.`,
        total: `${host} took longer than ${span(afterMs)} to answer ${operation}.`,
      }[phase],
      RESUME_HINT,
    ],
    /** `expected` is the Content-Length; null if there is none. */
    'origin.cut-short': (
      f: Exchange & { readonly received: number; readonly expected: number | null },
    ) => [
      `The answer of ${f.host} to ${f.operation} broke off after ${f.received} bytes${f.expected === null ? '' : ` of ${f.expected}`}.`,
      RESUME_HINT,
    ],
    'origin.not-json': (f: WrongContent) => wrongContent(f, 'JSON'),
    'origin.not-mail': (f: WrongContent) => wrongContent(f, 'a message (message/rfc822)'),
    'origin.not-bytes': (f: WrongContent) =>
      wrongContent(f, 'an attachment (application/octet-stream)'),
    /** Valid JSON with an unexpected structure. `found` is a type, never a value. */
    'origin.shape': (f: {
      readonly operation: string;
      readonly path: string;
      readonly found: string;
      readonly expected: string;
    }) => [
      `The service's answer to ${f.operation} does not match its description: ${f.path} is ${f.found}, not ${f.expected}.`,
      WRONG_ADDRESS,
    ],
    /** `limit` is in bytes, or in listing entries. */
    'origin.too-large': ({
      host,
      operation,
      what,
      limit,
    }: Exchange & { readonly what: TooLarge; readonly limit: number }) =>
      `The answer of ${host} to ${operation} is larger than mailkeep accepts: more than ${limit} ${ENTRIES.has(what) ? what : `bytes (${what})`}.`,
    'origin.paging': (
      f: Exchange & { readonly page: number; readonly shown: number; readonly total: number },
    ) => [
      `${f.host} answers ${f.operation} with pages that do not add up: it counts ${f.total} entries, showed ${f.shown}, and page ${f.page} brings nothing new.`,
      'Everything it showed was used, and nothing was concluded about the rest. Report it to the service.',
    ],
    /** A write that may have taken effect. `reason` is the failure's code; `status` is 0 if there was no response. */
    'origin.outcome-unknown': (
      f: Exchange & { readonly reason: string; readonly status: number },
    ) => [
      `It is not known whether ${f.operation} took effect: ${f.host} gave no clear answer (${f.reason}).`,
      'Check before you send it again.',
    ],
  },
  usage: {
    'request-invalid': ({
      operation,
      field,
      expected,
    }: {
      readonly operation: string;
      readonly field: string;
      readonly expected: string;
    }) =>
      expected === 'no such field' || expected === 'no such parameter'
        ? `${operation} has ${expected} as "${field}".`
        : `${operation} does not take this as "${field}": ${/^(needs|not|cannot) /.test(expected) ? '' : 'expected '}${expected}.`,
  },
  config: {
    /** `extras` means a user name, password, query or fragment. `insecure` means plain http to another machine. */
    'base-url-invalid': ({
      url,
      problem,
    }: {
      readonly url: string;
      readonly problem: 'no-url' | 'scheme' | 'extras' | 'insecure';
    }) => [
      {
        'no-url': `"${url}" is not a valid URL.`,
        scheme: `"${url}" begins with neither https:// nor http://.`,
        extras:
          'The address of the service must not hold a user name, a password, a query or a fragment.',
        insecure: `"${url}" uses http to another machine, so the token would be sent unencrypted.`,
      }[problem],
      problem === 'no-url' || problem === 'scheme'
        ? suggestUrl(url)
        : problem === 'insecure'
          ? 'Use https, or set "insecure": true next to it in the configuration.'
          : null,
    ],
    /** The token has line breaks or non-ASCII characters, so no HTTP header can carry it. */
    'token-malformed': ({ host }: { readonly host: string }) => [
      `The token for ${host} contains invalid characters.`,
      'Copy it again, as a single line.',
    ],
  },
  disk: {
    'spool-failed': ({ dir, reason }: { readonly dir: string; readonly reason: string }) => [
      `A large message could not be stored in ${dir}: ${reasonText(reason)}.`,
      'Check the disk and the permissions, then run the command again.',
    ],
  },
  retryable: ['origin.timeout', 'origin.cut-short', 'origin.not-mail', 'origin.not-bytes'],
});

export type OriginCode = Parameters<typeof originError>[0];
export type OriginFacts = { readonly [C in OriginCode]: Parameters<typeof originError<C>>[1] };

/** The service's error envelope. Its text can quote mail or secrets, so show it only to the caller and never log it. */
export interface OriginAnswer {
  /** Always empty in the Platform API, which has no codes. */
  readonly code: string;
  readonly message: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Messages by field. Sent only by the Platform API, with 422. */
  readonly errors: Readonly<Record<string, readonly string[]>>;
  /** Sent only by the Platform API. */
  readonly correlationId: string | null;
}

export type RefusalCode =
  | 'auth.refused'
  | 'origin.forbidden'
  | 'origin.mailbox-not-found'
  | 'origin.rate-limited'
  | 'origin.status';

export class OriginRefusal<C extends RefusalCode = RefusalCode> extends MailkeepError<
  C,
  OriginFacts[C]
> {
  override readonly name = 'OriginRefusal';

  constructor(
    code: C,
    facts: OriginFacts[C],
    readonly status: number,
    /** Kept private to stay out of JSON and logs (see `OriginAnswer`). */
    answer: OriginAnswer | null,
    /** Retry-After in milliseconds, capped; null if absent. */
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
