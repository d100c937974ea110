import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { type Clock, type Lane, sleep } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import { type Gate, Limiter } from '../core/pace.ts';
import {
  type OriginAnswer,
  type OriginFacts,
  OriginRefusal,
  originError,
  type RefusalCode,
} from './errors.ts';
import { mailboxErrorRecord } from './mailbox-wire.ts';
import { platformErrorRecord } from './platform-wire.ts';
import {
  type Bytes,
  bytesOf,
  Credentials,
  contentTypeOf,
  IN_MEMORY_BYTES,
  jsonOf,
  looksLikeWebPage,
  MAX_SOURCE_BYTES,
  type Page,
  type ParamValues,
  pageOf,
  parseBaseUrl,
  type RecordOf,
  readJson,
  recordOf,
  requestPath,
  retryAfterOf,
  TIMEOUTS,
  type Timeouts,
  type TokenReader,
} from './requests.ts';
import {
  type Reply,
  type Request,
  type RequestReport,
  type Send,
  type Spool,
  sendPaced,
  Transport,
} from './transport.ts';
import { encodeBody, type Operation } from './wire.ts';

/** The Mailbox API's code for a missing mailbox. It can come with any status. */
const MAILBOX_NOT_FOUND = 'ERR_MAILBOX_NOT_FOUND';
const PASSING = new Set([408, 425, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 529]);

/**
 * Returns the error for an unsuccessful response. A web page instead of the error envelope comes from a portal or a
 * proxy, so it must not be mistaken for a refused token or a missing mailbox.
 */
function createRefusal(operation: Operation, host: string, reply: Reply, now: number): Error {
  const { status } = reply;
  if (status >= 300 && status < 400) {
    const to = parseOrigin(reply.headers.location);
    return originError('origin.redirected', { operation: operation.name, host, status, to });
  }
  const bytes = reply.body.kind === 'buffer' ? reply.body.bytes : Buffer.alloc(0);
  const contentType = contentTypeOf(reply.headers);
  if (status < 500 && status !== 429 && looksLikeWebPage(contentType, bytes)) {
    return originError('origin.not-json', {
      operation: operation.name,
      host,
      status,
      what: 'web-page',
      contentType,
    });
  }
  const { code, answer } = readEnvelope(operation, bytes);
  const retryAfterMs = retryAfterOf(reply.headers, now);
  const facts = { operation: operation.name, host, status, code };
  const createError = <C extends RefusalCode>(code: C, facts: OriginFacts[C], retryable = false) =>
    new OriginRefusal(code, facts, status, answer, retryAfterMs, { retryable });
  if (status === 401) return createError('auth.refused', { operation: operation.name, host });
  if (status === 429) {
    return createError('origin.rate-limited', { ...facts, waitMs: retryAfterMs ?? 0 }, true);
  }
  // An operation without a mailbox cannot be missing one, so the response is not from the service.
  if (code === MAILBOX_NOT_FOUND && operation.path.includes('{'))
    return createError('origin.mailbox-not-found', facts);
  if (status === 403) return createError('origin.forbidden', facts);
  return createError('origin.status', facts, PASSING.has(status));
}

/** Returns an error envelope's code and content, or an empty code and null for anything else. */
function readEnvelope({ surface }: Operation, bytes: Buffer) {
  const json = readJson(bytes);
  const value = json.ok ? json.value : undefined;
  let code = '';
  let answer: OriginAnswer | null = null;
  if (surface === 'mailbox') {
    const read = mailboxErrorRecord.safeParse(value).data;
    if (read !== undefined) {
      const { error: message, params } = read;
      code = codeName(read.code);
      answer = { code: read.code, message, params, errors: {}, correlationId: null };
    }
  } else {
    const read = platformErrorRecord.safeParse(value).data;
    if (read !== undefined) {
      const { message, errors = {}, correlation_id: correlationId } = read;
      answer = { code: '', message, params: {}, errors, correlationId };
    }
  }
  return { code, answer };
}

/** Returns the code if it looks like one, because facts are shown and logged. */
function codeName(code: string): string {
  return /^[A-Z][A-Z0-9_]{0,99}$/.test(code) ? code : '';
}

