import {
  type Clock,
  linkedController,
  onAbort,
  Semaphore,
  sleep,
  systemClock,
} from '../core/concurrency.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { Secret } from '../core/secrets.ts';
import {
  type ConnectionTimes,
  type Credential,
  type ImapServer,
  ImapSession,
  type SessionHooks,
} from './connection.ts';

export interface RetryTimes {
  readonly attempts: number;
  /** Milliseconds before the first retry after a broken connection; doubles with each retry. */
  readonly lostMs: number;
  /** The same after a response code that asks for a pause. */
  readonly throttledMs: number;
  readonly mostMs: number;
}

const RETRY_TIMES: RetryTimes = {
  attempts: 5,
  lostMs: 1_000,
  throttledMs: 5_000,
  mostMs: 60_000,
};
/** Attempts to reach a server that this process has not reached yet: host or port may be wrong, and a person waiting. */
const FIRST_ATTEMPTS = 2;
/** Longest pause that a server can ask for. After a longer one, the sync run ends. */
export const MAX_SUGGESTED_MS = 900_000;

/**
 * How many sign-ins may replace broken connections at once, and the milliseconds until the next one. A server can break
 * a connection over each message, or send what cannot be read.
 */
const REPLACED_AT_ONCE = 32;
const REPLACED_MS = 2_000;

/** Fewer connections are used for this long after the server has refused one. */
const FEWER_MS = 3_600_000;
/** Shorter pauses are not reported. */
const REPORT_FROM_MS = 1_000;

export interface ConnectionsOptions extends SessionHooks {
  readonly server: ImapServer;
  /**
   * Reads the credential for each connection.
   *
   * @param refused the secret that the server has just refused, or null
   */
  readonly credential: (refused: Secret | null, signal?: AbortSignal) => Promise<Credential>;
  readonly clock?: Clock;
  /** Connections at the same time; 2 by default. */
  readonly most?: number;
  readonly times?: ConnectionTimes;
  readonly retries?: RetryTimes;
  /** Called when the server is left alone until a time, in milliseconds since the epoch. */
  readonly onWait?: (until: number) => void;
}

interface Wanted {
  readonly wireName?: string;
  readonly fresh?: boolean;
  readonly rest?: boolean;
  readonly breaks?: number;
}

