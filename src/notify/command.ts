import { spawn } from 'node:child_process';
import { errnoOf } from '../errors/mailkeep-error.ts';
import type { NotificationMessage } from './message.ts';

/** How a notification went; the reason holds a code, a status or a signal, and no text of anybody's. */
export type Outcome = { readonly sent: true } | { readonly sent: false; readonly reason: string };

/** What a command needs of our environment. Tokens, credentials and the service manager's socket are not among it. */
const KEPT = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];

/**
 * Runs the operator's command line in a shell. Nothing is put into the line: what happened is in the variables
 * MAILKEEP_EVENT, MAILKEEP_OK and MAILKEEP_SUMMARY and, whole, as JSON on standard input. Its output is dropped.
 *
 * @param timeoutMs after which the command and what it started are killed
 */
export function runCommand(
  command: string,
  message: NotificationMessage,
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const child = spawn('/bin/sh', ['-c', command], {
    // A group of its own, so that all of it can be killed.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {
      ...Object.fromEntries(KEPT.flatMap((name) => (name in env ? [[name, env[name]]] : []))),
      MAILKEEP_EVENT: message.event,
      MAILKEEP_OK: message.ok ? '1' : '0',
      MAILKEEP_SUMMARY: message.summary,
    },
  });
  let killed: string | null = null;
  const kill = (why: string): void => {
    killed ??= why;
    if (child.pid !== undefined) killGroup(child.pid);
  };
  const timer = setTimeout(() => kill('timeout'), timeoutMs);
  const onAbort = (): void => kill('stopped');
  signal.addEventListener('abort', onAbort, { once: true });
  // A command that does not read its input is not wrong.
  child.stdin.on('error', () => {});
  child.stdin.end(`${JSON.stringify(message)}\n`);
  return new Promise<Outcome>((resolve) => {
    child.once('error', (error) =>
      resolve({ sent: false, reason: errnoOf(error) ?? 'not started' }),
    );
    child.once('exit', (code, by) => {
      if (killed !== null) resolve({ sent: false, reason: killed });
      else if (code === 0) resolve({ sent: true });
      else resolve({ sent: false, reason: code === null ? String(by) : `exit code ${code}` });
    });
  }).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // It has just ended.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}
