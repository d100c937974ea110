import { EXIT } from './exit-codes.ts';
import type { CommandEntry } from './reading-commands.ts';
import { run } from './run.ts';

/** Runs the command line of this process, and leaves its exit code. */
export async function runProcess(commands: readonly CommandEntry[]): Promise<void> {
  const interruption = new AbortController();
  // The first signal asks the command to stop at the next safe point; the second does not wait.
  const interrupt = (): void => {
    if (interruption.signal.aborted) process.exit(EXIT.interrupted);
    interruption.abort();
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  // Nobody listens any more: there is no one to tell, and no reason to fail.
  process.stderr.on('error', () => {});

  process.exitCode = await run(process.argv.slice(2), commands, {
    stdin: () => process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    signal: interruption.signal,
    now: Date.now,
  });
}
