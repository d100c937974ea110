import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, openSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { stopServer } from '../../peers/stop-server.ts';

const STARTUP_MS = 60_000;
const BETWEEN_TRIES_MS = 20;
const run = promisify(execFile);

/** The processes of a server, which end with the test. */
export class Children {
  /** Short, because there are sockets in it. */
  readonly folder = mkdtempSync(path.join(tmpdir(), 's3-'));
  readonly #running: ChildProcess[] = [];

  /** Starts a program that stays. */
  start(program: string, ...args: readonly string[]): void {
    const log = openSync(path.join(this.folder, `${program}.log`), 'a');
    this.#running.push(spawn(program, args, { stdio: ['ignore', log, log] }));
  }

  /** Runs a program to its end, and returns what it printed. */
  async run(program: string, ...args: readonly string[]): Promise<string> {
    return (await run(program, args)).stdout;
  }

  /** Waits until something is so. */
  async until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const ended = () => this.#running.find((child) => child.exitCode !== null);
    for (let waited = 0; waited < STARTUP_MS; waited += BETWEEN_TRIES_MS) {
      const gone = ended();
      if (gone !== undefined) throw new Error(`${gone.spawnfile} ended; see ${this.folder}`);
      if (await isSo()) return;
      await delay(BETWEEN_TRIES_MS);
    }
    throw new Error(`not in time: ${what}; see ${this.folder}`);
  }

  /** Waits until somebody listens on a port. */
  async listening(port: number): Promise<void> {
    await this.until(`a listener on port ${port}`, () => isListening(port));
  }

  /** Ends everything at once, since nothing is kept, and removes the folder. */
  async stop(): Promise<void> {
    for (const child of this.#running) child.kill('SIGKILL');
    await Promise.all(this.#running.map((child) => stopServer(child)));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
