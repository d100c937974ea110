import { createHash } from 'node:crypto';
import http, { type IncomingHttpHeaders } from 'node:http';
import https from 'node:https';
import { AwsV4Signer } from 'aws4fetch';
import { Parser } from 'htmlparser2';
import { type Clock, onAbort, sleep, systemClock } from '../core/concurrency.ts';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { objectKey, objectUrl, type S3Target, targetLabel } from '../core/s3-target.ts';
import { bytesAtMost } from '../core/streams.ts';
import { objectError } from './errors.ts';
import { ByteRate } from './object-store.ts';

/** S3 responses have at most five levels. Deep nesting would slow down the parser. */
const MAX_LEVELS = 16;
/** A page of 1,000 objects has about 10,000 elements. */
const MAX_ELEMENTS = 200_000;

export interface XmlElement {
  readonly name: string;
  text: string;
  readonly children: XmlElement[];
}

/** Returns the root of an XML document; undefined if incomplete, invalid or too large. Ignores entity declarations. */
export function parseXml(bytes: Buffer): XmlElement | undefined {
  const open: XmlElement[] = [];
  let root: XmlElement | undefined;
  let elements = 0;
  let isSound = true;
  const parser = new Parser(
    {
      onopentag(tag) {
        const element = { name: tag.slice(tag.indexOf(':') + 1), text: '', children: [] };
        elements += 1;
        if (elements > MAX_ELEMENTS || open.length >= MAX_LEVELS) isSound = false;
        if (!isSound || (open.length === 0 && root !== undefined)) {
          isSound = false;
          parser.pause();
          return;
        }
        root ??= element;
        open.at(-1)?.children.push(element);
        open.push(element);
      },
      ontext(text) {
        const element = open.at(-1);
        if (element !== undefined) element.text += text;
      },
      onclosetag() {
        open.pop();
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  parser.write(bytes.toString('utf8'));
  // `parser.end()` would close open elements, so a truncated document would be accepted.
  return isSound && open.length === 0 ? root : undefined;
}

export function textOf(element: XmlElement, name: string): string {
  return element.children.find((child) => child.name === name)?.text ?? '';
}

export function childrenOf(element: XmlElement, name: string): XmlElement[] {
  return element.children.filter((child) => child.name === name);
}

export function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const TRANSIENT_STATUS: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);
const TRANSIENT_CODE: ReadonlySet<string> = new Set([
  'InternalError',
  'ServiceUnavailable',
  'SlowDown',
  'RequestTimeout',
  // Another writer is storing the same object.
  'OperationAborted',
  'ConditionalRequestConflict',
  'ConcurrentModification',
]);
/** Insufficient Storage (RFC 4918), which servers with full disks return. */
const NO_ROOM = 507;
/** Ceph returns `QuotaExceeded` with status 403. Codes that start with `XMinio` come from MinIO. */
const FULL_CODE =
  /^(?:QuotaExceeded|InsufficientStorage|XMinioStorageFull|XMinioAdminBucketQuotaExceeded)$/;
const REGION = /^[a-z0-9-]{1,64}$/;
const MAX_ASKED_MS = 120_000;

export function isTransient({ status, code }: Pick<S3Reply, 'status' | 'code'>): boolean {
  return TRANSIENT_STATUS.has(status) || TRANSIENT_CODE.has(code);
}

/** Returns the wait requested by the server, in milliseconds, up to a limit. */
export function retryAfterMs(headers: IncomingHttpHeaders, now: number): number {
  const header = headers['retry-after'] ?? '';
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isFinite(ms) ? Math.max(0, Math.min(MAX_ASKED_MS, ms)) : 0;
}

function refusalError(store: string, operation: string, refusal: Response): Error {
  const { status, code } = refusal;
  const facts = { store, operation, status, answer: code };
  if (status === NO_ROOM || FULL_CODE.test(code)) return objectError('store-full', facts);
  if (isTransient(refusal)) return objectError('store-busy', { ...facts, tries: 1 });
  const region = regionOf(refusal);
  if ((status >= 300 && status < 400 && status !== 304) || (status === 400 && region !== null)) {
    return objectError('store-redirects', { store, operation, status, region });
  }
  if (status === 401 || status === 403) return objectError('store-access-denied', facts);
  if (status >= 400) return objectError('store-refused', facts);
  const problem = `HTTP ${status}`;
  return objectError('store-answer-invalid', { store, operation, problem });
}

function regionOf({ headers, xml }: Response): string | null {
  const header = headers['x-amz-bucket-region'];
  const region =
    typeof header === 'string' ? header : xml === undefined ? '' : textOf(xml, 'Region');
  return REGION.test(region) ? region : null;
}

interface RetryPolicy {
  /** Maximum number of consecutive attempts without progress. */
  readonly attempts: number;
  /** Upper bound on the first random wait. Doubles with each failure. */
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** No wait may end later than this after the first failure. */
  readonly budgetMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  attempts: 8,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  budgetMs: 300_000,
};

/** The only retry layer. Counts an operation's failures and waits between attempts. */
class Patience {
  #failures = 0;
  #failedSince: number | undefined;

  constructor(
    private readonly policy: RetryPolicy,
    private readonly clock: Clock,
    private readonly random: () => number,
    private readonly signal: AbortSignal,
  ) {}

  progressed(): void {
    this.#failures = 0;
    this.#failedSince = undefined;
  }

  /**
   * Waits before the next attempt.
   * @param askedMs the wait requested by the server
   * @throws the error, with the number of attempts, if it is permanent or none are left; the signal's reason
   */
  async afterFailure(error: unknown, askedMs = 0): Promise<void> {
    this.signal.throwIfAborted();
    if (!(error instanceof MailkeepError) || !error.retryable) throw error;
    const { policy, clock } = this;
    this.#failures += 1;
    this.#failedSince ??= clock.now();
    const bound = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** (this.#failures - 1));
    const wait = Math.max(askedMs, this.random() * bound);
    const left = this.#failedSince + policy.budgetMs - clock.now();
    if (this.#failures >= policy.attempts || wait > left) throw withTries(error, this.#failures);
    await sleep(clock, wait, this.signal);
  }
}

function withTries(error: MailkeepError, tries: number): MailkeepError {
  const { family, code, facts, cause, retryable } = error;
  if (!('tries' in facts)) return error;
  return new MailkeepError(family, code, { ...facts, tries }, { cause, retryable });
}

const MIB = 1024 * 1024;
/** A page of 1,000 objects takes about 500 kB. */
const MAX_XML_BYTES = 8 * MIB;
const MAX_HEADER_BYTES = 64 * 1024;
/** Objects up to this length are sent in one request, longer ones in parts. */
const PART_BYTES = 8 * MIB;
/** 16 kB/s. */
const MIN_BYTES_PER_MS = 16;
const CONNECTIONS = 16;
const ABANDONED_MS = 3 * 24 * 60 * 60_000;
const ERROR_CODE = /^[A-Za-z0-9.]{1,64}$/;
/** Errors about certificates, which a retry would not fix. */
const TLS_REFUSALS = /^(?:CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_SSL_|EPROTO)/;

const TIMEOUTS = {
  connect: 10_000,
  /** Time until the response starts, in addition to the time for sending the request at `MIN_BYTES_PER_MS`. */
  answer: 60_000,
  /** Silence during the response, while a reader waits for bytes. */
  idle: 60_000,
};

export interface S3Options {
  readonly clock?: Clock;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random?: () => number;
  readonly retries?: RetryPolicy;
  /** Milliseconds. */
  readonly timeouts?: Readonly<typeof TIMEOUTS>;
  /** Objects up to this length are sent in one request. Servers require at least 5 MiB. */
  readonly partBytes?: number;
  /** Age at which an unfinished upload is aborted, in milliseconds. */
  readonly abandonedMs?: number;
}

interface S3Request {
  readonly operation: string;
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Name of the object; undefined for requests about the bucket. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** A response whose body must be read or discarded. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Readable once. Fails if the response breaks off or stalls. */
  chunks(): AsyncGenerator<Buffer>;
  /** Closes the connection unless everything has been read. */
  discard(): void;
}

interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Root element; undefined if the body is not XML. */
  readonly xml: XmlElement | undefined;
  /** The server's error code, such as `NoSuchKey`, or an empty string. */
  readonly code: string;
}

export interface S3Reply extends Response {
  /** True if an earlier attempt may have succeeded even though its response was lost. */
  readonly isUncertain: boolean;
}

/**
 * Signs requests and sends them to a bucket. Retries after transient failures, and follows no redirects. Uses Node's
 * HTTP client: undici 7 crashes the process if a server closes a connection while nobody is reading the response, which
 * happens with slow disks.
 */
export class S3Client {
  readonly label: string;
  readonly partBytes: number;
  readonly abandonedMs: number;
  readonly clock: Clock;
  readonly #timeouts: Readonly<typeof TIMEOUTS>;
  readonly #sending: ByteRate;
  readonly #receiving: ByteRate;
  readonly #signingKeys = new Map<string, ArrayBuffer>();
  readonly #agents = {
    'http:': new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS }),
    'https:': new https.Agent({ keepAlive: true, maxSockets: CONNECTIONS }),
  };

  constructor(
    readonly target: S3Target,
    private readonly options: S3Options = {},
  ) {
    this.label = targetLabel(target);
    this.partBytes = options.partBytes ?? PART_BYTES;
    this.abandonedMs = options.abandonedMs ?? ABANDONED_MS;
    this.clock = options.clock ?? systemClock;
    this.#timeouts = options.timeouts ?? TIMEOUTS;
    this.#sending = new ByteRate(target.bytesPerSecond, this.clock);
    this.#receiving = new ByteRate(target.bytesPerSecond, this.clock);
  }

  patience(signal: AbortSignal): Patience {
    const { retries = RETRY_POLICY, random = Math.random } = this.options;
    return new Patience(retries, this.clock, random, signal);
  }

  /**
   * Sends a request with retries, and reads the response regardless of its status.
   * @throws store-unreachable and store-busy if no attempts are left; store-certificate; store-answer-invalid; the
   * signal's reason
   */
  async request(request: S3Request, signal: AbortSignal): Promise<S3Reply> {
    const patience = this.patience(signal);
    let isUncertain = false;
    for (;;) {
      let askedMs = 0;
      try {
        const response = await this.read(request.operation, await this.open(request, signal));
        if (!isTransient(response)) return { ...response, isUncertain };
        askedMs = retryAfterMs(response.headers, this.clock.now());
        throw refusalError(this.label, request.operation, response);
      } catch (error) {
        isUncertain = true;
        await patience.afterFailure(error, askedMs);
      }
    }
  }

  /** Like `request`, but throws for any status other than 200. */
  async ok(request: S3Request, signal: AbortSignal): Promise<S3Reply> {
    const reply = await this.request(request, signal);
    if (reply.status === 200) return reply;
    throw this.refused(request.operation, reply);
  }

  /**
   * Sends a request once. Resolves when the response starts.
   * @throws store-unreachable; store-certificate; the signal's reason
   */
  async open(request: S3Request, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { operation, method, body = Buffer.alloc(0) } = request;
    const { url, headers } = await this.#sign(request, body);
    signal.throwIfAborted();
    const secure = url.protocol === 'https:';
    const sent = (secure ? https : http).request(url, {
      method,
      headers: { ...Object.fromEntries(headers), 'content-length': String(body.length) },
      agent: this.#agents[secure ? 'https:' : 'http:'],
      maxHeaderSize: MAX_HEADER_BYTES,
    });
    const fail = (code: 'ETIMEDOUT' | 'ECONNRESET') => sent.destroy(ioError(code));
    const stopWatching = onAbort(signal, () => fail('ECONNRESET'));
    const bodyMs = body.length / MIN_BYTES_PER_MS + 2 * this.#sending.msFor(body.length);
    const cancelTimeout = this.clock.after(this.#timeouts.answer + bodyMs, () => fail('ETIMEDOUT'));
    let cancelConnect = () => {};
    sent.once('socket', (socket) => {
      if (!socket.connecting) return;
      cancelConnect = this.clock.after(this.#timeouts.connect, () => fail('ETIMEDOUT'));
      socket.once('connect', () => cancelConnect());
    });
    try {
      const arrived = new Promise<http.IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve);
        sent.on('error', reject);
        sent.once('close', () => reject(ioError('ECONNRESET')));
      });
      // Awaited only after the body is written, so an earlier failure must not count as unhandled.
      arrived.catch(() => {});
      await this.#write(sent, body, arrived, signal);
      return this.#answer(operation, await arrived, signal, stopWatching);
    } catch (error) {
      stopWatching();
      sent.destroy();
      throw this.#failure(operation, error, signal);
    } finally {
      cancelTimeout();
      cancelConnect();
    }
  }

  async read(operation: string, answer: Answer): Promise<Response> {
    const bytes = await bytesAtMost(answer.chunks(), MAX_XML_BYTES);
    if (bytes === null) throw this.invalid(operation, `more than ${MAX_XML_BYTES} bytes`);
    const { status, headers } = answer;
    const xml = bytes.length === 0 ? undefined : parseXml(bytes);
    // A slow server can send status 200 and fail later.
    const code = xml?.name === 'Error' ? textOf(xml, 'Code') : '';
    return { status, headers, xml, code: ERROR_CODE.test(code) ? code : '' };
  }

  refused(operation: string, response: Response): Error {
    if (response.code === 'NoSuchBucket') {
      return objectError('store-no-bucket', { store: this.label, bucket: this.target.bucket });
    }
    return refusalError(this.label, operation, response);
  }

  invalid(operation: string, problem: string): Error {
    return objectError('store-answer-invalid', { store: this.label, operation, problem });
  }

  async close(): Promise<void> {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  async #sign({ method, name, query = {}, headers = {} }: S3Request, body: Buffer) {
    const { target, clock } = this;
    const url = objectUrl(target, name === undefined ? '' : objectKey(target, name));
    for (const [parameter, value] of Object.entries(query)) {
      url.searchParams.set(parameter, value);
    }
    const signer = new AwsV4Signer({
      ...(await target.credentials()),
      method,
      url: url.href,
      headers: {
        ...headers,
        'x-amz-content-sha256': createHash('sha256').update(body).digest('hex'),
      },
      service: 's3',
      region: target.region,
      cache: this.#signingKeys,
      datetime: new Date(clock.now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
    });
    return await signer.sign();
  }

  /** Stops when a response arrives: a server can respond early and then stop reading. */
  async #write(
    sent: http.ClientRequest,
    body: Buffer,
    arrived: Promise<unknown>,
    signal: AbortSignal,
  ): Promise<void> {
    const sending = this.#sending;
    if (sending.piece >= body.length) {
      await sending.take(body.length, signal);
      sent.end(body);
      return;
    }
    const progress = { hasEnded: false };
    const end = () => {
      progress.hasEnded = true;
    };
    const ended = arrived.then(end, end);
    for (let at = 0; at < body.length && !progress.hasEnded; at += sending.piece) {
      await sending.take(Math.min(sending.piece, body.length - at), signal);
      if (progress.hasEnded) return;
      if (sent.write(body.subarray(at, at + sending.piece))) continue;
      await Promise.race([new Promise<void>((resolve) => sent.once('drain', resolve)), ended]);
    }
    if (!progress.hasEnded) sent.end();
  }

  #answer(
    operation: string,
    message: http.IncomingMessage,
    signal: AbortSignal,
    unwatch: () => void,
  ): Answer {
    // Nobody reads a discarded response, so its errors are ignored.
    message.on('error', () => {});
    message.once('close', unwatch);
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      chunks: () => this.#chunks(operation, message, signal),
      discard: () => {
        if (!message.complete || message.readableLength > 0) message.destroy();
        else message.resume();
      },
    };
  }

  async *#chunks(
    operation: string,
    message: http.IncomingMessage,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer> {
    const chunks: AsyncIterator<Buffer> = message[Symbol.asyncIterator]();
    try {
      for (;;) {
        const silent = this.clock.after(this.#timeouts.idle, () =>
          message.destroy(ioError('ETIMEDOUT')),
        );
        const next = await chunks.next().finally(silent);
        if (next.done === true) break;
        await this.#receiving.take(next.value.length, signal);
        yield next.value;
      }
      if (!message.complete) throw ioError('ECONNRESET');
    } catch (error) {
      throw this.#failure(operation, error, signal);
    } finally {
      message.destroy();
    }
  }

  #failure(operation: string, error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    const store = this.label;
    const reason = reasonOf(error);
    if (TLS_REFUSALS.test(reason))
      return objectError('store-certificate', { store, reason }, error);
    return objectError('store-unreachable', { store, operation, reason, tries: 1 }, error);
  }
}

/** Reports the first failure if several addresses were tried. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return errnoName(error);
}

function ioError(code: 'ETIMEDOUT' | 'ECONNRESET'): Error {
  return Object.assign(new Error(code), { code });
}
