import http from 'node:http';
import https from 'node:https';
import { errnoName } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';
import type { Clock } from '../limiter/clock.ts';
import { onAbort } from '../limiter/on-abort.ts';
import type { ByteRate } from './byte-rate.ts';
import { MOST_HEADER_BYTES, SLOWEST_BYTES_PER_MS, type Timeouts } from './limits.ts';

/** Certificates that do not hold: trying again changes nothing. */
const TLS_REFUSALS = /^(?:CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_SSL_|EPROTO)/;
const CONNECTIONS = 16;

export interface SignedRequest {
  /** Of the protocol, such as `PutObject`: for errors. */
  readonly operation: string;
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** An answer whose body is yet to be read, or discarded. */
export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Once. Fails if the answer breaks off or falls silent. */
  chunks(): AsyncGenerator<Buffer>;
  /** Breaks the connection unless everything was read. */
  discard(): void;
}

/**
 * One request over the wire, without patience: no retries, no redirects. Node's own client, because undici 7 ends the
 * process when a server closes the connection of an answer that is not read at the moment, as with slow disks.
 */
export class S3Transport {
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
   * Resolves when the answer begins.
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
      maxHeaderSize: MOST_HEADER_BYTES,
    });
    const unwatch = onAbort(signal, () => sent.destroy(failed('ECONNRESET')));
    const total =
      timeouts.answer + body.length / SLOWEST_BYTES_PER_MS + 2 * sending.msFor(body.length);
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
      // Failures are found where it is awaited, which may be after the body is written.
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

  /** Lets go of the connections. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  /** A server may answer before it has read everything, and then read no more. */
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
    // Errors without a reader, such as of an answer that is discarded.
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

/** Where several addresses were tried, the first failure stands for all. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return errnoName(error);
}

function failed(code: 'ETIMEDOUT' | 'ECONNRESET'): Error {
  return Object.assign(new Error(code), { code });
}
