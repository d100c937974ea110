/**
 * A connection to an IMAP server. `ImapConnections` shares and repeats them.
 *
 * imapflow connects, starts TLS, signs in and splits what it receives into lines and literals of limited size. After
 * that, this file takes over: it replaces imapflow's `handleResponse` and sends commands itself. Reasons:
 *
 * - imapflow logs and drops responses that it cannot parse, so a folder or uid could go missing without an error.
 * - Its commands return `false` on NO, which looks like an empty answer, and accept a partial FETCH.
 * - It waits for throttled servers within the connection, without a clock or signal from outside.
 * - It sends commands (LSUB, SELECT, COMPRESS, IDLE) that a mirror does not need.
 */
import { ImapFlow } from 'imapflow';
import { isLoopback } from '../core/address.ts';
import { onAbort } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import type { Secret } from '../core/secrets.ts';
import { imapError } from './errors.ts';
import {
  type DataResponse,
  MalformedResponse,
  parseResponse,
  type Response,
  type StatusResponse,
} from './response.ts';

export interface ImapServer {
  readonly host: string;
  readonly port: number;
  readonly tls: 'implicit' | 'starttls' | 'none';
  readonly user: string;
  /** Certificates to trust in place of the system's, in PEM. */
  readonly ca?: string;
}

/** A token is sent with OAUTHBEARER (RFC 7628), or XOAUTH2 if the server offers only that. */
export interface Credential {
  readonly kind: 'password' | 'token';
  readonly secret: Secret;
}

/** Bytes requested at once from a message. */
export const PIECE_BYTES = 1024 * 1024;
const MAX_LITERAL = PIECE_BYTES + 64 * 1024;
const MAX_LINE = 8 * 1024 * 1024;
const MAX_RESPONSE = MAX_LITERAL + MAX_LINE;
/** Responses to one command. The largest ones have one response per folder, or per message of about 50,000. */
const MAX_RESPONSES = 200_000;

export interface ConnectionTimes {
  /** Milliseconds until a connection attempt fails. */
  readonly connectMs: number;
  /** Milliseconds without data until a connection counts as broken. Large folders take long to open. */
  readonly silenceMs: number;
}

const TIMES: ConnectionTimes = { connectMs: 30_000, silenceMs: 120_000 };
/** Milliseconds to wait for the answer to LOGOUT. */
const LOGOUT_MS = 2_000;

interface Item {
  readonly payload: Buffer;
  readonly literals: readonly Buffer[];
}

/** Internals that imapflow does not export. */
interface Internals {
  handleResponse(item: Item): Promise<boolean>;
  write(line: string): void;
  readonly namespaces?: Readonly<
    Record<string, readonly { readonly prefix?: string }[] | false | undefined>
  >;
}

type UntaggedResponse = DataResponse | StatusResponse;

interface Running {
  readonly command: string;
  readonly tags: ReadonlyMap<string, number>;
  readonly results: (StatusResponse | undefined)[];
  readonly onData: (response: UntaggedResponse) => void | Promise<void>;
  readonly done: PromiseWithResolvers<void>;
  responses: number;
  missing: number;
  fault: Error | undefined;
}

/** The folder opened with EXAMINE. */
export interface SelectedFolder {
  /** The name as sent by the server, one character per byte. */
  readonly wireName: string;
  readonly uidValidity: string;
  /** Null if the server does not report it. */
  readonly uidNext: number | null;
  /** Null if the folder has no modification sequences (NOMODSEQ). */
  readonly highestModSeq: string | null;
  /** MAILBOXID (RFC 8474); null without OBJECTID. */
  readonly mailboxId: string | null;
  /**
   * Milliseconds since the epoch when EXAMINE was sent. A session can show messages that were deleted since, and miss
   * messages that have arrived since.
   */
  readonly openedAt: number;
  /** Current number of messages. */
  exists: number;
  /** Increases with every EXISTS, EXPUNGE and VANISHED. */
  changes: number;
}

