import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AwsV4Signer } from 'aws4fetch';
import { objectError } from '../errors/objects.ts';
import type { Clock } from '../limiter/clock.ts';
import { systemClock } from '../limiter/clock.ts';
import { ByteRate } from './byte-rate.ts';
import { MOST_XML_BYTES, PART_BYTES, TIMEOUTS, type Timeouts } from './limits.ts';
import { isTransient, refusalError, retryAfterMs } from './s3-refusals.ts';
import { Patience, RETRY_POLICY, type RetryPolicy } from './s3-retries.ts';
import { keyOf, labelOf, type S3Target, urlOf } from './s3-target.ts';
import { type Answer, S3Transport, type SignedRequest } from './s3-transport.ts';
import { parseXml, textOf, type XmlElement } from './s3-xml.ts';

export interface S3Options {
  readonly clock?: Clock;
  /** From 0 to 1, as Math.random. */
  readonly random?: () => number;
  readonly retries?: RetryPolicy;
  readonly timeouts?: Timeouts;
  /** Objects up to this length are sent in one request; servers want 5 MiB at least. */
  readonly partBytes?: number;
  /** Uploads that were begun so long ago, and are not finished, are given up; in milliseconds. */
  readonly abandonedMs?: number;
}

export interface S3Request {
  /** Of the protocol, such as `PutObject`: for errors. */
  readonly operation: string;
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Of an object; without it, the request is about the bucket. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** An answer that was read to its end. */
export interface S3Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Its root, if it is XML. */
  readonly xml: XmlElement | undefined;
  /** The server's own code of an error, such as `NoSuchKey`; empty if there is none. */
  readonly code: string;
  /** An earlier try of the request may have taken effect: nobody knows, because its answer did not come. */
  readonly isUncertain: boolean;
}

const NOTHING = Buffer.alloc(0);
const ERROR_CODE = /^[A-Za-z0-9.]{1,64}$/;

/** Signs requests to one bucket, sends them, and sends them again after failures that may pass. */
export class S3Client {
  readonly label: string;
  readonly partBytes: number;
  readonly clock: Clock;
  readonly #transport: S3Transport;
  readonly #signingKeys = new Map<string, ArrayBuffer>();

  constructor(
    readonly target: S3Target,
    private readonly options: S3Options,
  ) {
    this.label = labelOf(target);
    this.partBytes = options.partBytes ?? PART_BYTES;
    this.clock = options.clock ?? systemClock;
    this.#transport = new S3Transport({
      store: this.label,
      timeouts: options.timeouts ?? TIMEOUTS,
      clock: this.clock,
      sending: new ByteRate(target.bytesPerSecond, this.clock),
      receiving: new ByteRate(target.bytesPerSecond, this.clock),
    });
  }

  /** Counts the failures of one operation. */
  patience(signal: AbortSignal): Patience {
    const { retries: policy = RETRY_POLICY, random = Math.random } = this.options;
    return new Patience({ policy, clock: this.clock, random }, signal);
  }

  /**
   * Sends a request until it is answered, and reads the answer. Answers that say no are answers.
   *
   * @throws store-unreachable, store-busy once the patience is over; store-certificate, store-answer-invalid; the
   *   signal's reason
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

  /** Sends a request once; the answer is yet to be read. */
  async open(request: S3Request, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    return await this.#transport.send(await this.#signed(request), signal);
  }

  /** Reads what is left of an answer as XML. */
  async read(operation: string, answer: Answer): Promise<Omit<S3Reply, 'isUncertain'>> {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of answer.chunks()) {
      length += chunk.length;
      if (length > MOST_XML_BYTES) {
        const problem = `more than ${MOST_XML_BYTES} bytes`;
        throw objectError('store-answer-invalid', { store: this.label, operation, problem });
      }
      chunks.push(chunk);
    }
    const { status, headers } = answer;
    const xml = length === 0 ? undefined : parseXml(Buffer.concat(chunks));
    // A server that took long may have begun its answer with 200 before it failed.
    const found = xml?.name === 'Error' ? textOf(xml, 'Code') : '';
    return { status, headers, xml, code: ERROR_CODE.test(found) ? found : '' };
  }

  /** Returns the error of an answer that is none of those expected. */
  refused(operation: string, reply: Pick<S3Reply, 'status' | 'headers' | 'xml' | 'code'>): Error {
    if (reply.code === 'NoSuchBucket') {
      return objectError('store-no-bucket', { store: this.label, bucket: this.target.bucket });
    }
    return refusalError(this.label, operation, reply);
  }

  /** Lets go of the connections. */
  close(): void {
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
