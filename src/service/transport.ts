import type { IncomingHttpHeaders } from 'node:http';
import { buildConnector, type Dispatcher, errors, Pool } from 'undici';
import { type Lane, onAbort } from '../core/concurrency.ts';
import { errnoName } from '../core/errors.ts';
import type { Gate } from '../core/pace.ts';
import { originError, type TooLarge } from './errors.ts';
import {
  type BaseUrl,
  type Body,
  BodyCollector,
  type Credentials,
  contentLengthOf,
  countOf,
  MAX_ERROR_BYTES,
  MAX_HEADER_BYTES,
  MAX_INFORMATIONAL,
  MAX_JSON_BYTES,
  MIN_BYTES_PER_MS,
  retryAfterOf,
  type Timeouts,
} from './requests.ts';
import type { Operation } from './wire.ts';

const TLS_REFUSALS = /^(CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_SSL_|EPROTO)/;

/** If several addresses were tried, returns the code of the first failure. */
function codeOf(error: unknown): string {
  if (error instanceof errors.HTTPParserError) return 'not-http';
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  return errnoName(error);
}

export function tooLarge(operation: Operation, host: string, what: TooLarge, limit: number): Error {
  return originError('origin.too-large', { operation: operation.name, host, what, limit });
}

interface TransportOptions {
  readonly base: BaseUrl;
  readonly connections: number;
  readonly timeouts: Timeouts;
  readonly userAgent: string;
  readonly now: () => number;
  readonly onRequest?: ((report: RequestReport) => void) | undefined;
}

/** Sends single requests to one host over its own connections. Does not retry, limit or follow redirects. */
export class Transport {
  readonly #paused: Paused = new Set();
  readonly #pool: Pool;

