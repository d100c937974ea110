import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import http from 'node:http';
import https from 'node:https';
import { AwsV4Signer } from 'aws4fetch';
import { Parser } from 'htmlparser2';
import { type Clock, onAbort, sleep, systemClock } from '../core/concurrency.ts';
import { errnoName, hasCode, MailkeepError } from '../core/errors.ts';
import { keyOf, labelOf, type S3Target, urlOf } from '../core/s3-target.ts';
import { objectError } from './errors.ts';
import {
  ByteRate,
  MAX_HEADER_BYTES,
  MAX_XML_BYTES,
  MIN_BYTES_PER_MS,
  PART_BYTES,
  TIMEOUTS,
  type Timeouts,
} from './object-store.ts';

/** S3 responses have at most five levels. The parser's array of open elements makes deep nesting slow. */
const MAX_LEVELS = 16;
/** A page of 1,000 objects has about 10,000. */
const MAX_ELEMENTS = 200_000;

export interface XmlElement {
  readonly name: string;
  readonly text: string;
  readonly children: readonly XmlElement[];
}

interface Growing {
  readonly name: string;
  text: string;
  readonly children: Growing[];
}

/** Returns the root of a complete XML document. Undefined if invalid or nested too deep. Opens no entities. */
export function parseXml(bytes: Buffer): XmlElement | undefined {
  const open: Growing[] = [];
  let root: Growing | undefined;
  let elements = 0;
  let isSound = true;
  const parser = new Parser(
    {
      onopentag(tag) {
        const element = { name: tag.slice(tag.indexOf(':') + 1), text: '', children: [] };
        elements += 1;
        if (elements > MAX_ELEMENTS || open.length >= MAX_LEVELS) isSound = false;
        // A second root, or too much: the rest is ignored.
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
  // Checked before the end, where the parser would close open elements.
  return isSound && open.length === 0 ? root : undefined;
}

/** Returns the text of a child; empty if there is none. */
export function textOf(element: XmlElement, name: string): string {
  return element.children.find((child) => child.name === name)?.text ?? '';
}

export function childrenOf(element: XmlElement, name: string): XmlElement[] {
  return element.children.filter((child) => child.name === name);
}

/** Escapes a text for the inside of an element. */
export function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

interface Refusal {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly xml: XmlElement | undefined;
  readonly code: string;
}

const TRANSIENT_STATUS: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);
const TRANSIENT_CODE: ReadonlySet<string> = new Set([
  'InternalError',
  'ServiceUnavailable',
  'SlowDown',
  'RequestTimeout',
  // Two concurrent writes of one object.
  'OperationAborted',
  'ConditionalRequestConflict',
  'ConcurrentModification',
]);
/** Insufficient Storage (WebDAV), returned by servers with full disks. */
const NO_ROOM = 507;
/** Ceph returns `QuotaExceeded` with 403; `XMinioStorageFull` and `XMinioAdminBucketQuotaExceeded` are MinIO's. */
const FULL_CODE =
  /^(?:QuotaExceeded|InsufficientStorage|XMinioStorageFull|XMinioAdminBucketQuotaExceeded)$/;
const REGION = /^[a-z0-9-]{1,64}$/;
const MAX_ASKED_MS = 120_000;

/** Returns whether the same request may succeed later. */
export function isTransient({ status, code }: Pick<Refusal, 'status' | 'code'>): boolean {
  return TRANSIENT_STATUS.has(status) || TRANSIENT_CODE.has(code);
}

/** Returns the wait that a server requests, in milliseconds, up to a limit. */
export function retryAfterMs(headers: IncomingHttpHeaders, now: number): number {
  const asked = headers['retry-after'] ?? '';
  const ms = /^\d{1,9}$/.test(asked) ? Number(asked) * 1000 : Date.parse(asked) - now;
  return Number.isFinite(ms) ? Math.max(0, Math.min(MAX_ASKED_MS, ms)) : 0;
}

function refusalError(store: string, operation: string, refusal: Refusal): Error {
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

function regionOf({ headers, xml }: Refusal): string | null {
  const header = headers['x-amz-bucket-region'];
  const named =
    typeof header === 'string' ? header : xml === undefined ? '' : textOf(xml, 'Region');
  return REGION.test(named) ? named : null;
}

/** Limits on retries. Times in milliseconds. */
interface RetryPolicy {
  /** Total tries without progress. */
  readonly attempts: number;
  /** Upper bound of the first random wait; it doubles with each failure. */
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** Total time since the first failure; a wait beyond it is not started. */
  readonly budgetMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  attempts: 8,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  budgetMs: 300_000,
};

interface RetryTools {
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  /** From 0 to 1, like Math.random. */
  readonly random: () => number;
}

/** The only retry layer: counts the failures of one operation, and waits between tries. */
class Patience {
  #failures = 0;
  #failedSince: number | undefined;

  constructor(
    private readonly tools: RetryTools,
    private readonly signal: AbortSignal,
  ) {}

  /** Resets the failure count after progress. */
  progressed(): void {
    this.#failures = 0;
    this.#failedSince = undefined;
  }

  /**
   * Waits before the next try.
   *
   * @param askedMs wait requested by the server
   * @throws the error, with the number of tries, if it is permanent or the retries are used up; the signal's reason
   */
  async afterFailure(error: unknown, askedMs = 0): Promise<void> {
    this.signal.throwIfAborted();
    if (!(error instanceof MailkeepError) || !error.retryable) throw error;
    const { policy, clock, random } = this.tools;
    this.#failures += 1;
    this.#failedSince ??= clock.now();
    const bound = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** (this.#failures - 1));
    const wait = Math.max(askedMs, random() * bound);
    const left = this.#failedSince + policy.budgetMs - clock.now();
    if (this.#failures >= policy.attempts || wait > left) throw withTries(error, this.#failures);
    await sleep(clock, wait, this.signal);
  }
}

function withTries(error: MailkeepError, tries: number): MailkeepError {
  const store = String(error.facts.store);
  const operation = String(error.facts.operation);
  const { cause } = error;
  if (hasCode(error, 'store-unreachable')) {
    const reason = String(error.facts.reason);
    return objectError('store-unreachable', { store, operation, reason, tries }, cause);
  }
  if (!hasCode(error, 'store-busy')) return error;
  const { status, answer } = error.facts;
  const facts = { store, operation, status: Number(status), answer: String(answer), tries };
  return objectError('store-busy', facts, cause);
}

/** Invalid certificates: a retry cannot help. */
const TLS_REFUSALS = /^(?:CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_SSL_|EPROTO)/;
const CONNECTIONS = 16;

interface SignedRequest {
  /** Operation of the protocol, such as `PutObject`, for errors. */
  readonly operation: string;
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A response whose body must be read or discarded. */
export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Single use. Fails if the response breaks off or stalls. */
  chunks(): AsyncGenerator<Buffer>;
  /** Closes the connection unless everything was read. */
  discard(): void;
}

/**
 * Sends one request, without retries or redirects. Uses Node's client, because undici 7 ends the process when a server
 * closes the connection of a response that is not being read, as with slow disks.
 */
class S3Transport {
  readonly #agents = {
    'http:': new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS }),
    'https:': new https.Agent({ keepAlive: true, maxSockets: CONNECTIONS }),
  };

  constructor(
    private readonly options: {
      readonly store: string;
      readonly timeouts: Timeouts;
      readonly clock: Clock;
      readonly sending: ByteRate;
      readonly receiving: ByteRate;
    },
  ) {}

  /**
   * Resolves when the response starts.
   *
   * @throws store-unreachable; store-certificate; the signal's reason
   */
  async send(request: SignedRequest, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { operation, method, url, headers, body } = request;
    const { clock, timeouts, sending } = this.options;
    const secure = url.protocol === 'https:';
    const sent = (secure ? https : http).request(url, {
      method,
      headers: { ...headers, 'content-length': String(body.length) },
      agent: this.#agents[secure ? 'https:' : 'http:'],
      maxHeaderSize: MAX_HEADER_BYTES,
    });
    const unwatch = onAbort(signal, () => sent.destroy(failed('ECONNRESET')));
    const total = timeouts.answer + body.length / MIN_BYTES_PER_MS + 2 * sending.msFor(body.length);
    const expired = clock.after(total, () => sent.destroy(failed('ETIMEDOUT')));
    let unconnected = () => {};
    sent.once('socket', (socket) => {
      if (!socket.connecting) return;
      unconnected = clock.after(timeouts.connect, () => sent.destroy(failed('ETIMEDOUT')));
      socket.once('connect', () => unconnected());
    });
    try {
      const arrived = new Promise<http.IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve);
        sent.on('error', reject);
        sent.once('close', () => reject(failed('ECONNRESET')));
      });
      // Awaited later, possibly after the body is written, so a failure must not count as unhandled.
      arrived.catch(() => {});
      await this.#write(sent, body, arrived, signal);
      const message = await arrived;
      return this.#answer(operation, message, signal, unwatch);
    } catch (error) {
      unwatch();
      sent.destroy();
      throw this.#failure(operation, error, signal);
    } finally {
      expired();
      unconnected();
    }
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  /** A server may respond before it has read everything, and then stop reading. */
  async #write(
    sent: http.ClientRequest,
    body: Buffer,
    arrived: Promise<unknown>,
    signal: AbortSignal,
  ): Promise<void> {
    const { sending } = this.options;
    if (sending.piece >= body.length) {
      await sending.take(body.length, signal);
      sent.end(body);
      return;
    }
    const progress = { hasEnded: false };
    const ended = arrived.then(
      () => {
        progress.hasEnded = true;
      },
      () => {
        progress.hasEnded = true;
      },
    );
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
    // Errors without a reader, such as of a discarded response.
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
    const { clock, timeouts, receiving } = this.options;
    const chunks: AsyncIterator<Buffer> = message[Symbol.asyncIterator]();
    try {
      for (;;) {
        const silent = clock.after(timeouts.idle, () => message.destroy(failed('ETIMEDOUT')));
        const next = await chunks.next().finally(silent);
        if (next.done === true) break;
        await receiving.take(next.value.length, signal);
        yield next.value;
      }
      if (!message.complete) throw failed('ECONNRESET');
    } catch (error) {
      throw this.#failure(operation, error, signal);
    } finally {
      message.destroy();
    }
  }

  #failure(operation: string, error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    const { store } = this.options;
    const reason = reasonOf(error);
    if (TLS_REFUSALS.test(reason))
      return objectError('store-certificate', { store, reason }, error);
    return objectError('store-unreachable', { store, operation, reason, tries: 1 }, error);
  }
}

