import path from 'node:path';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { commandName, readingCommand } from '../command-name.ts';

/** Name of the launcher in dist/, set by the build. */
declare const LAUNCHER: string;

/** Commands that finish sooner do without the thread, which would cost more than the rest of the hand-over. */
const QUICK_MS = 100;
/** Node.js does not pass this pipe on to child processes. */
const WATCH = `
const { Socket } = require('node:net');
const die = () => process.kill(process.pid, 'SIGKILL');
new Socket({ fd: 3 }).on('error', die).on('close', die).resume();
`;

/**
 * Starts a thread that kills the program when the launcher's pipe closes. The main thread can be busy for seconds. A
 * rebuild blocks it immediately, so the watching thread starts first.
 */
function watch(): void {
  new Worker(WATCH, { eval: true, env: SHARE_ENV, execArgv: [] }).unref();
}

/** Returns whether a line is a read-only command, help or completion. */
function isQuick(args: readonly string[]): boolean {
  const name = commandName(args);
  return (
    name === undefined ||
    readingCommand(name) !== undefined ||
    ['complete', 'completion', 'help'].includes(name) ||
    args.some((arg) => ['--help', '-h', '--version', '-V'].includes(arg))
  );
}

if (isQuick(process.argv.slice(2))) setTimeout(watch, QUICK_MS).unref();
else watch();
process.argv[1] = path.join(__dirname, LAUNCHER);
require(process.argv[1]);
