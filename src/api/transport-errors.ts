import { errors } from 'undici';
import { errnoName } from '../errors/mailkeep-error.ts';
import { originError, type TooLarge } from '../errors/origin.ts';
import type { Operation } from '../wire/operation.ts';
import { MOST_HEADER_BYTES, type Timeouts } from './limits.ts';

/** Certificates that do not hold: trying again changes nothing. */
const TLS_REFUSALS = /^(CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_SSL_|EPROTO)/;

/** How far an exchange had come when it failed. */
export interface Progress {
  readonly operation: Operation;
  readonly host: string;
  readonly timeouts: Timeouts;
  /** The request began to be written. */
  readonly sent: boolean;
  /** The answer's headers had come. */
  readonly answering: boolean;
  readonly received: number;
  readonly expected: number | null;
}

/** Names what broke an exchange, by the failure's code and never by its text. */
export function exchangeError(cause: Error, progress: Progress): Error {
  const { host, timeouts, sent } = progress;
  const operation = progress.operation.name;
  const code = codeOf(cause);
  const timeout = (phase: 'connect' | 'headers' | 'idle', afterMs: number) =>
    originError(
      'origin.timeout',
      { operation, host, phase, afterMs, sent },
      { cause, retryable: true },
    );
  switch (code) {
    case 'UND_ERR_CONNECT_TIMEOUT':
      return timeout('connect', timeouts.connect);
    case 'UND_ERR_HEADERS_TIMEOUT':
      return timeout('headers', timeouts.headers);
    case 'UND_ERR_BODY_TIMEOUT':
      return timeout('idle', timeouts.idle);
    case 'UND_ERR_HEADERS_OVERFLOW':
      return tooLarge(progress.operation, host, 'headers', MOST_HEADER_BYTES);
  }
  if (progress.answering) {
    return originError(
      'origin.cut-short',
      { operation, host, received: progress.received, expected: progress.expected },
      { cause, retryable: true },
    );
  }
  return originError(
    'origin.unreachable',
    { operation, host, reason: code, sent },
    { cause, retryable: !TLS_REFUSALS.test(code) },
  );
}

/** Where several addresses were tried, the first failure stands for all. */
function codeOf(error: unknown): string {
  if (error instanceof errors.HTTPParserError) return 'not-http';
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  return errnoName(error);
}

export function tooLarge(operation: Operation, host: string, what: TooLarge, limit: number): Error {
  return originError('origin.too-large', { operation: operation.name, host, what, limit });
}

export function tooSlow(operation: Operation, host: string, afterMs: number): Error {
  return originError(
    'origin.timeout',
    { operation: operation.name, host, phase: 'total', afterMs, sent: true },
    { retryable: true },
  );
}
