import type { SyncProgress } from '../../sync/progress.ts';

export interface MailboxTally {
  readonly account: string;
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

/** How many messages were stored at a time, in milliseconds since the epoch. */
interface Sample {
  readonly at: number;
  readonly messages: number;
}

/** Everything that progress has reported so far. */
export interface Tally {
  readonly startedAt: number;
  /** By account and address, in the order in which they began. */
  readonly mailboxes: ReadonlyMap<string, MailboxTally>;
  readonly requests: ReadonlyMap<string, number>;
  /** Requests per minute that each account may make now. */
  readonly perMinute: ReadonlyMap<string, number>;
  /** What the forecast of each account promised, which knows mailboxes that did not begin yet. */
  readonly forecast: ReadonlyMap<string, number>;
  readonly waiting: Waiting | null;
  readonly indexing: { readonly indexed: number; readonly remaining: number } | null;
  /** The last minute, a sample per second at most, oldest first. */
  readonly samples: readonly Sample[];
}

export function emptyTally(now: number): Tally {
  return {
    startedAt: now,
    mailboxes: new Map(),
    requests: new Map(),
    perMinute: new Map(),
    forecast: new Map(),
    waiting: null,
    indexing: null,
    samples: [],
  };
}

/** The tally after one more event, which came at `now`. */
export function tallied(tally: Tally, event: SyncProgress, now: number): Tally {
  switch (event.event) {
    case 'mailbox-started': {
      const { account, address, messages: ahead } = event;
      const fresh = { account, address, ahead, messages: 0, bytes: 0, finished: false };
      return withMailbox(tally, fresh);
    }
    case 'stored': {
      const before = tally.mailboxes.get(mailboxKey(event));
      const { account, address, messages, bytes } = event;
      const ahead = Math.max(before?.ahead ?? 0, messages);
      const stored = { account, address, ahead, messages, bytes, finished: false };
      return sampled(withMailbox({ ...tally, waiting: null }, stored), now);
    }
    case 'mailbox-finished': {
      const before = tally.mailboxes.get(mailboxKey(event));
      return before === undefined ? tally : withMailbox(tally, { ...before, finished: true });
    }
    case 'requests': {
      const { account, requests, perMinute } = event;
      return {
        ...tally,
        requests: new Map(tally.requests).set(account, requests),
        perMinute: new Map(tally.perMinute).set(account, perMinute),
      };
    }
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

/** A speed over a shorter time says little about the rest. */
const LEAST_MS = 5_000;
const WINDOW_MS = 60_000;
const SAMPLE_EVERY_MS = 1_000;

function sampled(tally: Tally, now: number): Tally {
  const last = tally.samples.at(-1);
  if (last !== undefined && now - last.at < SAMPLE_EVERY_MS) return tally;
  const recent = tally.samples.filter(({ at }) => now - at <= WINDOW_MS);
  return { ...tally, samples: [...recent, { at: now, messages: sumOf(tally).messages }] };
}

/** Messages stored per second in the last minute; null until that was measured for a few seconds. */
export function speedOf(tally: Tally, now: number): number | null {
  const [first] = tally.samples.filter(({ at }) => now - at <= WINDOW_MS);
  if (first === undefined || now - first.at < LEAST_MS) return null;
  const stored = sumOf(tally).messages - first.messages;
  return stored > 0 ? (stored / (now - first.at)) * 1000 : null;
}

/**
 * Milliseconds until everything is stored: at the speed of the last minute, and no faster than the rate in force
 * allows each account. Null until there is a speed.
 */
export function timeLeft(tally: Tally, now: number): number | null {
  const speed = speedOf(tally, now);
  if (speed === null) return null;
  const { ahead, messages } = sumOf(tally);
  const paced = [...tally.perMinute].map(([account, perMinute]) =>
    perMinute > 0 ? (aheadOf(tally, account) / perMinute) * 60_000 : 0,
  );
  return Math.max((Math.max(0, ahead - messages) / speed) * 1000, ...paced);
}

/** Messages of an account that are not stored yet. */
function aheadOf(tally: Tally, account: string): number {
  const own = [...tally.mailboxes.values()].filter((mailbox) => mailbox.account === account);
  const promised = Math.max(total(own.map(({ ahead }) => ahead)), tally.forecast.get(account) ?? 0);
  return Math.max(0, promised - total(own.map(({ messages }) => messages)));
}

function withMailbox(tally: Tally, mailbox: MailboxTally): Tally {
  return { ...tally, mailboxes: new Map(tally.mailboxes).set(mailboxKey(mailbox), mailbox) };
}

function mailboxKey(at: { readonly account: string; readonly address: string }): string {
  return `${at.account}/${at.address}`;
}
