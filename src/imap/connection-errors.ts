/** Translates errors of imapflow, and refusals of a server, into errors of this room. */
import { MailkeepError } from '../core/errors.ts';
import type { Secret } from '../core/secrets.ts';
import type { Credential, ImapServer } from './connection.ts';
import { imapError } from './errors.ts';
import { MalformedResponse, quoted, type StatusResponse } from './response.ts';

/** Bytes requested at once from a message. */
export const PIECE_BYTES = 1024 * 1024;
export const MAX_LITERAL = PIECE_BYTES + 64 * 1024;
export const MAX_LINE = 8 * 1024 * 1024;
export const MAX_RESPONSE = MAX_LITERAL + MAX_LINE;

/** The reason of an error if the server gave none. */
export const CLOSED = 'the server closed it';

/**
 * Response codes that ask for a pause (RFC 5530, RFC 9738; THROTTLED and OVERQUOTA are Yahoo's and Gmail's). A server
 * with a bug of its own (SERVERBUG) has judged no password.
 */
const TEMPORARY: ReadonlySet<string> = new Set([
  'SERVERBUG',
  'LIMIT',
  'THROTTLED',
  'OVERQUOTA',
  'OVERLOADED',
  'UNAVAILABLE',
  'INUSE',
]);
/** Some servers indicate this only in the text. */
const TEMPORARY_WORDS =
  /throttl|temporar|try again (?:later|in|after)\b|too many|(?:bandwidth|rate) limit|server (?:is )?(?:busy|unavailable)/i;
/** A wrong password is not retried, whatever else the text says: the server could lock the user out. */
const REFUSAL_WORDS = /\b(?:invalid|incorrect|wrong|bad) (?:user|login|pass|cred|name)/i;

export function isTemporary(code: string, text: string): boolean {
  // Gmail sends [ALERT] both with "Too many simultaneous connections" and with "Invalid credentials".
  const tells = code === '' || code === 'ALERT';
  return TEMPORARY.has(code) || (tells && TEMPORARY_WORDS.test(text) && !REFUSAL_WORDS.test(text));
}

/** Returns a response code that can be shown, or an empty string. @param secret no code, even if it looks like one */
export function codeOf(name: string | null | undefined, secret?: Secret): string {
  const code = name?.toUpperCase() ?? '';
  return /^[A-Z][A-Z0-9-]{0,39}$/.test(code) && code !== secret?.reveal().toUpperCase() ? code : '';
}

/** Returns the milliseconds of `Request is throttled. Suggested Backoff Time: N milliseconds` (Exchange), or 0. */
export function suggestedWait(text: string): number {
  const [, ms] = /Suggested Backoff Time[:=\s]+(\d{1,10})/i.exec(text) ?? [];
  return ms === undefined ? 0 : Number(ms);
}

const MASK = '***';
/** A text can be cut off within a long token, so that only its start is found. */
const TELLING = 16;

/** Masks a secret in a server's text, as it is, quoted, or in base64 (AUTHENTICATE): some servers repeat commands. */
function withoutSecret(text: string, secret: string): string {
  if (secret === '') return text;
  const start = secret.slice(0, TELLING);
  const isSecret = (word: string): boolean =>
    word.includes(start) ||
    word.split(/[^\w+/-]+/).some((run) => Buffer.from(run, 'base64').includes(start));
  return text
    .replaceAll(secret, MASK)
    .replaceAll(quoted(secret).slice(1, -1), MASK)
    .replace(/\S+/g, (word) => (isSecret(word) ? MASK : word));
}

/** Returns a refusal or BYE as it can be shown, without a secret that the server repeats. */
export function withoutSecretIn(response: StatusResponse, secret: Secret): StatusResponse {
  const { code, text } = response;
  return {
    ...response,
    code: codeOf(code?.name, secret) === '' ? null : code,
    text: withoutSecret(text, secret.reveal()),
  };
}

/** What a server says about a failed sign-in, or the system. */
class SignInFailure extends Error {
  constructor(
    message: string,
    /** The server's words; empty if there are none. */
    readonly responseText: string,
  ) {
    super(message);
  }
}