/** An account's connections. They are opened when needed and reused. The caller closes them. */
export class ImapConnections {
  readonly #options: ConnectionsOptions;
  readonly #slots: Semaphore;
  readonly #idle: ImapSession[] = [];
  readonly #closing = new AbortController();
  readonly #reserved = new Set<AbortController>();
  #budget: number;
  #open = 0;
  /** When all broken connections are made up for, in milliseconds since the epoch. */
  #madeUpAt = 0;
  /** True once a sign-in has succeeded. */
  #isReached = false;
  /** The server has asked for a pause, until a time in milliseconds since the epoch. */
  #hold: { readonly until: number; readonly over: Promise<void> } | undefined;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#budget = options.most ?? 2;
    this.#slots = new Semaphore(this.#budget);
  }

  get host(): string {
    return this.#options.server.host;
  }

  /** Connections that the server currently allows, at most the configured number. */
  get budget(): number {
    return this.#budget;
  }

  /** Bytes until the day's limit. */
  get bytesLeft(): number {
    return this.#options.traffic?.left ?? Number.POSITIVE_INFINITY;
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /**
   * Runs `act` on a session. Retries it as a whole, on another session if necessary, after a broken connection or if
   * the server asks for a pause. During a pause, nothing else is sent either.
   *
   * @param want.wireName prefers a session with this folder selected
   * @param want.fresh requires a new session
   * @param want.rest finishes something that has started, even if that exceeds the day's limit
   * @param want.breaks gives up after so many broken connections, because the command itself may break them
   * @throws imap.day-limit, the errors of `ImapSession` and `act`; the signal's reason
   */
  async use<T>(
    act: (session: ImapSession) => Promise<T>,
    signal: AbortSignal,
    want: Wanted = {},
  ): Promise<T> {
    const { retries = RETRY_TIMES } = this.#options;
    let breaks = 0;
    for (let failures = 0; ; ) {
      try {
        return await this.#slots.run(() => this.#useOnce(act, signal, want), signal);
      } catch (error) {
        signal.throwIfAborted();
        if (this.#isClosed) throw error;
        if (isConnectionLimit(error) && this.#open > 0 && this.#budget > 1) {
          this.#useFewer();
          continue;
        }
        if (hasCode(error, 'imap.connection-lost')) breaks += 1;
        if (breaks >= (want.breaks ?? Number.POSITIVE_INFINITY)) throw error;
        const isFirst = hasCode(error, 'imap.unreachable') && !this.#isReached;
        if (isFirst && failures + 1 >= FIRST_ATTEMPTS) throw error;
        const waitMs = retryWait(error, failures, retries);
        if (waitMs === null) throw error;
        failures += 1;
        if (hasCode(error, 'imap.throttled')) this.#leaveAlone(waitMs);
        else await sleep(this.#clock, waitMs, signal);
      }
    }
  }

  get #clock(): Clock {
    return this.#options.clock ?? systemClock;
  }

  /** Occupies a slot for an hour, because the server refused a connection. */
  #useFewer(): void {
    this.#budget -= 1;
    if (this.#budget < 2) for (const controller of this.#reserved) controller.abort();
    const { signal } = this.#closing;
    void this.#slots
      .run(() => sleep(this.#clock, FEWER_MS, signal))
      .catch(() => {})
      .finally(() => {
        this.#budget += 1;
      });
  }

  /** Lets everything wait, not only what the server has just refused. */
  #leaveAlone(ms: number): void {
    const until = this.#clock.now() + ms;
    if (this.#hold !== undefined && this.#hold.until >= until) return;
    const { signal } = this.#closing;
    const over = sleep(this.#clock, ms, signal)
      .catch(() => {})
      .finally(() => {
        if (this.#hold?.until === until) this.#hold = undefined;
      });
    this.#hold = { until, over };
    if (ms >= REPORT_FROM_MS) this.#options.onWait?.(until);
  }

  /** @throws the signal's reason */
  async #pause(signal: AbortSignal): Promise<void> {
    while (this.#hold !== undefined) {
      signal.throwIfAborted();
      const { promise: aborted, resolve } = Promise.withResolvers<void>();
      const release = onAbort(signal, resolve);
      await Promise.race([this.#hold.over, aborted]);
      release();
    }
  }

  /**
   * Runs `act` on a connection of its own, if that leaves one for everything else. Does not repeat it. Ends it if the
   * server refuses so many connections.
   *
   * @returns false if only one connection is allowed
   * @throws imap.day-limit, the errors of `ImapSession` and `act`; the signal's reason
   */
  async reserve(
    act: (session: ImapSession) => Promise<void>,
    signal: AbortSignal,
    times: ConnectionTimes,
  ): Promise<boolean> {
    this.#closing.signal.throwIfAborted();
    if (this.#budget < 2) return false;
    const { controller, release } = linkedController(signal);
    this.#reserved.add(controller);
    try {
      await this.#slots.run(async () => {
        await this.#pause(controller.signal);
        this.#options.traffic?.check();
        this.#open += 1;
        try {
          const options = { ...this.#options, times, onCommand: () => {} };
          const session = await openSession(options, controller.signal);
          const stop = onAbort(controller.signal, () => session.close());
          try {
            await act(session);
          } finally {
            stop();
            session.close();
          }
        } finally {
          this.#open -= 1;
        }
      }, controller.signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      this.#closing.signal.throwIfAborted();
      if (this.#budget < 2 || (isConnectionLimit(error) && this.#open > 0)) return false;
      if (hasCode(error, 'imap.throttled')) {
        this.#leaveAlone(retryWait(error, 0, this.#options.retries ?? RETRY_TIMES) ?? 0);
      }
      throw error;
    } finally {
      release();
      this.#reserved.delete(controller);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const controller of this.#reserved) controller.abort();
    await Promise.all(this.#idle.splice(0).map((session) => session.logout()));
    this.#options.traffic?.save();
  }

  async #useOnce<T>(
    act: (session: ImapSession) => Promise<T>,
    signal: AbortSignal,
    want: Wanted,
  ): Promise<T> {
    const check = () => (want.rest === true ? undefined : this.#options.traffic?.check());
    check();
    await this.#pause(signal);
    const session = await this.#take(signal, want);
    const release = onAbort(signal, () => session.close());
    try {
      // Another connection may have reached the limit during the sign-in.
      check();
      return await act(session);
    } finally {
      release();
      if (session.usable && !this.#isClosed) this.#idle.push(session);
      else {
        session.close();
        this.#open -= 1;
        this.#madeUpAt = Math.max(this.#madeUpAt, this.#clock.now()) + REPLACED_MS;
      }
    }
  }

  /** Waits before another connection if many have broken. @throws the signal's reason */
  async #awaitReplacement(signal: AbortSignal): Promise<void> {
    const waitMs = this.#madeUpAt - REPLACED_AT_ONCE * REPLACED_MS - this.#clock.now();
    // The clock may have been set back.
    if (waitMs > 0) await sleep(this.#clock, Math.min(waitMs, 2 * REPLACED_MS), signal);
  }

  async #take(signal: AbortSignal, { wireName, fresh = false }: Wanted): Promise<ImapSession> {
    for (const session of [...this.#idle]) if (!session.usable) this.#drop(session);
    if (fresh) {
      const oldest = this.#idle[0];
      if (oldest !== undefined && this.#open >= this.#budget) {
        this.#drop(oldest);
        await oldest.logout();
      }
    } else {
      const at = this.#idle.findIndex(
        ({ selected }) => (selected?.wireName ?? undefined) === wireName,
      );
      const [session] = this.#idle.splice(Math.max(0, at), 1);
      if (session !== undefined) return session;
    }
    this.#open += 1;
    try {
      await this.#awaitReplacement(signal);
      const session = await openSession(this.#options, signal);
      this.#isReached = true;
      return session;
    } catch (error) {
      this.#open -= 1;
      throw error;
    }
  }

  #drop(session: ImapSession): void {
    this.#idle.splice(this.#idle.indexOf(session), 1);
    this.#open -= 1;
  }
}

/**
 * Connects and signs in. If the credential is refused, reads it again, and tries once more if it has changed.
 *
 * @throws errors of `ImapSession.open`
 */
export async function openSession(
  options: Pick<ConnectionsOptions, 'server' | 'credential' | 'times'> & SessionHooks,
  signal: AbortSignal,
): Promise<ImapSession> {
  const { server, credential, times, ...hooks } = options;
  const first = await credential(null, signal);
  try {
    return await ImapSession.open(server, first, signal, times, hooks);
  } catch (error) {
    if (!hasCode(error, 'imap.sign-in-refused')) throw error;
    const second = await credential(first.secret, signal);
    if (second.secret.reveal() === first.secret.reveal()) throw error;
    return await ImapSession.open(server, second, signal, times, hooks);
  }
}

/** Reports whether the server refused another connection, as opposed to a command. */
function isConnectionLimit(error: unknown): boolean {
  return hasCode(error, 'imap.throttled') && error.facts.command === 'sign-in';
}

/** Returns the milliseconds to wait before a retry, or null if the error is final. */
function retryWait(error: unknown, failures: number, times: RetryTimes): number | null {
  if (!(error instanceof MailkeepError) || !error.retryable) return null;
  if (failures + 1 >= times.attempts) return null;
  const suggested = Number(error.facts.waitMs ?? 0);
  if (suggested > MAX_SUGGESTED_MS) return null;
  const base = error.code === 'imap.throttled' ? times.throttledMs : times.lostMs;
  return Math.max(suggested, Math.min(times.mostMs, base * 2 ** failures));
}
