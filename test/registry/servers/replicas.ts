import type { Client } from 'pg';
import type { Postgres } from './postgres.ts';

/** Ends the waits for replicas, as an operator would who does not know better. Returns how many there were. */
export async function cancelWaits(admin: Client): Promise<number> {
  const { rowCount } = await admin.query(
    `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`,
  );
  return rowCount ?? 0;
}

/** Waits until commits wait for replicas: a server takes over settings when it comes to it. */
export async function replicasAwaited(
  server: Postgres,
  database: string,
  admin: Client,
): Promise<void> {
  const writer = await server.connect(database);
  for (let isWaiting = false; !isWaiting; ) {
    let isOver = false;
    const probe = writer.query(`COMMENT ON TABLE fleet IS 'probe'`).finally(() => {
      isOver = true;
    });
    while (!isOver) isWaiting = (await cancelWaits(admin)) > 0 || isWaiting;
    await probe;
  }
}
