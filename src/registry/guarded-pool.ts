import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type { DatabaseError, Notice, Pool, PoolClient } from './driver.ts';

/** Where PostgreSQL warns that it did not wait for its replicas: the texts are translated, and the code says nothing. */
const WAITING_ROUTINE = 'SyncRepWaitForLSN';

/**
 * The server committed here, but did not wait for the replicas that it has to wait for: whether the transaction survives
 * a failover is not known.
 */
export class ReplicasNotAwaited extends Error {
  constructor() {
    super('the server did not wait for its replicas');
  }
}

/**
 * A pool whose connections are dropped after any failure that is not a plain refusal of a statement, so that no answer of
 * an earlier transaction can be taken for one of a later, and which makes a failure of the warning that replicas were not
 * waited for.
 */
export class GuardedPool implements PostgresPool {
  readonly options: object;

  constructor(private readonly pool: Pool) {
    this.options = pool.options;
  }

  async connect(): Promise<PostgresPoolClient> {
    return new GuardedClient(await this.pool.connect());
  }

  async end(): Promise<void> {
    await this.pool.end();
  }
}

class GuardedClient implements PostgresPoolClient {
  #broken: unknown;
  #notAwaited: ReplicasNotAwaited | undefined;
  readonly #fail = (error: Error): void => {
    this.#broken ??= error;
  };
  readonly #notice = ({ routine }: Notice): void => {
    if (routine === WAITING_ROUTINE) this.#notAwaited = new ReplicasNotAwaited();
  };

  constructor(private readonly client: PoolClient) {
    // Without a listener, a connection that is lost between two statements would end the process.
    client.on('error', this.#fail);
    client.on('notice', this.#notice);
  }

  query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: never): R;
  async query(sql: string, parameters: readonly unknown[] = []): Promise<unknown> {
    // What came first is the reason: a rollback after it would only wait.
    if (this.#broken !== undefined) throw this.#broken;
    try {
      const result = await this.client.query(sql, [...parameters]);
      if (this.#notAwaited !== undefined) throw this.#notAwaited;
      return result;
    } catch (error) {
      if (isRefusal(error) && (await this.#isUsable())) throw error;
      const thrown = isRefusal(error) ? new EndedByServer(error.code) : error;
      this.#broken ??= thrown;
      throw thrown;
    }
  }

  /** An error comes before the server says that it waits for the next statement, or ends the connection. */
  async #isUsable(): Promise<boolean> {
    return this.client.query('').then(
      () => true,
      () => false,
    );
  }

  release(destroy = false): void {
    const { client } = this;
    client.off('error', this.#fail);
    client.off('notice', this.#notice);
    client.release(destroy || this.#broken !== undefined);
  }
}

/** The server ended the connection after an error, so it may have committed before. */
class EndedByServer extends Error {
  constructor(readonly code: string) {
    super('Connection terminated by the server');
  }
}

/** Conditions of which the server ends the connection: shutdowns, crashes, and limits of idle sessions and transactions. */
const ENDING = ['25P03', '25P04', '57P01', '57P02', '57P03', '57P04', '57P05'];
const CONNECTION_CLASS = '08';

/**
 * Returns whether the server refused what it was asked for: then the transaction is rolled back for certain. Decided by the
 * condition, because the severity is translated. After a statement, it is certain only if the connection stays usable.
 */
export function isRefusal(error: unknown): error is Error & Refused {
  if (!(error instanceof Error) || error instanceof EndedByServer) return false;
  const code = 'code' in error ? error.code : undefined;
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || !('severity' in error))
    return false;
  return !code.startsWith(CONNECTION_CLASS) && !ENDING.includes(code);
}

type Refused = Pick<DatabaseError, 'constraint'> & { readonly code: string };