function parseOrigin(location: string | undefined): string | null {
  if (location === undefined || !URL.canParse(location)) return null;
  const { origin } = new URL(location);
  return origin === 'null' ? null : origin;
}

/** Retry limits. Times are in milliseconds. */
export interface RetryPolicy {
  /** Maximum attempts. Those that end with a 429 do not count, because the limiter spaces them out. */
  readonly attempts: number;
  /** Upper bound for the first random wait. Doubles with each wait. */
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** Total time from the first failure. A wait that would exceed it does not start. */
  readonly budgetMs: number;
}

const RETRY_POLICY: RetryPolicy = {
  attempts: 5,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  budgetMs: 300_000,
};

/** Default wait if an operation with its own rate limit, such as feedback, returns a 429. */
const OWN_LIMIT_WAIT_MS = 10_000;

interface Retries {
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  readonly random: () => number;
  readonly gate: Gate;
  readonly host: string;
}

/**
 * The only layer that retries. Reads are retried after any temporary failure: 429, 408, 5xx, broken connections,
 * malformed bodies. Writes are retried only after a 429, or if they were never sent. Otherwise, the error states that
 * the write may have taken effect.
 *
 * @throws the last failure, or origin.outcome-unknown
 */
async function withRetries<T>(
  retries: Retries,
  operation: Operation,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
): Promise<T> {
  const { policy, clock, gate } = retries;
  let firstFailure: number | undefined;
  let failures = 0;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      if (!mayRepeat(operation, error)) throw classifyFailure(retries, operation, error);
      const now = clock.now();
      firstFailure ??= now;
      const remaining = firstFailure + policy.budgetMs - now;
      const isRateLimit = error.code === 'origin.rate-limited';
      if (!isRateLimit) failures += 1;
      const wait = retryWait(retries, operation, error, failures);
      if (failures >= policy.attempts || wait > remaining) throw withHostWait(gate, error);
      // A 429 waits at the gate, as do all requests behind it, unless the operation has its own limit.
      if (wait > 0 && !(isRateLimit && !operation.ownLimit)) await sleep(clock, wait, signal);
    }
  }
}

function mayRepeat(operation: Operation, error: MailkeepError): boolean {
  if (!error.retryable) return false;
  if (operation.read || error.code === 'origin.rate-limited') return true;
  return error.facts.sent === false;
}

/** Failures after which a write may have taken effect. Every other failure rules this out. */
const UNCERTAIN = new Set([
  'origin.unreachable',
  'origin.timeout',
  'origin.cut-short',
  'origin.not-json',
  'origin.shape',
  'origin.too-large',
]);

function classifyFailure(retries: Retries, operation: Operation, error: MailkeepError): Error {
  if (operation.read || error.facts.sent === false) return error;
  const status = error instanceof OriginRefusal ? error.status : Number(error.facts.status ?? 0);
  const isUncertain =
    error instanceof OriginRefusal
      ? error.retryable && error.code === 'origin.status'
      : UNCERTAIN.has(error.code) && (status < 300 || status >= 500);
  if (!isUncertain) return error;
  return originError(
    'origin.outcome-unknown',
    { operation: operation.name, host: retries.host, reason: error.code, status },
    error,
  );
}

function retryWait(
  retries: Retries,
  operation: Operation,
  error: MailkeepError,
  failures: number,
): number {
  const retryAfter = error instanceof OriginRefusal ? error.retryAfterMs : null;
  if (error.code === 'origin.rate-limited') {
    return operation.ownLimit ? (retryAfter ?? OWN_LIMIT_WAIT_MS) : retries.gate.heldForMs;
  }
  const { firstWaitMs, longestWaitMs } = retries.policy;
  const maxWait = Math.min(longestWaitMs, firstWaitMs * 2 ** (failures - 1));
  return Math.max(retryAfter ?? 0, retries.random() * maxWait);
}

/** Adds the remaining wait for the host to a rate-limited failure. */
function withHostWait(gate: Gate, error: MailkeepError): Error {
  if (!isRateLimited(error)) return error;
  const { code, facts, status, answer, retryAfterMs, retryable } = error;
  const waitMs = Math.max(retryAfterMs ?? 0, gate.heldForMs);
  return new OriginRefusal(code, { ...facts, waitMs }, status, answer, retryAfterMs, { retryable });
}