  constructor(private readonly options: TransportOptions) {
    const { base, timeouts, connections } = options;
    this.#pool = new Pool(base.origin, {
      connections,
      pipelining: 1,
      connect: connector(timeouts.connect, this.#paused),
      headersTimeout: timeouts.headers,
      bodyTimeout: timeouts.idle,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
  }

  /**
   * Resolves with the complete response, whatever its status.
   *
   * @throws origin.unreachable, origin.timeout, origin.cut-short, origin.too-large, spool-failed; the signal's reason
   * if it aborts
   */
  send(request: Request, token: string): Promise<Reply> {
    const { path, body, operation } = request;
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'user-agent': this.options.userAgent,
      accept: operation.response.kind === 'bytes' ? '*/*' : 'application/json',
    };
    const exchange = new Exchange(this.options, request, this.#paused);
    this.#pool.dispatch({ path, method: operation.method, headers, body }, exchange);
    exchange.watchSignal();
    return exchange.answer;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** Responses paused because the disk is slower than the network. */
type Paused = Set<Dispatcher.DispatchController>;

/**
 * Connects as undici does, and resumes every paused response when a connection ends. undici 7 crashes the process with
 * an assertion if a server closes the connection of a paused response (https://github.com/nodejs/undici/issues/5360).
 * undici 8 does not, but needs Node.js 22.19. Resuming is safe, because an ended connection delivers no more bytes.
 */
function connector(timeout: number, paused: Paused): buildConnector.connector {
  const connect = buildConnector({ timeout });
  return (target, callback) =>
    connect(target, (...result) => {
      // undici adds its own listener later, so this one runs first.
      result[1]?.on('end', () => {
        for (const controller of [...paused]) controller.resume();
      });
      callback(...result);
    });
}

/**
 * Follows one request through undici's handler interface. Unlike `request()`, the interface reports when undici starts
 * to write a request, so an unsent write can be retried. It can also stop a body that exceeds its limit.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #answer = Promise.withResolvers<Reply>();
  readonly #startedAt: number;
  #controller: Dispatcher.DispatchController | undefined;
  #stopWatching: (() => void) | undefined;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #contentLength: number | null = null;
  #collector: BodyCollector | undefined;
  #ceiling = 0;
  #received = 0;
  #informational = 0;
  #isFinished = false;

  constructor(
    private readonly options: TransportOptions,
    private readonly request: Request,
    private readonly paused: Paused,
  ) {
    this.#startedAt = options.now();
  }

  get answer(): Promise<Reply> {
    return this.#answer.promise;
  }

  watchSignal(): void {
    const { signal } = this.request;
    if (signal === undefined || this.#isFinished) return;
    if (signal.aborted) this.#fail(signal.reason);
    else this.#stopWatching = onAbort(signal, () => this.#fail(signal.reason));
  }

  /** Called just before the request is written. From then on, the request may take effect. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // The request was cancelled while it waited for a connection.
    if (this.#isFinished) controller.abort(new Error('given up'));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      this.#informational += 1;
      if (this.#informational > MAX_INFORMATIONAL) {
        this.#fail(tooLarge(this.request.operation, this.#host, 'headers', MAX_HEADER_BYTES));
      }
      return;
    }
    this.#status = status;
    this.#headers = headers;
    this.#contentLength = contentLengthOf(headers);
    const { operation, spool } = this.request;
    const isSuccess = status < 300;
    const spooled = isSuccess && operation.response.kind === 'bytes' ? spool : null;
    this.#ceiling = isSuccess ? (spooled?.ceiling ?? MAX_JSON_BYTES) : MAX_ERROR_BYTES;
    const contentLength = this.#contentLength;
    if (isSuccess && contentLength !== null && contentLength > this.#ceiling) {
      this.#fail(this.#tooLarge());
    } else {
      this.#collector = new BodyCollector({
        dir: spooled?.dir ?? '',
        inMemoryLimit: spooled?.inMemoryLimit ?? this.#ceiling,
        resume: () => {
          this.paused.delete(controller);
          controller.resume();
        },
        fail: (error) => this.#fail(error),
      });
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // If the parser resumes after the last byte, it emits an empty chunk. A response that paused at that point would
    // still be paused when its connection ends.
    if (this.#isFinished || chunk.length === 0) return;
    this.#received += chunk.length;
    if (this.#received > this.#ceiling) {
      // An error's status suffices, but an endless successful response is a failure.
      if (this.#status >= 300) {
        this.#finish();
        controller.abort(new Error('read enough'));
      } else this.#fail(this.#tooLarge());
      return;
    }
    const { timeouts, now } = this.options;
    const limitMs = timeouts.total + this.#received / MIN_BYTES_PER_MS;
    if (now() - this.#startedAt > limitMs) {
      this.#fail(this.#timeout('total', Math.round(limitMs)));
      return;
    }
    if (this.#collector?.take(chunk) === false) {
      this.paused.add(controller);
      controller.pause();
    }
  }

  onResponseEnd(): void {
    this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isFinished) return;
    // An error's body can be cut off, because its status is already known.
    if (this.#status >= 300) this.#finish();
    else this.#fail(this.#broken(error));
  }

  /** Returns the error for a broken exchange. Uses the failure's code and never its text. */
  #broken(cause: Error): Error {
    const { timeouts } = this.options;
    const code = codeOf(cause);
    switch (code) {
      case 'UND_ERR_CONNECT_TIMEOUT':
        return this.#timeout('connect', timeouts.connect, cause);
      case 'UND_ERR_HEADERS_TIMEOUT':
        return this.#timeout('headers', timeouts.headers, cause);
      case 'UND_ERR_BODY_TIMEOUT':
        return this.#timeout('idle', timeouts.idle, cause);
      case 'UND_ERR_HEADERS_OVERFLOW':
        return tooLarge(this.request.operation, this.#host, 'headers', MAX_HEADER_BYTES);
    }
    const exchange = { operation: this.request.operation.name, host: this.#host };
    if (this.#status !== 0) {
      const facts = { ...exchange, received: this.#received, expected: this.#contentLength };
      return originError('origin.cut-short', facts, cause);
    }
    const facts = { ...exchange, reason: code, sent: this.#controller !== undefined };
    return originError('origin.unreachable', facts, cause, !TLS_REFUSALS.test(code));
  }

  #timeout(phase: 'connect' | 'headers' | 'idle' | 'total', afterMs: number, cause?: Error): Error {
    const { name: operation } = this.request.operation;
    const facts = { operation, host: this.#host, phase, afterMs };
    return originError('origin.timeout', { ...facts, sent: this.#controller !== undefined }, cause);
  }

  get #host(): string {
    return this.options.base.host;
  }

  #tooLarge(): Error {
    const { operation, spool } = this.request;
    const what =
      operation.response.kind !== 'bytes' || spool === null
        ? 'json'
        : operation.response.contentType === 'message/rfc822'
          ? 'source'
          : 'attachment';
    return tooLarge(operation, this.#host, what, this.#ceiling);
  }

  #finish(): void {
    if (this.#isFinished) return;
    const collector = this.#collector;
    const body = collector?.finish() ?? { kind: 'buffer', bytes: Buffer.alloc(0) };
    if (body instanceof Promise) {
      // Writing the last bytes to the file can still fail, and a signal can still abort it.
      body.then(
        (written) => this.#succeed(written),
        (error: unknown) => this.#fail(error),
      );
    } else this.#succeed(body);
  }

  #succeed(body: Body): void {
    if (this.#isFinished) {
      // The request was cancelled while the last bytes were written.
      void this.#collector?.discard();
      return;
    }
    this.#end();
    this.#answer.resolve({
      status: this.#status,
      headers: this.#headers,
      body,
      contentLength: this.#contentLength,
    });
  }

  #fail(error: unknown): void {
    if (this.#isFinished) return;
    this.#end();
    this.#controller?.abort(error instanceof Error ? error : new Error('given up'));
    const cleanup = this.#collector?.discard();
    if (cleanup === undefined) this.#answer.reject(error);
    else void cleanup.then(() => this.#answer.reject(error));
  }

  #end(): void {
    this.#isFinished = true;
    this.#stopWatching?.();
    if (this.#controller !== undefined) this.paused.delete(this.#controller);
    const { now, base, onRequest } = this.options;
    // An unsent request never reached the service.
    if (this.#controller === undefined) return;
    onRequest?.({
      operation: this.request.operation.name,
      key: this.request.key,
      surface: this.request.operation.surface,
      host: base.host,
      status: this.#status,
      ms: now() - this.#startedAt,
      bytes: this.#received,
    });
  }
}

export type Send = (request: Request) => Promise<Reply>;

/** Waits at the gate, sends the request and reports the response to the gate. Resends after a 401 with a new token. */
export function sendPaced(options: {
  readonly transport: Transport;
  readonly gate: Gate;
  readonly credentials: Credentials;
  readonly now: () => number;
}): Send {
  const { transport, gate, credentials, now } = options;

  async function sendOnce(request: Request, token: string): Promise<Reply> {
    request.signal?.throwIfAborted();
    const startedAt = gate.tryEnter() ?? (await gate.enter(request));
    let reply: Reply;
    try {
      reply = await transport.send(request, token);
    } catch (error) {
      gate.leave(null);
      throw error;
    }
    const ownLimit = reply.status === 429 && request.operation.ownLimit;
    gate.leave(
      ownLimit
        ? null
        : {
            status: reply.status,
            startedAt,
            retryAfterMs: retryAfterOf(reply.headers, now()),
            limit: countOf(reply.headers, 'x-ratelimit-limit'),
            remaining: countOf(reply.headers, 'x-ratelimit-remaining'),
          },
    );
    return reply;
  }

  return async (request) => {
    const token = credentials.token();
    const used = typeof token === 'string' ? token : await token;
    const reply = await sendOnce(request, used);
    if (reply.status !== 401) return reply;
    const nextToken = await credentials.after(used);
    return nextToken === null ? reply : sendOnce(request, nextToken);
  };
}

export interface Spool {
  readonly dir: string;
  readonly inMemoryLimit: number;
  readonly ceiling: number;
}

/** A request before it is given a token and its turn. */
export interface Request {
  readonly operation: Operation;
  readonly path: string;
  /** JSON, or null if there is no body. */
  readonly body: string | null;
  readonly spool: Spool | null;
  readonly lane: Lane;
  /** The mailbox: the unit of fairness within a lane. */
  readonly key: string;
  readonly signal: AbortSignal | undefined;
}

/** A complete response, whatever its status. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Body;
  /** Content-Length, or null if there is none. */
  readonly contentLength: number | null;
}

/** Cost of one HTTP exchange. */
export interface RequestReport {
  readonly operation: string;
  /** Resource id of the mailbox; empty if the request does not concern a mailbox. */
  readonly key: string;
  readonly surface: 'mailbox' | 'platform' | 'imap';
  readonly host: string;
  /** 0 if no response arrived. For IMAP commands: 200 for OK, 400 for NO and BAD, 429 for a request to slow down. */
  readonly status: number;
  readonly ms: number;
  /** Size of the response body. */
  readonly bytes: number;
}
