import { fstatSync, writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { EXIT } from '../errors/exit-codes.ts';
import { wantsJson } from './program.ts';
import type { CommandEntry } from './reading-commands.ts';
import { reported, run } from './run.ts';

const STANDARD_OUTPUT = 1;

type Stdout = Writable & { isTTY?: boolean; columns?: number };

/**
 * Returns standard output. Node.js takes a short write to a file for a complete one, so that the end of a result would
 * be missing on a disk that has just become full, without an error: to a file all bytes are written here.
 */
export function standardOutput(): Stdout {
  return fstatSync(STANDARD_OUTPUT).isFile() ? new FileOutput() : process.stdout;
}

class FileOutput extends Writable {
  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      for (let at = 0; at < chunk.length; ) at += writeSync(STANDARD_OUTPUT, chunk, at);
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

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
  // Nobody reads the output any more: there is nothing to report, and no reason to fail.
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
