import { EXIT } from '../errors/exit-codes.ts';
import { wantsJson } from './program.ts';
import type { CommandEntry } from './reading-commands.ts';
import { reported, run } from './run.ts';
import { standardOutput } from './standard-output.ts';

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

  const args = process.argv.slice(2);
  const { env, stderr } = process;
  // Node.js would print the line of the program that threw, which is a page of minified source.
  process.on('uncaughtException', (error) =>
    process.exit(reported(error, wantsJson(args), { stderr, env })),
  );

  process.exitCode = await run(args, commands, {
    stdin: () => process.stdin,
    stdout: standardOutput(),
    stderr,
    env,
    cwd: process.cwd(),
    signal: interruption.signal,
    now: Date.now,
  });
}
