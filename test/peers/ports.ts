import type { ChildProcess } from 'node:child_process';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export { findStablePort as lastingPort } from '../../src/sandbox/children.ts';

const STARTUP_MS = 20_000;
const BETWEEN_TRIES_MS = 20;

/** Returns a loopback port nobody listens on just now. */
export async function freePort(): Promise<number> {
  const port = await portIfFree(0);
  if (port === undefined) throw new Error('no port was given');
  return port;
}

/** Returns the port if it can be listened on: any, for 0. */
async function portIfFree(wanted: number): Promise<number | undefined> {
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(wanted, '127.0.0.1', () => resolve(true));
  });
  if (!isFree) return undefined;
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return address === null || typeof address === 'string' ? undefined : address.port;
}

/**
 * Waits until a server greets on its port.
 *
 * @param log where the server writes why it does not start
 */
export async function listening(server: ChildProcess, port: number, log: string): Promise<void> {
  let failed: Error | undefined;
  server.once('error', (error) => {
    failed = error;
  });
  for (let waited = 0; waited < STARTUP_MS; waited += BETWEEN_TRIES_MS) {
    if (failed !== undefined) throw failed;
    if (server.exitCode !== null || server.signalCode !== null) break;
    if (await answers(port)) return;
    await delay(BETWEEN_TRIES_MS);
  }
  throw new Error(`${server.spawnfile} does not listen; see ${log}`);
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
