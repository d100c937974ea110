import { type ConnectionLimits, connectionConfig } from './connection.ts';
import { client } from './driver.ts';
import { failureOf } from './failures.ts';
import type { RegistryTarget } from './target.ts';

/** A connection that does nothing but listen. */
export interface Listening {
  /** Asks whether the connection still listens. A pooler in transaction mode gives it to others meanwhile. */
  check(): Promise<boolean>;
  close(): Promise<void>;
}

interface ListeningPorts {
  readonly onNote: (payload: string) => void;
  /** The connection is lost: nothing comes any more. */
  readonly onLost: () => void;
}

const LIMITS: ConnectionLimits = {
  connectMs: 10_000,
  statementMs: 5_000,
  answerMs: 10_000,
  idleInTransactionMs: 10_000,
};
/** Nothing else gets into the statement. */
const CHANNEL = /^[0-9a-z_-]{1,63}$/;

/**
 * Listens to a channel, on a connection of its own.
 *
 * @throws the errors of the registry
 */
export async function listen(
  target: RegistryTarget,
  channel: string,
  { onNote, onLost }: ListeningPorts,
): Promise<Listening> {
  if (!CHANNEL.test(channel)) throw new TypeError(`${channel} is not a channel`);
  const connection = client(connectionConfig(target, LIMITS));
  let isOpen = true;
  const lost = (): void => {
    if (isOpen) onLost();
    isOpen = false;
  };
  connection.on('error', lost);
  connection.on('end', lost);
  connection.on('notification', ({ channel: of, payload = '' }) => {
    if (of === channel) onNote(payload);
  });
  const close = async (): Promise<void> => {
    isOpen = false;
    await connection.end().catch(() => undefined);
  };
  try {
    await connection.connect();
    await connection.query(`LISTEN "${channel}"`);
  } catch (error) {
    await close();
    throw failureOf(error, {
      ...{ registry: target.label, transaction: 'listen', mayBeCommitted: false },
    });
  }
  return {
    async check() {
      const { rowCount } = await connection.query(
        'SELECT 1 FROM pg_listening_channels() AS c WHERE c = $1',
        [channel],
      );
      return rowCount === 1;
    },
    close,
  };
}