function isRateLimited(error: MailkeepError): error is OriginRefusal<'origin.rate-limited'> {
  return error instanceof OriginRefusal && error.code === 'origin.rate-limited';
}

export interface ClientOptions {
  /** Base address of the API, without `/api/…`. Plain http works only for this machine. */
  readonly baseUrl: string;
  /** The token, or a function that reads it. It is called for the first request, and again after a 401. */
  readonly token: string | TokenReader;
  /** Allows plain http to other machines, sending the token unencrypted. */
  readonly insecure?: boolean;
  /** The process's limiter. By default, the client creates one from `requestsPerMinute` and `concurrency`. */
  readonly limiter?: Limiter;
  /** Identifies the token to the limiter without revealing it. Clients with the same label and host share a gate. */
  readonly label?: string;
  /** Maximum; defaults to 60. Ignored if `limiter` is set. */
  readonly requestsPerMinute?: number;
  /** Maximum requests in flight; defaults to 4. Ignored if `limiter` is set. */
  readonly concurrency?: number;
  readonly timeouts?: Partial<Timeouts>;
  readonly retries?: Partial<RetryPolicy>;
  /** Called for every request sent, whatever its outcome. */
  readonly onRequest?: (report: RequestReport) => void;
  readonly userAgent?: string;
  /** For tests. */
  readonly clock?: Clock;
  readonly random?: () => number;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Priority among waiting requests; defaults to `new-mail`. */
  readonly lane?: Lane | undefined;
}

/** `perPage` is always sent; it defaults to 100. */
export interface PageOptions extends CallOptions {
  readonly page?: number;
  readonly perPage?: number;
}

export interface SpoolOptions extends CallOptions {
  /** Directory for bodies above the memory limit; defaults to the system's temporary directory. */
  readonly spoolDir?: string | undefined;
  /** Bytes; defaults to 8 MiB. */
  readonly inMemoryLimit?: number | undefined;
  /** Bytes; defaults to 2 GiB. */
  readonly ceiling?: number | undefined;
}

/** The result of a request that the service accepted with a 202 and completes later. The request is never resent. */
export class Accepted {
  constructor(readonly body: unknown) {}
}

/** An undecoded response for generic callers. */
export type RawAnswer =
  | { readonly kind: 'json'; readonly status: number; readonly json: unknown }
  | { readonly kind: 'empty'; readonly status: number }
  | { readonly kind: 'bytes'; readonly status: number; readonly body: Bytes };

type Args = [params: ParamValues, body?: unknown, options?: CallOptions];

/** Calls the operations of one API. Requests wait their turn, and are retried if that is safe. */
export class SurfaceClient {
  readonly host: string;
  readonly gate: Gate;
  readonly #surface: Operation['surface'];
  readonly #prefix: string;
  readonly #transport: Transport;
  readonly #send: Send;
  readonly #retries: Retries;