const TOO_LARGE = {
  LiteralTooLarge: ['literal', MAX_LITERAL],
  LineTooLarge: ['line', MAX_LINE],
  ResponseTooLarge: ['response', MAX_RESPONSE],
} as const;

function tooLarge(code: string | null, host: string, command: string): MailkeepError | undefined {
  const [what, limit] = TOO_LARGE[(code ?? '') as keyof typeof TOO_LARGE] ?? [];
  if (what === undefined || limit === undefined) return undefined;
  return imapError('imap.too-large', { host, command, what, limit });
}

/** Returns the error for a connection that ended. @param error what ended it; undefined if the server did */
export function lossError(error: unknown, host: string, command: string): MailkeepError {
  if (error instanceof MailkeepError) return error;
  if (error instanceof MalformedResponse) {
    return imapError('imap.malformed', { host, command, found: error.message });
  }
  const { code } = readFields(error);
  const facts = { host, command, reason: reasonOf(code) };
  return tooLarge(code, host, command) ?? imapError('imap.connection-lost', facts, error);
}

/** Translates the codes of imapflow. */
function reasonOf(code: string | null): string {
  if (code === null || code === 'NoConnection') return CLOSED;
  if (code.startsWith('ClosedAfterConnect')) return CLOSED;
  return code === 'ETIMEOUT' || code.endsWith('_TIMEOUT') ? 'ETIMEDOUT' : code;
}

const NO_METHOD = /Unsupported authentication mechanism|Login is disabled|No matching auth/;

/** @param error what `ImapFlow.connect` threw */
export function connectError(
  error: unknown,
  { host, port, user, tls }: ImapServer,
  { kind, login, secret }: Credential,
): MailkeepError {
  const { code, words, message, status, response, signedOut, bye } = readFields(error);
  const text = words === '' ? message : words;
  const command = 'sign-in';
  const shownText = (one: string): string => withoutSecret(one, secret.reveal());
  const cause = new SignInFailure(shownText(text), shownText(words));
  // Before TLS, anybody on the way can claim that the session is signed in already (PREAUTH).
  if (code === 'STARTTLS_INJECTION' || /after a PREAUTH greeting/.test(text))
    return imapError('imap.starttls-injection', { host });
  if (text === 'Server does not support STARTTLS') {
    return imapError('imap.starttls-missing', { host, port });
  }
  const large = tooLarge(code, host, command);
  if (large !== undefined) return large;
  const waitMs = suggestedWait(text);
  const shown = codeOf(response, secret);
  if (waitMs > 0 || bye || ((status !== null || signedOut) && isTemporary(shown, text))) {
    return imapError('imap.throttled', { host, command, code: shown, waitMs }, cause);
  }
  if (NO_METHOD.test(text)) return imapError('imap.no-sign-in-method', { host, kind });
  if (status !== null || signedOut) {
    const facts = { host, user, code: shown, ...(login === undefined ? {} : { login }) };
    return imapError('imap.sign-in-refused', facts, cause);
  }
  if (code !== null && /CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code)) {
    return imapError('imap.certificate', { host, reason: code }, cause);
  }
  const reason = reasonOf(code);
  const isBroken = tls === 'starttls' && /^ERR_SSL/.test(reason);
  if (isBroken) return imapError('imap.starttls-injection', { host }, cause);
  return imapError('imap.unreachable', { host, port, reason }, cause);
}

/** Reads the fields of an error of imapflow. */
function readFields(error: unknown) {
  const field = (name: string): unknown =>
    typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined;
  const string = (name: string): string | null => {
    const value = field(name);
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const code = string('code');
  // Node.js also has a `reason`, in errors about certificates.
  const isClosed = code === 'NoConnection' || code?.startsWith('ClosedAfterConnect') === true;
  const bye = isClosed ? string('reason') : null;
  return {
    code,
    status: string('responseStatus'),
    response: string('serverResponseCode'),
    words: bye ?? string('responseText') ?? '',
    message: string('message') ?? '',
    signedOut: field('authenticationFailed') === true,
    bye: bye !== null,
  };
}
