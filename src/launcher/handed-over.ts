import path from 'node:path';
import { SHARE_ENV, Worker } from 'node:worker_threads';

/** Name of the launcher in dist/; the build puts it in. */
declare const LAUNCHER: string;

/** A thread costs more than the rest of the hand-over; by then the commands that answer as people type have ended. */
const AFTER_MS = 100;
/** Node.js closes the pipe in what the program starts, as all descriptors that were handed to it. */
const WATCH = `
const { Socket } = require('node:net');
const die = () => process.kill(process.pid, 'SIGKILL');
new Socket({ fd: 3 }).on('error', die).on('close', die).resume();
`;

/**
 * What the launcher has the Node.js of .runtime/ start (see hand-over.ts): the program, and a thread that ends it like
 * SIGKILL when the pipe closes that the launcher holds open. A thread, because the main one may compute for seconds.
 */
function watch(): void {
  new Worker(WATCH, { eval: true, env: SHARE_ENV, execArgv: [] }).unref();
}

setTimeout(watch, AFTER_MS).unref();
process.argv[1] = path.join(__dirname, LAUNCHER);
require(process.argv[1]);