/** One signed-in connection. Runs one call at a time. */
export class ImapSession {
  selected: SelectedFolder | null = null;
  readonly capabilities: ReadonlySet<string>;
  /** Prefixes of other users' and shared folders, one character per byte, as sent by the server. */
  readonly foreignPrefixes: readonly string[];
  #running: Running | undefined;
  #end: MailkeepError | undefined;
  #tag = 0;
  #idleResponses = 0;

  private constructor(
    private readonly client: ImapFlow,
    private readonly server: ImapServer,
  ) {
    const inner = client as unknown as Internals;
    this.capabilities = new Set([...client.capabilities.keys()].map((name) => name.toUpperCase()));
    const { other, shared } = inner.namespaces ?? {};
    this.foreignPrefixes = [...(other || []), ...(shared || [])]
      .map(({ prefix }) => prefix ?? '')
      .filter((prefix) => prefix !== '');
    inner.handleResponse = (item) => this.#receive(item);
    client.on('error', (error) => this.#fail(error));
    client.on('close', () => this.#fail(undefined));
  }

  /**
   * Connects and signs in.
   *
   * @throws imap.needs-tls, imap.unreachable, imap.certificate, imap.starttls-missing, imap.starttls-injection,
   *   imap.sign-in-refused, imap.no-sign-in-method, imap.throttled, imap.too-large; the signal's reason
   */
  static async open(
    server: ImapServer,
    { kind, secret }: Credential,
    signal: AbortSignal,
    times: ConnectionTimes = TIMES,
  ): Promise<ImapSession> {
    const { host, port, tls, user, ca } = server;
    if (tls === 'none' && !isLoopback(host)) throw imapError('imap.needs-tls', { host });
    signal.throwIfAborted();
    const client = new ImapFlow({
      host,
      port,
      secure: tls === 'implicit',
      ...(tls === 'implicit' ? {} : { doSTARTTLS: tls === 'starttls' }),
      ...(ca === undefined ? {} : { tls: { ca } }),
      auth:
        kind === 'password'
          ? { user, pass: secret.reveal() }
          : { user, accessToken: secret.reveal() },
      clientInfo: { name: 'mailkeep', version: '', vendor: '', 'support-url': '' },
      logger: false,
      disableAutoEnable: true,
      disableAutoIdle: true,
      disableCompression: true,
      connectionTimeout: times.connectMs,
      greetingTimeout: times.connectMs,
      socketTimeout: times.silenceMs,
      maxLiteralSize: MAX_LITERAL,
      maxLineLength: MAX_LINE,
      maxResponseSize: MAX_RESPONSE,
    });
    client.on('error', () => {});
    const release = onAbort(signal, () => client.close());
    try {
      await client.connect();
    } catch (error) {
      client.close();
      signal.throwIfAborted();
      throw connectError(error, server, kind);
    } finally {
      release();
    }
    // Before TLS, anybody on the way can claim that the session is signed in already (PREAUTH).
    if (tls === 'starttls' && client.greeting === undefined) {
      client.close();
      throw imapError('imap.starttls-injection', { host });
    }
    return new ImapSession(client, server);
  }

  get host(): string {
    return this.server.host;
  }

  get usable(): boolean {
    return this.#end === undefined && this.client.usable;
  }

  has(capability: string): boolean {
    return this.capabilities.has(capability);
  }

  /**
   * Sends a command and waits until it is complete.
   *
   * @param command its verb, for errors
   * @param onData receives each untagged response; may throw MalformedResponse
   * @returns the tagged OK, with its response code
   * @throws imap.refused, imap.throttled, imap.malformed, imap.too-large, imap.connection-lost
   */
  async run(
    command: string,
    line: string,
    onData: Running['onData'] = () => {},
  ): Promise<StatusResponse> {
    const [result] = await this.runAll(command, [line], onData);
    if (result === undefined) throw new Error('a command without a result');
    if (result.status !== 'OK') throw this.refusal(command, result);
    return result;
  }

  /** Sends several commands together. Returns the tagged response of each, which can be a refusal. */
  async runAll(
    command: string,
    lines: readonly string[],
    onData: Running['onData'],
  ): Promise<readonly StatusResponse[]> {
    if (lines.length === 0) return [];
    if (this.#running !== undefined) throw new Error('a session runs one call at a time');
    if (this.#end !== undefined) throw this.#end;
    const tags = new Map(lines.map((_, i) => [`k${this.#tag + i}`, i]));
    this.#tag += lines.length;
    const done = Promise.withResolvers<void>();
    const results = lines.map(() => undefined);
    const missing = lines.length;
    const running: Running = {
      ...{ command, tags, results, onData, done, missing },
      responses: 0,
      fault: undefined,
    };
    this.#running = running;
    this.#idleResponses = 0;
    try {
      const inner = this.client as unknown as Internals;
      for (const [tag, i] of tags) inner.write(`${tag} ${lines[i]}`);
      await done.promise;
    } catch (error) {
      if (error instanceof MailkeepError) throw error;
      this.#fail(error);
      throw this.#end ?? error;
    } finally {
      this.#running = undefined;
    }
    if (running.fault !== undefined) {
      // A response that does not parse may be the rest of a literal with a wrong length.
      this.close();
      throw running.fault instanceof MalformedResponse
        ? this.malformed(command, running.fault.message)
        : running.fault;
    }
    return running.results.filter((result) => result !== undefined);
  }

  /** Returns the error for a NO, BAD or BYE. */
  refusal(command: string, result: StatusResponse): MailkeepError {
    const { host } = this.server;
    const code = codeOf(result.code?.name);
    const waitMs = suggestedWait(result.text);
    if (waitMs > 0 || isTemporary(code, result.text)) {
      return imapError('imap.throttled', { host, command, code, waitMs });
    }
    return imapError('imap.refused', { host, command, code });
  }

  malformed(command: string, found: string): MailkeepError {
    return imapError('imap.malformed', { host: this.server.host, command, found });
  }

  async logout(): Promise<void> {
    if (this.usable && this.#running === undefined) {
      const timer = setTimeout(() => this.client.close(), LOGOUT_MS);
      await this.run('LOGOUT', 'LOGOUT').catch(() => {});
      clearTimeout(timer);
    }
    this.close();
  }

  close(): void {
    this.client.close();
  }

  /** Handles one response. imapflow reads the next one when the promise resolves. */
  async #receive({ payload, literals }: Item): Promise<boolean> {
    const running = this.#running;
    try {
      const response = parseResponse(payload, literals);
      if (running === undefined) {
        this.#idleResponses += 1;
        if (this.#idleResponses > MAX_RESPONSES) this.#flood('an idle connection');
        this.#note(response, undefined);
        return this.#end === undefined;
      }
      running.responses += 1;
      if (running.responses > MAX_RESPONSES) this.#flood(running.command);
      else await this.#dispatch(response, running);
    } catch (error) {
      if (running === undefined) this.#fail(error);
      else if (error instanceof MalformedResponse) running.fault ??= error;
      else {
        running.done.reject(error);
        this.close();
      }
    }
    return this.#end === undefined;
  }

  async #dispatch(response: Response, running: Running): Promise<void> {
    this.#note(response, running);
    if ('continuation' in response) throw new MalformedResponse('an unexpected continuation');
    if ('name' in response || response.tag === '*') {
      if (running.fault === undefined) await running.onData(response);
      return;
    }
    const at = running.tags.get(response.tag);
    if (at === undefined || running.results[at] !== undefined) {
      throw new MalformedResponse('a tag that was not sent');
    }
    running.results[at] = response;
    running.missing -= 1;
    if (running.missing === 0) running.done.resolve();
  }

  /** Keeps the selected folder up to date, and handles BYE. */
  #note(response: Response, running: Running | undefined): void {
    if ('continuation' in response) return;
    if ('status' in response) {
      if (response.status === 'BYE' && running?.command !== 'LOGOUT') this.#bye(response, running);
      return;
    }
    const { selected } = this;
    if (selected === null) return;
    if (response.name === 'EXISTS') selected.exists = response.number ?? 0;
    else if (response.name === 'EXPUNGE') selected.exists = Math.max(0, selected.exists - 1);
    else if (response.name !== 'VANISHED') return;
    selected.changes += 1;
  }

  #bye(response: StatusResponse, running: Running | undefined): void {
    const { host } = this.server;
    const command = running?.command ?? 'an idle connection';
    const code = codeOf(response.code?.name);
    const waitMs = suggestedWait(response.text);
    const isThrottled = waitMs > 0 || isTemporary(code, response.text);
    this.#finish(
      isThrottled
        ? imapError('imap.throttled', { host, command, code, waitMs })
        : imapError('imap.connection-lost', { host, command, reason: CLOSED }),
    );
    this.close();
  }

