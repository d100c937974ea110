import { MailkeepError } from './mailkeep-error.ts';

/** Codes of what is known of a mailbox without a pass over it, with the facts that fill their sentences. */
export interface MailboxErrorFacts {
  /** `quota` as the service names it: STORAGE or MESSAGE. `percent` is rounded down. */
  readonly 'mailbox-nearly-full': {
    readonly address: string;
    readonly quota: string;
    readonly percent: number;
  };
}

/** A mailbox that is nearly full. */
export function nearlyFull(facts: MailboxErrorFacts['mailbox-nearly-full']) {
  return new MailkeepError('origin', 'mailbox-nearly-full', facts);
}
