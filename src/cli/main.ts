#!/usr/bin/env node
import { EXIT } from './exit-codes.ts';
import { run } from './run.ts';

const interruption = new AbortController();

/** The first signal asks the command to stop at the next safe point; the second does not wait. */
function interrupt(): void {
  if (interruption.signal.aborted) process.exit(EXIT.interrupted);
  interruption.abort();
}
process.on('SIGINT', interrupt);
process.on('SIGTERM', interrupt);
// Nobody listens any more: there is no one to tell, and no reason to fail.
process.stderr.on('error', () => {});

process.exitCode = await run(process.argv.slice(2), {
  stdin: () => process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  signal: interruption.signal,
  now: Date.now,
});
