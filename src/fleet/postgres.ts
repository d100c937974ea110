import {
  Kysely,
  PostgresDialect,
  type PostgresPoolClient,
  type PostgresQueryResult,
  type RawBuilder,
  sql,
  type Transaction,
} from 'kysely';
import pg from 'pg';
import { errnoName, MailkeepError } from '../core/errors.ts';
import { registryError } from './errors.ts';
import type { RegistryTarget } from './postgres-target.ts';

/** A transaction that is under way. */
export type Tx = Transaction<unknown>;

/** Limits of connections. Times are in milliseconds. */
export interface RegistryLimits {
  /** Connections at the same time. A worker needs few: it mostly waits for mail servers and its disk. */
  readonly connections: number;
  readonly connectMs: number;
  /** After this the server gives up a statement: it is refused for certain. */
  readonly statementMs: number;
  /** After this nobody waits for an answer any more: its outcome is unknown. Longer than `statementMs`. */
  readonly answerMs: number;
  /** After this the server ends a connection that does nothing within a transaction. */
  readonly idleInTransactionMs: number;
}

const LIMITS: RegistryLimits = {
  connections: 4,
  connectMs: 10_000,
  statementMs: 30_000,
  answerMs: 90_000,
  idleInTransactionMs: 60_000,
};
const LISTENING_LIMITS = { ...LIMITS, statementMs: 5_000, answerMs: 10_000 };
/** The oldest PostgreSQL that the statements were run against. */
const NEEDED_POSTGRES = 15;
/** Settings under which an acknowledged commit survives a crash. */
const SAFE: Readonly<Record<string, readonly string[]>> = {
  synchronous_commit: ['on', 'remote_apply'],
  fsync: ['on'],
};

/** The registry of a fleet: connections to PostgreSQL. Each transaction is a function that is given one. */
export class Registry {
  readonly #db: Kysely<unknown>;

  constructor(
    /** Address for people, without a password. */
    readonly label: string,
    db: Kysely<unknown>,
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

  async #run<Row>(transaction: string, query: RawBuilder<Row>, writes: boolean) {
    let mayBeCommitted = false;
    try {
      return await this.#db.connection().execute(async (connection) => {
        mayBeCommitted = writes;
        return (await query.execute(connection)).rows;
      });
    } catch (error) {
      throw failureOf(error, { registry: this.label, transaction, mayBeCommitted });
    }
  }

  /**
   * Runs statements as one transaction. If `body` throws, nothing of it stays.
   *
   * @param isolation `read committed` for all that writes: each statement then sees what others committed before it
   * @throws outcome-unknown, and the other errors of the registry, after which nothing was changed
   */
  async transaction<Result>(
    transaction: string,
    body: (tx: Tx) => Promise<Result>,
    isolation: 'read committed' | 'repeatable read' = 'read committed',
  ): Promise<Result> {
    let mayBeCommitted = false;
    try {
      return await this.#db
        .transaction()
        .setIsolationLevel(isolation)
        .execute(async (tx) => {
          const result = await body(tx);
          mayBeCommitted = isolation === 'read committed';
          return result;
        });
    } catch (error) {
      throw failureOf(error, { registry: this.label, transaction, mayBeCommitted });
    }
  }

  /** Closes the connections, after what is under way. */
  async close(): Promise<void> {
    await this.#db.destroy();
  }
}

/**
 * Connects to the registry, and checks the version and settings of the server. The tables are not checked: see
 * `requireFleet`.
 *
 * @throws registry-unreachable, registry-access-denied, registry-version, registry-unsafe
 */
export async function openRegistry(
  target: RegistryTarget,
  limits: Partial<RegistryLimits> = {},
): Promise<Registry> {
  const all = { ...LIMITS, ...limits };
  const connections = new pg.Pool({ ...clientConfig(target, all), max: all.connections });
  // A connection that is lost while nobody uses it is replaced by the next use.
  connections.on('error', () => undefined);
  const pool = {
    options: connections.options,
    connect: async () => new GuardedClient(await connections.connect()),
    end: () => connections.end(),
  };
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  const registry = new Registry(target.label, db);
  try {
    await checkServer(registry);
    return registry;
  } catch (error) {
    await registry.close();
    throw error;
  }
}

