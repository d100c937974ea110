import { errnoName, MailkeepError } from '../core/errors.ts';
import { registryError } from './errors.ts';
import { isRefusal, ReplicasNotAwaited } from './guarded-pool.ts';

/** Conditions after which the same transaction may succeed: conflicts, locks, time limits, too many connections. */
const BUSY = ['40001', '40P01', '55P03', '57014', '53300'];
const FULL = ['53100', '53200'];
/** Program limits: the same statement never succeeds. */
const LIMIT_CLASS = '54';
const READ_ONLY = '25006';
/** Invalid authorisation, and privileges. */
const DENIED = /^28|^42501$/;
const NO_DATABASE = '3D000';

/** What OpenSSL and Node.js say of certificates. */
const CERTIFICATE = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT|HOSTNAME_MISMATCH)/;

export interface Failed {
  /** The registry's label. */
  readonly registry: string;
  /** The name of our transaction. */
  readonly transaction: string;
  /** True once the server may have committed: its answer is what failed. */
  readonly mayBeCommitted: boolean;
}

/**
 * Returns the error of ours for a failure of a transaction. Texts of the server are left out, also as a cause: details of
 * constraints quote rows, which hold mail.
 */
export function failureOf(error: unknown, failed: Failed): Error {
  if (error instanceof MailkeepError) return error;
  if (error instanceof ReplicasNotAwaited) return unknownOutcome('replicas', failed);
  if (isRefusal(error)) return refusal(error.code, error.constraint ?? null, failed);
  if (failed.mayBeCommitted) return unknownOutcome(reasonOf(error), failed);
  return connectionFailure(error, failed.registry) ?? unexpected(error);
}

function unknownOutcome(reason: string, { registry, transaction }: Failed): Error {
  return registryError('outcome-unknown', { registry, transaction, reason });
}

function refusal(condition: string, constraint: string | null, failed: Failed): Error {
  const { registry, transaction } = failed;
  const facts = { registry, transaction, condition };
  if (BUSY.includes(condition)) return registryError('registry-busy', facts);
  if (FULL.includes(condition)) return registryError('registry-full', facts);
  if (condition.startsWith(LIMIT_CLASS)) return registryError('registry-limit', facts);
  if (condition === NO_DATABASE) return registryError('registry-no-database', { registry });
  if (condition === READ_ONLY) return registryError('registry-read-only', facts);
  if (DENIED.test(condition)) {
    return registryError('registry-access-denied', { registry, condition });
  }
  return registryError('registry-refused', { ...facts, constraint });
}

/** Returns the error of ours for a connection that was not made or got lost; undefined for any other error. */
function connectionFailure(error: unknown, registry: string): Error | undefined {
  const code = errnoName(error);
  if (DENIED.test(code)) {
    return registryError('registry-access-denied', { registry, condition: code });
  }
  if (CERTIFICATE.test(code)) {
    return registryError('registry-certificate', { registry, reason: code });
  }
  // SCRAM without a password is refused on this side, before anything is sent.
  if (error instanceof Error && error.message.startsWith('SASL')) {
    return registryError('registry-access-denied', { registry, condition: '28P01' });
  }
  if (code !== 'unknown' || (error instanceof Error && LOST.test(error.message))) {
    return registryError('registry-unreachable', { registry, reason: reasonOf(error) });
  }
  return undefined;
}

/** Errors of `pg` that have no code. */
const LOST =
  /^(?:Connection terminated|timeout exceeded|Query read timeout|Client has encountered|The server does not support SSL)/;

function reasonOf(error: unknown): string {
  const code = errnoName(error);
  if (code !== 'unknown') return code;
  const message = error instanceof Error ? error.message : '';
  return message.startsWith('The server does not support SSL') ? 'no TLS' : 'no answer';
}

function unexpected(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