/** If several addresses failed, reports the first failure. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return errnoName(error);
}

function failed(code: 'ETIMEDOUT' | 'ECONNRESET'): Error {
  return Object.assign(new Error(code), { code });
}

export interface S3Options {
  readonly clock?: Clock;
  /** From 0 to 1, like Math.random. */
  readonly random?: () => number;
  readonly retries?: RetryPolicy;
  readonly timeouts?: Timeouts;
  /** Objects up to this length are sent in one request; servers require at least 5 MiB. */
  readonly partBytes?: number;
  /** Age of an unfinished upload from which it is aborted; in milliseconds. */
  readonly abandonedMs?: number;
}

interface S3Request {
  /** Operation of the protocol, such as `PutObject`, for errors. */
  readonly operation: string;
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Object name; without it, the request is about the bucket. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** A response that was read completely. */
export interface S3Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The root element, if it is XML. */
  readonly xml: XmlElement | undefined;
  /** The server's error code, such as `NoSuchKey`; empty if there is none. */
  readonly code: string;
  /** True if an earlier try may have taken effect because its response was lost. */
  readonly isUncertain: boolean;
}

const NOTHING = Buffer.alloc(0);
const ABANDONED_MS = 3 * 24 * 60 * 60_000;
const ERROR_CODE = /^[A-Za-z0-9.]{1,64}$/;

