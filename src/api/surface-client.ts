import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import type { Clock } from '../limiter/clock.ts';
import type { Gate } from '../limiter/gate.ts';
import type { Lane } from '../limiter/lanes.ts';
import { Limiter } from '../limiter/limiter.ts';
import { encodeBody } from '../wire/codec.ts';
import type { Operation } from '../wire/operation.ts';
import {
  type Bytes,
  bytesOf,
  type Decoder,
  jsonOf,
  type Page,
  pageOf,
  recordOf,
} from './answers.ts';
import { Credentials, type TokenReader } from './credentials.ts';
import type { Reply, Request, RequestReport, Spool } from './exchange.ts';
import { IN_MEMORY_BYTES, MOST_SOURCE_BYTES, TIMEOUTS, type Timeouts } from './limits.ts';
import { refusalOf } from './refusals.ts';
import { type ParamValues, readBaseUrl, requestPath } from './request-url.ts';
import { RETRY_POLICY, type Retries, type RetryPolicy, withRetries } from './retries.ts';
import { type Send, sendInTurn } from './send.ts';
import { openTransport, type Transport } from './transport.ts';

export interface ClientOptions {
  /** Where the surface is served, without `/api/…`. Plain http for this machine only. */
  readonly baseUrl: string;
  /** The token, or what reads it: when the first request needs it, and again after a 401. */
  readonly token: string | TokenReader;
  /** Allows plain http beyond this machine: the token goes readable over the network. */
  readonly insecure?: boolean;
  /** The limiter of the process. Without one the client makes its own from the two numbers below. */
  readonly limiter?: Limiter;
  /** Stands for the token at the limiter without containing it; clients with the same label and host share a gate. */
  readonly label?: string;
  /** Ceiling; 60 when left out. Has no effect when `limiter` is given. */
  readonly requestsPerMinute?: number;
  /** Requests in flight at once; 4 when left out. Has no effect when `limiter` is given. */
  readonly concurrency?: number;
  readonly timeouts?: Partial<Timeouts>;
  readonly retries?: Partial<RetryPolicy>;
  /** Called for every request that was sent, whatever its outcome. */
  readonly onRequest?: (report: RequestReport) => void;
  readonly userAgent?: string;
  /** For tests: time and chance. */
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** Options of a single call, in addition to its parameters. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Who goes first when requests must wait; `new-mail` when left out. */
  readonly lane?: Lane | undefined;
}

export interface SpoolOptions extends CallOptions {
  /** Where bytes go that are too many for memory; the system's folder for temporary files when left out. */
  readonly spoolDir?: string | undefined;
  /** 8 MiB when left out. */
  readonly inMemoryLimit?: number | undefined;
  /** The most bytes to take; 2 GiB when left out. */
  readonly ceiling?: number | undefined;
}

/** A 202: the service took the request and finishes it later. It is never sent again. */
export class Accepted {
  /** Body of the answer, undecoded. */
  constructor(readonly body: unknown) {}
}

/** An answer as it came, for callers that take any operation. */
export type RawAnswer =
  | { readonly kind: 'json'; readonly status: number; readonly json: unknown }
  | { readonly kind: 'empty'; readonly status: number }
  | { readonly kind: 'bytes'; readonly status: number; readonly body: Bytes };

/** Calls operations of one surface: builds the request, sends it in turn, tries again where that is safe, decodes. */
export class SurfaceClient {
  /** Host and port. */
  readonly host: string;
  readonly gate: Gate;
  readonly #surface: Operation['surface'];
  readonly #prefix: string;
  readonly #transport: Transport;
  readonly #send: Send;
  readonly #retries: Retries;

  /** @throws base-url-invalid */
  constructor(surface: Operation['surface'], options: ClientOptions) {
    const base = readBaseUrl(options.baseUrl, options.insecure);
    const { token } = options;
    const limiter =
      options.limiter ??
      new Limiter({
        policy: {
          requestsPerMinute: options.requestsPerMinute ?? 60,
          concurrency: options.concurrency ?? 4,
        },
        ...(options.clock === undefined ? {} : { clock: options.clock }),
      });
    const { clock } = limiter;
    const now = () => clock.now();
    this.#surface = surface;
    this.host = base.host;
    this.gate = limiter.gate(base.host, options.label ?? surface);
    this.#prefix = base.prefix;
    this.#transport = openTransport({
      base,
      connections: limiter.concurrency,
      timeouts: { ...TIMEOUTS, ...options.timeouts },
      userAgent: options.userAgent ?? 'mailkeep',
      now,
      onRequest: options.onRequest,
    });
    this.#send = sendInTurn({
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

  /** Breaks what is in flight and lets go of the connections. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  record<T>(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    decoder: Decoder<T>,
    options: CallOptions | undefined,
  ): Promise<T> {
    return this.#call(operation, params, body, options, null, (reply) =>
      recordOf(operation, jsonOf(operation, this.host, reply), decoder),
    );
  }

  /** As `record`, but a 202 is an answer of its own. */
  recordOrAccepted<T>(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    decoder: Decoder<T>,
    options: CallOptions | undefined,
  ): Promise<T | Accepted> {
    return this.#call(operation, params, body, options, null, (reply) => {
      const empty = reply.body.kind === 'buffer' && reply.body.bytes.length === 0;
      if (reply.status === 202) {
        return new Accepted(empty ? undefined : jsonOf(operation, this.host, reply));
      }
      return recordOf(operation, jsonOf(operation, this.host, reply), decoder);
    });
  }

  page<T>(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    decoder: Decoder<T>,
    options: CallOptions | undefined,
  ): Promise<Page<T>> {
    return this.#call(operation, params, body, options, null, (reply) =>
      pageOf(operation, jsonOf(operation, this.host, reply), decoder),
    );
  }

  /** For operations that answer with nothing. A web page in its place is no success. */
  done(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    options: CallOptions | undefined,
  ): Promise<void> {
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
    return this.#call(operation, params, undefined, options, spoolOf(options), (reply) =>
      bytesOf(operation, this.host, reply),
    );
  }

  /** Calls any operation of this surface and leaves its answer as it came. */
  raw(
    operation: Operation,
    params: ParamValues,
    body: unknown,
    options: SpoolOptions | undefined,
  ): Promise<RawAnswer> {
    if (operation.surface !== this.#surface) {
      throw new RangeError(`${operation.name} is not of the ${this.#surface} surface`);
    }
    const spool = operation.response.kind === 'bytes' ? spoolOf(options) : null;
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
          throw refusalOf(operation, this.host, reply, this.#retries.clock.now());
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

function spoolOf(options: SpoolOptions | undefined): Spool {
  return {
    dir: options?.spoolDir ?? tmpdir(),
    inMemoryLimit: options?.inMemoryLimit ?? IN_MEMORY_BYTES,
    ceiling: options?.ceiling ?? MOST_SOURCE_BYTES,
  };
}
