import type { ChildProcess } from 'node:child_process';

/** How long a server may take to end before it is made to. */
const GRACE_MS = 5_000;

/** Asks a program to end, and makes it end when it does not; waits until it has. */
export async function stopServer(server: ChildProcess): Promise<void> {
  const { pid, exitCode, signalCode } = server;
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  const gone = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  server.kill('SIGTERM');
  const impatient = setTimeout(() => server.kill('SIGKILL'), GRACE_MS);
  await gone;
  clearTimeout(impatient);
}