  #flood(command: string): void {
    const { host } = this.server;
    const limit = MAX_RESPONSES;
    this.#finish(imapError('imap.too-large', { host, command, what: 'responses', limit }));
    this.close();
  }

  #fail(error: unknown): void {
    if (this.#end === undefined) {
      const command = this.#running?.command ?? 'an idle connection';
      this.#finish(lossError(error, this.server.host, command));
    }
    this.close();
  }

  #finish(end: MailkeepError): void {
    this.#end ??= end;
    const running = this.#running;
    if (running === undefined) return;
    const { fault } = running;
    const isMalformed = fault instanceof MalformedResponse;
    running.done.reject(isMalformed ? this.malformed(running.command, fault.message) : this.#end);
  }
}

const CLOSED = 'the server closed it';

/** Response codes that ask for a pause (RFC 5530, RFC 9738; THROTTLED and OVERQUOTA are Yahoo's and Gmail's). */
const TEMPORARY: ReadonlySet<string> = new Set([
  'LIMIT',
  'THROTTLED',
  'OVERQUOTA',
  'OVERLOADED',
  'UNAVAILABLE',
  'INUSE',
]);
/** Some servers indicate this only in the text. */
const TEMPORARY_WORDS =
  /throttl|temporar|try again|too many|(?:bandwidth|rate) limit|server (?:is )?(?:busy|unavailable)/i;

