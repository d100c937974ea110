/** Every ceiling on what a server may say, in one place. */
const MIB = 1024 * 1024;

/** A page of 100 messages is about 60 kB. */
export const MOST_JSON_BYTES = 32 * MIB;
/** Of an error's body no more than this is read: the status says enough. */
export const MOST_ERROR_BYTES = 64 * 1024;
export const MOST_HEADER_BYTES = 64 * 1024;
/** Larger sources go through a file. */
export const IN_MEMORY_BYTES = 8 * MIB;
export const MOST_SOURCE_BYTES = 2 * 1024 * MIB;
/** Ten million messages at 100 a page. */
export const MOST_MESSAGE_PAGES = 100_000;
/** Pages of any other collection: 100,000 webhooks, log entries or folders. */
export const MOST_PAGES = 1_000;
/** Consecutive pages without anything new before a collection counts as endless. */
export const MOST_IDLE_PAGES = 3;
/** Mailboxes that one token may reach; each costs memory and requests in every sync. */
export const MOST_MAILBOXES = 20_000;
/** Informational answers (1xx) before the real one. */
export const MOST_INFORMATIONAL = 16;

/** How long an answer may take. All in milliseconds. */
export interface Timeouts {
  readonly connect: number;
  /** Until the answer begins. */
  readonly headers: number;
  /** Silence within the answer. */
  readonly idle: number;
  /**
   * For the whole answer, in addition to the time its bytes need at `SLOWEST_BYTES_PER_MS`: an answer that drips
   * for ever is stopped, a large source over a slow line is not.
   */
  readonly total: number;
}

export const TIMEOUTS: Timeouts = {
  connect: 10_000,
  headers: 60_000,
  idle: 60_000,
  total: 120_000,
};

/** 16 kB/s. */
export const SLOWEST_BYTES_PER_MS = 16;