  /** @throws base-url-invalid */
  constructor(surface: Operation['surface'], options: ClientOptions) {
    const base = parseBaseUrl(options.baseUrl, options.insecure);
    const { token } = options;
    const limiter =
      options.limiter ??
      new Limiter({
        policy: {
          requestsPerMinute: options.requestsPerMinute ?? 60,
          concurrency: options.concurrency ?? 4,
        },
        clock: options.clock,
      });
    const { clock } = limiter;
    const now = () => clock.now();
    this.#surface = surface;
    this.host = base.host;
    this.gate = limiter.gate(base.host, options.label ?? surface);
    this.#prefix = base.prefix;
    this.#transport = new Transport({
      base,
      connections: limiter.concurrency,
      timeouts: { ...TIMEOUTS, ...options.timeouts },
      userAgent: options.userAgent ?? 'mailkeep',
      now,
      onRequest: options.onRequest,
    });
    this.#send = sendPaced({
      transport: this.#transport,
      gate: this.gate,
      credentials: new Credentials(typeof token === 'string' ? () => token : token, base.host),
      now,
    });
    this.#retries = {
      policy: { ...RETRY_POLICY, ...options.retries },
      clock,
      random: options.random ?? Math.random,
      gate: this.gate,
      host: base.host,
    };
  }

  /** Aborts requests in flight and closes connections. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  record<O extends Operation>(
    operation: O,
    ...[params, body, options]: Args
  ): Promise<RecordOf<O>> {
    return this.#call(operation, params, body, options, null, (reply) =>
      recordOf(operation, jsonOf(operation, this.host, reply)),
    );
  }

  recordOrAccepted<O extends Operation>(
    operation: O,
    ...[params, body, options]: Args
  ): Promise<RecordOf<O> | Accepted> {
    return this.#call(operation, params, body, options, null, (reply) => {
      const isEmpty = reply.body.kind === 'buffer' && reply.body.bytes.length === 0;
      if (reply.status === 202) {
        return new Accepted(isEmpty ? undefined : jsonOf(operation, this.host, reply));
      }
      return recordOf(operation, jsonOf(operation, this.host, reply));
    });
  }

  page<O extends Operation>(
    operation: O,
    params: ParamValues,
    body: unknown,
    options: PageOptions | undefined,
  ): Promise<Page<RecordOf<O>>> {
    const [page, size] = [options?.page, options?.perPage ?? 100];
    const values =
      operation.surface === 'mailbox'
        ? { page, perPage: size, ...params }
        : { ...params, page, per_page: size };
    return this.#call(operation, values, body, options, null, (reply) =>
      pageOf(operation, jsonOf(operation, this.host, reply)),
    );
  }

  /** Calls an operation whose response has no body. A web page in its place is an error. */
  done(operation: Operation, ...[params, body, options]: Args): Promise<void> {
    return this.#call(operation, params, body, options, null, (reply) => {
      if (reply.body.kind === 'file' || reply.body.bytes.length > 0) {
        jsonOf(operation, this.host, reply);
      }
    });
  }

  bytes(
    operation: Operation,
    params: ParamValues,
    options: SpoolOptions | undefined,
  ): Promise<Bytes> {
    return this.#call(operation, params, undefined, options, createSpool(options), (reply) =>
      bytesOf(operation, this.host, reply),
    );
  }

  /** Calls any operation of this API without decoding the response. */
  raw(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    options: SpoolOptions | undefined,
  ): Promise<RawAnswer> {
    if (operation.surface !== this.#surface) {
      throw new RangeError(`${operation.name} is not of the ${this.#surface} surface`);
    }
    const spool = operation.response.kind === 'bytes' ? createSpool(options) : null;
    return this.#call<RawAnswer>(operation, params, body, options, spool, (reply) => {
      const { status } = reply;
      if (operation.response.kind === 'bytes') {
        return { kind: 'bytes', status, body: bytesOf(operation, this.host, reply) };
      }
      if (reply.body.kind === 'buffer' && reply.body.bytes.length === 0) {
        if (operation.response.kind === 'empty' || status === 202) return { kind: 'empty', status };
      }
      return { kind: 'json', status, json: jsonOf(operation, this.host, reply) };
    });
  }

  async #call<T>(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    options: CallOptions | undefined,
    spool: Spool | null,
    read: (reply: Reply) => T,
  ): Promise<T> {
    const request: Request = {
      operation,
      path: requestPath(operation, this.#prefix, params),
      body: encoded(operation, body),
      spool,
      lane: options?.lane ?? 'new-mail',
      key: String(params.mailboxResourceId ?? ''),
      signal: options?.signal,
    };
    return withRetries(this.#retries, operation, request.signal, async () => {
      const reply = await this.#send(request);
      try {
        if (reply.status >= 300) {
          throw createRefusal(operation, this.host, reply, this.#retries.clock.now());
        }
        return read(reply);
      } catch (error) {
        if (reply.body.kind === 'file') await rm(reply.body.path, { force: true });
        throw error;
      }
    });
  }
}

function encoded(operation: Operation, body: unknown): string | null {
  if (operation.body === null) return null;
  return JSON.stringify(encodeBody(operation.body, body ?? {}, operation.name));
}

function createSpool(options: SpoolOptions | undefined): Spool {
  return {
    dir: options?.spoolDir ?? tmpdir(),
    inMemoryLimit: options?.inMemoryLimit ?? IN_MEMORY_BYTES,
    ceiling: options?.ceiling ?? MAX_SOURCE_BYTES,
  };
}