function clientConfig(target: RegistryTarget, limits: RegistryLimits): pg.ClientConfig {
  const { host, port, user, database, password, tls } = target;
  const pem = Object.entries(tls ?? {}).filter(([, text]) => text !== undefined);
  return {
    ...{ host, port, user, database, keepAlive: true, application_name: 'mailkeep', types },
    // Without one, `.pgpass` is read.
    ...(password === undefined ? {} : { password }),
    // The name is verified by `pg`, which knows the host.
    ssl: tls === undefined ? false : { ...Object.fromEntries(pem), rejectUnauthorized: true },
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    query_timeout: limits.answerMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    options: '-c default_transaction_isolation=read\\ committed -c client_min_messages=warning',
  };
}

const INT8: number = pg.types.builtins.INT8;
/** `pg` has no name for arrays of them. */
const INT8_ARRAY = 1016;

/** Reads 64-bit integers as numbers: commits, epochs and bytes stay far below 2^53, and others are an error. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    const type: number = oid;
    if (format !== 'binary' && type === INT8) return safeInteger;
    if (format !== 'binary' && type === INT8_ARRAY) {
      return (text: string) => (text === '{}' ? [] : text.slice(1, -1).split(',').map(safeInteger));
    }
    return pg.types.getTypeParser(oid, format);
  },
};

function safeInteger(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new Error(`${text} is not a safe integer`);
  return number;
}

async function checkServer(registry: Registry): Promise<void> {
  const rows = await registry.read<{ name: string; setting: string }>(
    'check server',
    sql`SELECT name, setting FROM pg_settings
      WHERE name IN ('server_version_num', ${sql.join(Object.keys(SAFE))})`,
  );
  const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
  const version = Math.floor(Number(settings.get('server_version_num')) / 10_000);
  const { label } = registry;
  if (!(version >= NEEDED_POSTGRES)) {
    const facts = { registry: label, found: version, needed: NEEDED_POSTGRES };
    throw registryError('registry-version', facts);
  }
  for (const [setting, safe] of Object.entries(SAFE)) {
    const found = settings.get(setting) ?? '';
    if (!safe.includes(found)) {
      throw registryError('registry-unsafe', { registry: label, setting, found });
    }
  }
}

/** Where PostgreSQL warns that it did not wait for its replicas: the texts are translated, and the code says nothing. */
const WAITING_ROUTINE = 'SyncRepWaitForLSN';

/** The server committed without its replicas: nobody knows whether the transaction survives a failover. */
class ReplicasNotAwaited extends Error {}

/** The server ended the connection after an error, so it may have committed before. */
class EndedByServer extends Error {
  constructor(readonly code: string) {
    super('Connection terminated by the server');
  }
}

/**
 * A connection that is dropped after any failure but a plain refusal of a statement, so that no answer of an earlier
 * transaction can be taken for one of a later. The warning that replicas were not waited for is a failure.
 */
