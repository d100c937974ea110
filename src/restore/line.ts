import { MailkeepError } from '../errors/mailkeep-error.ts';
import { isRestoreError, restoreError } from '../errors/restore.ts';
import type { ServerConnection } from './server.ts';

/** Failures in a row after which a run ends; with the pauses between them, about four minutes. */
const MOST_FAILURES = 8;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;

/** Time and connections of a run. */
export interface LineDeps {
  readonly host: string;
  readonly connect: () => Promise<ServerConnection>;
  readonly now: () => number;
  /** Resolves after so many milliseconds, or at once when the run is to stop. */
  readonly sleep: (ms: number) => Promise<void>;
  readonly signal: AbortSignal;
}

/** One connection to the server at a time, made again whenever it breaks. */
export class Line {
  #connection: ServerConnection | undefined;
  #failures = 0;

  constructor(
    private readonly deps: LineDeps,
    connection?: ServerConnection,
  ) {
    this.#connection = connection;
  }

  /** Returns the connection, and makes it where there is none. @throws what `connect` throws */
  async open(): Promise<ServerConnection> {
    this.#connection ??= await this.deps.connect();
    return this.#connection;
  }

  /** The server did what it was asked to. */
  worked(): void {
    this.#failures = 0;
  }

  /**
   * Waits after a failure, longer after each one in a row; after a broken connection another is made.
   *
   * @throws restore-gave-up after too many in a row
   */
  async recover(error: unknown): Promise<void> {
    for (let cause = error; ; ) {
      if (!(cause instanceof MailkeepError) || !cause.retryable) throw cause;
      await this.#pause(cause);
      if (isRestoreError(cause, 'restore-throttled')) return;
      const { signal } = this.deps;
      if (signal.aborted) return;
      await this.close();
      try {
        await this.open();
        return;
      } catch (again) {
        // A server with too many connections refuses a login that it has taken before.
        cause = isRestoreError(again, 'restore-login-refused')
          ? restoreError('restore-connection-lost', {
              host: this.deps.host,
              reason: again.facts.text,
            })
          : again;
      }
    }
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  async #pause(cause: MailkeepError): Promise<void> {
    this.#failures += 1;
    const { host, sleep } = this.deps;
    if (this.#failures > MOST_FAILURES) {
      const { reason, text } = cause.facts;
      const facts = { host, tries: this.#failures - 1, reason: String(reason ?? text) };
      throw restoreError('restore-gave-up', facts, cause);
    }
    const asked = isRestoreError(cause, 'restore-throttled') ? cause.facts.waitMs : null;
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (this.#failures - 1));
    await sleep(Math.max(asked ?? 0, pause));
  }
}
