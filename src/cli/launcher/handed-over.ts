import path from 'node:path';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { commandName, readingCommand } from '../command-name.ts';

/** Name of the launcher in dist/; the build puts it in. */
declare const LAUNCHER: string;

/** Quick commands have ended by then: the thread would cost more than the rest of the hand-over. */
const QUICK_MS = 100;
/** Node.js closes the pipe in what the program starts, as all descriptors that were handed to it. */
const WATCH = `
const { Socket } = require('node:net');
const die = () => process.kill(process.pid, 'SIGKILL');
new Socket({ fd: 3 }).on('error', die).on('close', die).resume();
`;

/**
 * What the launcher has the Node.js of .runtime/ start (see hand-over.ts): the program, and a thread that ends it like
 * SIGKILL when the pipe closes that the launcher holds open. A thread, because the main one may compute for seconds,
 * and from the beginning, because a rebuild does so at once.
 */
function watch(): void {
  new Worker(WATCH, { eval: true, env: SHARE_ENV, execArgv: [] }).unref();
}

/** Whether a line asks for what people wait for as they type: reading commands, help, completion. */
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
