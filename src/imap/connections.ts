import { type Clock, onAbort, Semaphore, sleep, systemClock } from '../core/concurrency.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import {
  type ConnectionTimes,
  type Credential,
  type ImapServer,
  ImapSession,
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
/** Longest pause that a server can ask for. After a longer one, the sync run ends. */
const MAX_SUGGESTED_MS = 900_000;

export interface ConnectionsOptions {
  readonly server: ImapServer;
  /**
   * Reads the credential for each connection.
   *
   * @param refused true if the server has just refused the previous one
   */
  readonly credential: (refused: boolean) => Promise<Credential>;
  readonly clock?: Clock;
  /** Connections at the same time; 2 by default. */
  readonly most?: number;
  readonly times?: ConnectionTimes;
  readonly retries?: RetryTimes;
}

/** An account's connections. They are opened when needed and reused. The caller closes them. */
export class ImapConnections {
  readonly #options: ConnectionsOptions;
  readonly #slots: Semaphore;
  readonly #idle: ImapSession[] = [];
  readonly #closed = Promise.withResolvers<void>();
  #budget: number;
  #open = 0;
  #isClosed = false;

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

  /**
   * Runs `act` on a session. Retries it as a whole, on another session if necessary, after a broken connection or if
   * the server asks for a pause.
   *
   * @param want.wireName prefers a session with this folder selected
   * @param want.fresh requires a new session
   * @throws the errors of `ImapSession` and `act`; the signal's reason
   */
  async use<T>(
    act: (session: ImapSession) => Promise<T>,
    signal: AbortSignal,
    want: { readonly wireName?: string; readonly fresh?: boolean } = {},
  ): Promise<T> {
    const { clock = systemClock, retries = RETRY_TIMES } = this.#options;
    for (let failures = 0; ; ) {
      try {
        return await this.#slots.run(() => this.#useOnce(act, signal, want), signal);
      } catch (error) {
        signal.throwIfAborted();
        if (this.#isClosed) throw error;
        if (isConnectionLimit(error) && this.#open > 0 && this.#budget > 1) {
          this.#budget -= 1;
          // Occupies a slot for good.
          void this.#slots.run(() => this.#closed.promise);
          continue;
        }
        const waitMs = retryWait(error, failures, retries);
        if (waitMs === null) throw error;
        failures += 1;
        await sleep(clock, waitMs, signal);
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closed.resolve();
    await Promise.all(this.#idle.splice(0).map((session) => session.logout()));
  }

  async #useOnce<T>(
    act: (session: ImapSession) => Promise<T>,
    signal: AbortSignal,
    want: { readonly wireName?: string; readonly fresh?: boolean },
  ): Promise<T> {
    const session = await this.#take(signal, want);
    const release = onAbort(signal, () => session.close());
    try {
      return await act(session);
    } finally {
      release();
      if (session.usable && !this.#isClosed) this.#idle.push(session);
      else {
        session.close();
        this.#open -= 1;
      }
    }
  }

  async #take(
    signal: AbortSignal,
    { wireName, fresh = false }: { readonly wireName?: string; readonly fresh?: boolean },
  ): Promise<ImapSession> {
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
      return await openSession(this.#options, signal);
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
  { server, credential, times }: Pick<ConnectionsOptions, 'server' | 'credential' | 'times'>,
  signal: AbortSignal,
): Promise<ImapSession> {
  const first = await credential(false);
  try {
    return await ImapSession.open(server, first, signal, times);
  } catch (error) {
    if (!hasCode(error, 'imap.sign-in-refused')) throw error;
    const second = await credential(true);
    if (second.secret.reveal() === first.secret.reveal()) throw error;
    return await ImapSession.open(server, second, signal, times);
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
