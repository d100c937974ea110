import type { SyncProgress } from '../../sync/progress.ts';

export interface MailboxTally {
  readonly address: string;
  /** Messages to come, by the folder listing when the mailbox began. */
  readonly ahead: number;
  readonly messages: number;
  readonly bytes: number;
  readonly finished: boolean;
}

export interface Waiting {
  readonly account: string;
  readonly until: number;
  readonly reason: 'rate' | 'retry-after' | 'paused';
}

/** Everything that progress has reported so far. */
export interface Tally {
  readonly startedAt: number;
  /** By account and address, in the order in which they began. */
  readonly mailboxes: ReadonlyMap<string, MailboxTally>;
  readonly requests: ReadonlyMap<string, number>;
  /** What the forecast of each account promised, which knows mailboxes that did not begin yet. */
  readonly forecast: ReadonlyMap<string, number>;
  readonly waiting: Waiting | null;
  readonly indexing: { readonly indexed: number; readonly remaining: number } | null;
}

export function emptyTally(now: number): Tally {
  return {
    startedAt: now,
    mailboxes: new Map(),
    requests: new Map(),
    forecast: new Map(),
    waiting: null,
    indexing: null,
  };
}

/** The tally after one more event. */
export function tallied(tally: Tally, event: SyncProgress): Tally {
  switch (event.event) {
    case 'mailbox-started': {
      const fresh = { address: event.address, ahead: event.messages };
      return withMailbox(tally, event, { ...fresh, messages: 0, bytes: 0, finished: false });
    }
    case 'stored': {
      const before = tally.mailboxes.get(mailboxKey(event));
      const { address, messages, bytes } = event;
      const ahead = Math.max(before?.ahead ?? 0, messages);
      return withMailbox({ ...tally, waiting: null }, event, {
        address,
        ahead,
        messages,
        bytes,
        finished: false,
      });
    }
    case 'mailbox-finished': {
      const before = tally.mailboxes.get(mailboxKey(event));
      return before === undefined
        ? tally
        : withMailbox(tally, event, { ...before, finished: true });
    }
    case 'requests':
      return {
        ...tally,
        requests: new Map(tally.requests).set(event.account, event.requests),
      };
    case 'waiting':
      return {
        ...tally,
        waiting: { account: event.account, until: event.until, reason: event.reason },
      };
    case 'indexing':
      return { ...tally, indexing: { indexed: event.indexed, remaining: event.remaining } };
    case 'forecast':
      return {
        ...tally,
        forecast: new Map(tally.forecast).set(event.account, event.forecast.messages),
      };
    case 'sealing':
      return tally;
  }
}

export interface Sum {
  readonly ahead: number;
  readonly messages: number;
  readonly bytes: number;
  readonly requests: number;
}

export function sumOf(tally: Tally): Sum {
  const mailboxes = [...tally.mailboxes.values()];
  return {
    ahead: Math.max(total(mailboxes.map(({ ahead }) => ahead)), total(tally.forecast.values())),
    messages: total(mailboxes.map(({ messages }) => messages)),
    bytes: total(mailboxes.map(({ bytes }) => bytes)),
    requests: total(tally.requests.values()),
  };
}

function total(numbers: Iterable<number>): number {
  return [...numbers].reduce((sum, number) => sum + number, 0);
}

/** Milliseconds until all is stored at the mean rate so far, or null while there is none. */
export function timeLeft(done: number, ahead: number, elapsedMs: number): number | null {
  if (done === 0 || elapsedMs <= 0) return null;
  return Math.max(0, ahead - done) * (elapsedMs / done);
}

function withMailbox(
  tally: Tally,
  at: { account: string; address: string },
  mailbox: MailboxTally,
): Tally {
  return { ...tally, mailboxes: new Map(tally.mailboxes).set(mailboxKey(at), mailbox) };
}

function mailboxKey(at: { readonly account: string; readonly address: string }): string {
  return `${at.account}/${at.address}`;
}
