import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { onAbort } from '../core/concurrency.ts';
import { errnoOf } from '../core/errors.ts';

/** Of the environment: what it takes to run. Tokens, credentials and the service manager's socket are not among it. */
const KEPT = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'MAILKEEP_NETWORK_FILE_SYSTEM'];

const refused = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

export interface ChildOptions {
  /** Command line of this program. */
  readonly program: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of variables that this command needs besides. */
  readonly variables?: readonly string[];
}

/** How a command ended. */
export interface ChildEnded {
  /** Null where it was killed, or could not be started. */
  readonly code: number | null;
  /** What it printed as JSON; undefined where it printed none. */
  readonly result: unknown;
  /** The error that it printed; undefined where it printed none. */
  readonly error: { readonly code: string; readonly message: string } | undefined;
}

/**
 * Runs a command of this program in a process of its own, which gives way to all others, and ends it with the signal.
 *
 * @param args without `--json`, which is added
 */
export async function runChild(
  { program, env, variables = [] }: ChildOptions,
  args: readonly string[],
  signal: AbortSignal,
): Promise<ChildEnded> {
  const [command = '', ...before] = program;
  const kept = [...KEPT, ...variables].flatMap((name) => (name in env ? [[name, env[name]]] : []));
  const child = spawn(command, [...before, ...args, '--json'], {
    cwd: '/',
    env: Object.fromEntries(kept),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid !== undefined) giveWay(pid);
  const release = signal.aborted ? () => {} : onAbort(signal, () => child.kill('SIGTERM'));
  if (signal.aborted) child.kill('SIGTERM');
  try {
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    const error = refused.safeParse(lastJson(stderr)).data?.error;
    return { code: child.exitCode, result: lastJson(stdout), error };
  } catch (error) {
    const code = errnoOf(error);
    if (code === undefined) throw error;
    const message = `The process could not be started: ${code}.`;
    return { code: null, result: undefined, error: { code, message } };
  } finally {
    release();
  }
}

/** It may take as long as it likes. */
function giveWay(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch (error) {
    // It has just ended, or the system does not let us.
    if (errnoOf(error) === undefined && !(error instanceof Error && 'info' in error)) throw error;
  }
}

/** The value of the last line that is JSON; undefined where there is none. */
function lastJson(output: string): unknown {
  return parseJson(output.trim().split('\n').at(-1) ?? '');
}
