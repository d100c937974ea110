import { performance } from 'node:perf_hooks';
import { Kysely, PostgresDialect, type RawBuilder, sql, type Transaction } from 'kysely';
import { MailkeepError } from '../core/errors.ts';
import { type ConnectionLimits, connectionConfig } from './connection.ts';
import { pool } from './driver.ts';
import { registryError } from './errors.ts';
import type { RegistryObserver } from './events.ts';
import { failureOf } from './failures.ts';
import { GuardedPool } from './guarded-pool.ts';
import type { RegistryTarget } from './target.ts';

/** A transaction that is under way. */
export type Tx = Transaction<unknown>;

/** Limits of the connections, in milliseconds. */
export interface RegistryLimits extends ConnectionLimits {
  /** Connections at the same time. A worker needs few: most of its time goes to the origin and to its disk. */
  readonly connections: number;
}

const LIMITS: RegistryLimits = {
  connections: 4,
  connectMs: 10_000,
  statementMs: 30_000,
  answerMs: 90_000,
  idleInTransactionMs: 60_000,
};
/** The oldest PostgreSQL that the statements were run against. */
const NEEDED_POSTGRES = 15;
/** Settings under which the server acknowledges only what a crash leaves. */
const SAFE: Readonly<Record<string, readonly string[]>> = {
  synchronous_commit: ['on', 'remote_apply'],
  fsync: ['on'],
};

/** The registry of a fleet: connections to PostgreSQL. Each transaction is a function that is given one. */
export class Registry {
  readonly #db: Kysely<unknown>;

  /** @param observe is called with what happens */
  constructor(
    readonly label: string,
    db: Kysely<unknown>,
    readonly observe: RegistryObserver = () => {},
  ) {
    this.#db = db;
  }

  /**
   * Runs one statement as a transaction of its own.
   *
   * @throws outcome-unknown, and the other errors of the registry, after which nothing was changed
   */
  async statement<Row>(transaction: string, query: RawBuilder<Row>): Promise<readonly Row[]> {
    return this.#run(transaction, query, true);
  }

  /**
   * Runs one statement that only reads: if its answer is lost, nothing was changed.
   *
   * @throws the errors of the registry, except outcome-unknown
   */
  async read<Row>(transaction: string, query: RawBuilder<Row>): Promise<readonly Row[]> {
    return this.#run(transaction, query, false);
  }

  async #run<Row>(
    transaction: string,
    query: RawBuilder<Row>,
    writes: boolean,
  ): Promise<readonly Row[]> {
    let isSent = false;
    return this.#timed(transaction, async () => {
      try {
        return await this.#db.connection().execute(async (connection) => {
          isSent = true;
          return (await query.execute(connection)).rows;
        });
      } catch (error) {
        throw failureOf(error, {
          registry: this.label,
          transaction,
          mayBeCommitted: writes && isSent,
        });
      }
    });
  }

  async #timed<Result>(transaction: string, act: () => Promise<Result>): Promise<Result> {
    const from = performance.now();
    const over = (failure: string | null): void =>
      this.observe({ event: 'transaction', transaction, ms: performance.now() - from, failure });
    try {
      const result = await act();
      over(null);
      return result;
    } catch (error) {
      // A refusal is an answer, which is counted apart.
      if (error instanceof MailkeepError) over(error.code);
      throw error;
    }
  }

  /**
   * Runs statements as one transaction. If `body` throws, nothing of it stays.
   *
   * @param isolation `read committed` for whatever writes: each statement then sees what others committed before it
   * @throws outcome-unknown, and the other errors of the registry, after which nothing was changed
   */
  async transaction<Result>(
    transaction: string,
    body: (tx: Tx) => Promise<Result>,
    isolation: 'read committed' | 'repeatable read' = 'read committed',
  ): Promise<Result> {
    let isCommitting = false;
    return this.#timed(transaction, async () => {
      try {
        return await this.#db
          .transaction()
          .setIsolationLevel(isolation)
          .execute(async (tx) => {
            const result = await body(tx);
            isCommitting = isolation === 'read committed';
            return result;
          });
      } catch (error) {
        throw failureOf(error, { registry: this.label, transaction, mayBeCommitted: isCommitting });
      }
    });
  }

  /** Closes the connections, after what is under way. */
  async close(): Promise<void> {
    await this.#db.destroy();
  }
}

/**
 * Connects to the registry, and checks the version and settings of the server. The tables are not looked at: see
 * `checkSchema`.
 *
 * @throws registry-unreachable, registry-access-denied, registry-version, registry-unsafe
 */
export async function openRegistry(
  target: RegistryTarget,
  limits: Partial<RegistryLimits> = {},
  observe?: RegistryObserver,
): Promise<Registry> {
  const connections = connectionsTo(target, { ...LIMITS, ...limits });
  const registry = new Registry(target.label, connections, observe);
  try {
    await checkServer(registry);
    return registry;
  } catch (error) {
    await registry.close();
    throw error;
  }
}

function connectionsTo(target: RegistryTarget, limits: RegistryLimits): Kysely<unknown> {
  const connections = pool({ ...connectionConfig(target, limits), max: limits.connections });
  // A connection that is lost while nobody uses it is replaced by the next use.
  connections.on('error', () => undefined);
  return new Kysely({ dialect: new PostgresDialect({ pool: new GuardedPool(connections) }) });
}

async function checkServer(registry: Registry): Promise<void> {
  const rows = await registry.read<{ name: string; setting: string }>(
    'check server',
    sql`SELECT name, setting FROM pg_settings WHERE name IN ('server_version_num', ${sql.join(Object.keys(SAFE))})`,
  );
  const found = new Map(rows.map(({ name, setting }) => [name, setting]));
  const version = Math.floor(Number(found.get('server_version_num')) / 10_000);
  const { label } = registry;
  if (!(version >= NEEDED_POSTGRES)) {
    throw registryError('registry-version', {
      registry: label,
      found: version,
      needed: NEEDED_POSTGRES,
    });
  }
  for (const [setting, safe] of Object.entries(SAFE)) {
    const value = found.get(setting) ?? '';
    if (safe.includes(value)) continue;
    throw registryError('registry-unsafe', { registry: label, setting, found: value });
  }
}