/** Signs and sends requests to one bucket, with retries after transient failures. */
export class S3Client {
  readonly label: string;
  readonly partBytes: number;
  /** Age of an unfinished upload from which it is aborted; in milliseconds. */
  readonly abandonedMs: number;
  readonly clock: Clock;
  readonly #transport: S3Transport;
  readonly #signingKeys = new Map<string, ArrayBuffer>();

  constructor(
    readonly target: S3Target,
    private readonly options: S3Options = {},
  ) {
    this.label = labelOf(target);
    this.partBytes = options.partBytes ?? PART_BYTES;
    this.abandonedMs = options.abandonedMs ?? ABANDONED_MS;
    this.clock = options.clock ?? systemClock;
    this.#transport = new S3Transport({
      store: this.label,
      timeouts: options.timeouts ?? TIMEOUTS,
      clock: this.clock,
      sending: new ByteRate(target.bytesPerSecond, this.clock),
      receiving: new ByteRate(target.bytesPerSecond, this.clock),
    });
  }

  patience(signal: AbortSignal): Patience {
    const { retries: policy = RETRY_POLICY, random = Math.random } = this.options;
    return new Patience({ policy, clock: this.clock, random }, signal);
  }

  /**
   * Sends a request with retries, and reads the response. Refusals count as responses.
   *
   * @throws store-unreachable, store-busy once retries are used up; store-certificate, store-answer-invalid; the
   * signal's reason
   */
  async request(request: S3Request, signal: AbortSignal): Promise<S3Reply> {
    const patience = this.patience(signal);
    let isUncertain = false;
    for (;;) {
      let askedMs = 0;
      try {
        const reply = { ...(await this.#exchange(request, signal)), isUncertain };
        if (!isTransient(reply)) return reply;
        askedMs = retryAfterMs(reply.headers, this.clock.now());
        throw refusalError(this.label, request.operation, reply);
      } catch (error) {
        isUncertain = true;
        await patience.afterFailure(error, askedMs);
      }
    }
  }

  /** Like `request`, but throws for any status except 200. */
  async ok(request: S3Request, signal: AbortSignal): Promise<S3Reply> {
    const reply = await this.request(request, signal);
    if (reply.status === 200) return reply;
    throw this.refused(request.operation, reply);
  }

  /** Sends a request once; the response must still be read. */
  async open(request: S3Request, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    return await this.#transport.send(await this.#signed(request), signal);
  }

  /** Reads the rest of a response as XML. */
  async read(operation: string, answer: Answer): Promise<Omit<S3Reply, 'isUncertain'>> {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of answer.chunks()) {
      length += chunk.length;
      if (length > MAX_XML_BYTES) throw this.invalid(operation, `more than ${MAX_XML_BYTES} bytes`);
      chunks.push(chunk);
    }
    const { status, headers } = answer;
    const xml = length === 0 ? undefined : parseXml(Buffer.concat(chunks));
    // A slow server may have sent status 200 before it failed.
    const found = xml?.name === 'Error' ? textOf(xml, 'Code') : '';
    return { status, headers, xml, code: ERROR_CODE.test(found) ? found : '' };
  }

  /** Returns the error of an unexpected response. */
  refused(operation: string, reply: Pick<S3Reply, 'status' | 'headers' | 'xml' | 'code'>): Error {
    if (reply.code === 'NoSuchBucket') {
      return objectError('store-no-bucket', { store: this.label, bucket: this.target.bucket });
    }
    return refusalError(this.label, operation, reply);
  }

  invalid(operation: string, problem: string): Error {
    return objectError('store-answer-invalid', { store: this.label, operation, problem });
  }

  async close(): Promise<void> {
    this.#transport.close();
  }

  async #exchange(request: S3Request, signal: AbortSignal): Promise<Omit<S3Reply, 'isUncertain'>> {
    return await this.read(request.operation, await this.open(request, signal));
  }

  async #signed({
    operation,
    method,
    name,
    query = {},
    headers = {},
    body = NOTHING,
  }: S3Request): Promise<SignedRequest> {
    const { target, clock } = this;
    const url = urlOf(target, name === undefined ? '' : keyOf(target, name));
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
    const signed = await signer.sign();
    return {
      operation,
      method,
      url: signed.url,
      headers: Object.fromEntries(signed.headers),
      body,
    };
  }
}