class GuardedClient implements PostgresPoolClient {
  #broken: unknown;
  #notAwaited: ReplicasNotAwaited | undefined;
  readonly #fail = (error: Error): void => {
    this.#broken ??= error;
  };
  readonly #notice = ({ routine }: { readonly routine?: string | undefined }): void => {
    if (routine === WAITING_ROUTINE) this.#notAwaited = new ReplicasNotAwaited();
  };

  constructor(private readonly client: pg.PoolClient) {
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
    this.client.off('error', this.#fail);
    this.client.off('notice', this.#notice);
    this.client.release(destroy || this.#broken !== undefined);
  }
}

/** After these the server ends the connection: lost connections, shutdowns, crashes, and limits of idle sessions. */
const ENDING = /^(?:08|25P03|25P04|57P0[1-5])/;

/**
 * Reports whether the server refused a statement: then the transaction is rolled back for certain. Judged by the condition,
 * because the severity is translated. After a statement, it is certain only if the connection stays usable.
 */
function isRefusal(error: unknown): error is pg.DatabaseError & { readonly code: string } {
  if (!(error instanceof Error) || !('severity' in error)) return false;
  const code = errnoName(error);
  return /^[0-9A-Z]{5}$/.test(code) && !ENDING.test(code);
}

interface Failed {
  /** The registry's label. */
  readonly registry: string;
  /** The name of our transaction. */
  readonly transaction: string;
  /** True once the server may have committed: its answer is what failed. */
  readonly mayBeCommitted: boolean;
}

/**
 * Returns the error of ours for a failure of a transaction. Texts of the server are left out, also as a cause: details of
 * constraints quote rows, which hold mail.
 */
function failureOf(error: unknown, { mayBeCommitted, ...failed }: Failed): Error {
  if (error instanceof MailkeepError) return error;
  if (error instanceof ReplicasNotAwaited) {
    return registryError('outcome-unknown', { ...failed, reason: 'replicas' });
  }
  if (isRefusal(error)) return refusal(error, failed);
  const reason = reasonOf(error);
  if (mayBeCommitted) {
    return registryError('outcome-unknown', { ...failed, reason: reason ?? 'no answer' });
  }
  const { registry } = failed;
  if (reason === undefined) return error instanceof Error ? error : new Error(String(error));
  if (reason === 'no password') {
    return registryError('registry-access-denied', { registry, condition: '28P01' });
  }
  const code = CERTIFICATE.test(reason) ? 'registry-certificate' : 'registry-unreachable';
  return registryError(code, { registry, reason });
}

/** Conditions of PostgreSQL, or the classes with which they start. */
const REFUSALS = [
  // Conflicts, locks, time limits, too many connections: the same transaction may succeed later.
  [/^(?:40001|40P01|55P03|57014|53300)$/, 'registry-busy'],
  [/^53[12]00$/, 'registry-full'],
  // Program limits: the same statement never succeeds.
  [/^54/, 'registry-limit'],
  [/^25006$/, 'registry-read-only'],
] as const;

function refusal(
  {
    code: condition,
    constraint,
  }: { readonly code: string; readonly constraint?: string | undefined },
  { registry, transaction }: Omit<Failed, 'mayBeCommitted'>,
): Error {
  const facts = { registry, transaction, condition };
  const [, code] = REFUSALS.find(([pattern]) => pattern.test(condition)) ?? [];
  if (code !== undefined) return registryError(code, facts);
  if (condition === '3D000') return registryError('registry-no-database', { registry });
  // Invalid authorisation, and privileges.
  if (/^28|^42501$/.test(condition)) {
    return registryError('registry-access-denied', { registry, condition });
  }
  return registryError('registry-refused', { ...facts, constraint: constraint ?? null });
}

/** Codes of OpenSSL and Node.js about certificates. */
const CERTIFICATE = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT|HOSTNAME_MISMATCH)/;
/** Errors of `pg` that have no code. SCRAM without a password is refused before anything is sent. */
const WITHOUT_CODE = [
  [/^The server does not support SSL/, 'no TLS'],
  [/^SASL/, 'no password'],
  [/^(?:Connection terminated|timeout exceeded|Query read timeout|Client has enc)/, 'no answer'],
] as const;

/** Returns why a connection was not made or was lost; undefined for any other error. */
function reasonOf(error: unknown): string | undefined {
  const code = errnoName(error);
  if (code !== 'unknown') return code;
  const message = error instanceof Error ? error.message : '';
  return WITHOUT_CODE.find(([pattern]) => pattern.test(message))?.[1];
}

/** A connection that only listens. */
export interface Listening {
  close(): Promise<void>;
}

/**
 * Listens to a channel, on a connection of its own.
 *
 * @param onLost called once the connection is lost: nothing comes any more
 * @throws the errors of the registry
 */
export async function listen(
  target: RegistryTarget,
  channel: string,
  { onNote, onLost }: { readonly onNote: () => void; readonly onLost: () => void },
): Promise<Listening> {
  const connection = new pg.Client(clientConfig(target, LISTENING_LIMITS));
  let isOpen = true;
  const lost = (): void => {
    if (isOpen) onLost();
    isOpen = false;
  };
  connection.on('error', lost);
  connection.on('end', lost);
  connection.on('notification', onNote);
  const close = async (): Promise<void> => {
    isOpen = false;
    await connection.end().catch(() => undefined);
  };
  try {
    await connection.connect();
    await connection.query(`LISTEN ${connection.escapeIdentifier(channel)}`);
    return { close };
  } catch (error) {
    await close();
    const failed = { registry: target.label, transaction: 'listen', mayBeCommitted: false };
    throw failureOf(error, failed);
  }
}