function isTemporary(code: string, text: string): boolean {
  return TEMPORARY.has(code) || (code === '' && TEMPORARY_WORDS.test(text));
}

/** Returns a response code that can be shown, or an empty string. */
export function codeOf(name: string | null | undefined): string {
  const code = name?.toUpperCase() ?? '';
  return /^[A-Z][A-Z0-9-]{0,39}$/.test(code) ? code : '';
}

/** Returns the milliseconds of `Request is throttled. Suggested Backoff Time: N milliseconds` (Exchange), or 0. */
function suggestedWait(text: string): number {
  const [, ms] = /Suggested Backoff Time[:=\s]+(\d{1,10})/i.exec(text) ?? [];
  return ms === undefined ? 0 : Number(ms);
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

function lossError(error: unknown, host: string, command: string): MailkeepError {
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

function connectError(
  error: unknown,
  { host, port, user, tls }: ImapServer,
  kind: Credential['kind'],
): MailkeepError {
  const { code, text, status, response, signedOut, bye } = readFields(error);
  const command = 'sign-in';
  if (code === 'STARTTLS_INJECTION') return imapError('imap.starttls-injection', { host });
  if (text === 'Server does not support STARTTLS') {
    return imapError('imap.starttls-missing', { host, port });
  }
  const large = tooLarge(code, host, command);
  if (large !== undefined) return large;
  const waitMs = suggestedWait(text);
  const shown = codeOf(response);
  if (waitMs > 0 || bye || ((status !== null || signedOut) && isTemporary(shown, text))) {
    return imapError('imap.throttled', { host, command, code: shown, waitMs }, error);
  }
  if (NO_METHOD.test(text)) return imapError('imap.no-sign-in-method', { host, kind });
  if (status !== null || signedOut) {
    return imapError('imap.sign-in-refused', { host, user, code: shown }, error);
  }
  if (code !== null && /CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code)) {
    return imapError('imap.certificate', { host, reason: code }, error);
  }
  const reason = reasonOf(code);
  const isBroken = tls === 'starttls' && /^ERR_SSL/.test(reason);
  if (isBroken) return imapError('imap.starttls-injection', { host }, error);
  return imapError('imap.unreachable', { host, port, reason }, error);
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
    text: bye ?? string('responseText') ?? string('message') ?? '',
    signedOut: field('authenticationFailed') === true,
    bye: bye !== null,
  };
}
