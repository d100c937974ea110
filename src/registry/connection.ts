import type { PoolConfig } from './driver.ts';
import type { RegistryTarget } from './target.ts';

/** How long is waited on a connection, in milliseconds. */
export interface ConnectionLimits {
  readonly connectMs: number;
  /** After this the server gives up a statement: it is refused for certain. */
  readonly statementMs: number;
  /** After this nobody waits for an answer any more: its outcome is unknown. Longer than `statementMs`. */
  readonly answerMs: number;
  /** After this the server ends a connection that does nothing within a transaction. */
  readonly idleInTransactionMs: number;
}

/** Returns how a connection to the registry is made. */
export function connectionConfig(target: RegistryTarget, limits: ConnectionLimits): PoolConfig {
  return {
    host: target.host,
    port: target.port,
    user: target.user,
    database: target.database,
    // Without one, `.pgpass` is read.
    ...(target.password === undefined ? {} : { password: target.password }),
    ssl: tlsOptions(target),
    connectionTimeoutMillis: limits.connectMs,
    statement_timeout: limits.statementMs,
    query_timeout: limits.answerMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    keepAlive: true,
    application_name: 'mailkeep',
    options: '-c default_transaction_isolation=read\\ committed -c client_min_messages=warning',
  };
}

/** The name is verified by `pg`, which knows what it connects to. */
function tlsOptions({ tls }: RegistryTarget): object | false {
  if (tls === undefined) return false;
  const given = Object.entries(tls).filter(([, pem]) => pem !== undefined);
  return { ...Object.fromEntries(given), rejectUnauthorized: true };
}
