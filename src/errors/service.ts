import { MailkeepError } from './mailkeep-error.ts';

/** Codes of the local service (`mailkeep sandbox`), with the facts that fill their sentences. */
export interface ServiceFacts {
  /** A path given as a seed cannot be read. */
  readonly 'sandbox-seed-unreadable': { readonly path: string; readonly reason: string };
  /** A file that was loaded as a message is no longer what it was when it was loaded. */
  readonly 'sandbox-source-changed': { readonly path: string };
  /** The port is taken, or may not be listened on. */
  readonly 'sandbox-cannot-listen': {
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
  /** The state file is no state of this service, or of another version of it. */
  readonly 'sandbox-state-unusable': { readonly file: string; readonly reason: string };
}

export type ServiceCode = keyof ServiceFacts;

/** An error of the local service's set-up. Exit code 2, but for `sandbox-source-changed`, which is a fault of one request. */
export function serviceError<C extends ServiceCode>(
  code: C,
  facts: ServiceFacts[C],
  cause?: unknown,
): MailkeepError<C, ServiceFacts[C]> {
  return new MailkeepError('usage', code, facts, { cause });
}
