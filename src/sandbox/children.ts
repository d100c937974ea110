import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { demoError } from './errors.ts';

const STARTUP_MS = 60_000;
const BETWEEN_TRIES_MS = 20;
/** Maximum number of log characters to include in an error. */
const SHOWN = 400;
/** Below Linux's range for outgoing connections (net.ipv4.ip_local_port_range), which keeps the port free. */
const LASTING = { from: 20_000, below: 32_000 };
const run = promisify(execFile);

interface RunOptions {
  readonly uid?: number;
  readonly gid?: number;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Aborts programs that `run` started. */
  readonly signal?: AbortSignal;
}

/** Manages a server's child processes, which stop together with it. */
export class Children {
  readonly #running: ChildProcess[] = [];
  #isStopped = false;

  /** @param folder directory for their files, removed by `stop`; must have a short path, because it contains sockets */
  constructor(
    readonly folder: string,
    private readonly options: RunOptions = {},
  ) {}

  /** Starts a long-running program. @throws demo-server-ended after `stop` */
  start(program: string, ...args: readonly string[]): ChildProcess {
    if (this.#isStopped) throw demoError('demo-server-ended', { program, log: '' });
    const log = openSync(this.#logOf(program), 'a');
    const { signal: _, ...options } = this.options;
    const child = spawn(program, args, { ...options, stdio: ['ignore', log, log] });
    // The child has its own descriptor.
    closeSync(log);
    // A program that failed to start is detected because it never responds.
    child.on('error', () => undefined);
    this.#running.push(child);
    return child;
  }

  /** Runs a program and returns its output. @throws demo-server-ended if it fails */
  async run(program: string, ...args: readonly string[]): Promise<string> {
    try {
      return (await run(program, args, this.options)).stdout;
    } catch (error) {
      const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
      throw demoError('demo-server-ended', { program, log: stderr.trim().slice(-SHOWN) }, error);
    }
  }

  /** Waits for a condition. @throws demo-server-ended, demo-server-late */
  async until(program: string, isSo: () => Promise<boolean>): Promise<void> {
    for (let waited = 0; waited < STARTUP_MS; waited += BETWEEN_TRIES_MS) {
      const exited = this.#running.find(hasEnded);
      if (exited !== undefined || this.#isStopped) {
        const ended = path.basename(exited?.spawnfile ?? program);
        throw demoError('demo-server-ended', { program: ended, log: this.#endOfLog(ended) });
      }
      if (await isSo()) return;
      await delay(BETWEEN_TRIES_MS);
    }
    throw demoError('demo-server-late', { program, log: this.#endOfLog(program) });
  }

  listening(program: string, port: number): Promise<void> {
    return this.until(program, () => isListening(port));
  }

  /** Kills all processes and removes their files. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running.map(killProcess));
    rmSync(this.folder, { recursive: true, force: true });
  }

  #logOf(program: string): string {
    return path.join(this.folder, `${path.basename(program)}.log`);
  }

  #endOfLog(program: string): string {
    try {
      return readFileSync(this.#logOf(program), 'utf8').trim().slice(-SHOWN);
    } catch {
      return '';
    }
  }
}

export function hasEnded({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid === undefined || exitCode !== null || signalCode !== null;
}

/** Resolves when the process has exited. */
export async function killProcess(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  // PostgreSQL removes its shared memory after SIGQUIT.
  child.kill(path.basename(child.spawnfile) === 'postgres' ? 'SIGQUIT' : 'SIGKILL');
  await exit;
}

/** Returns a port that is still free after a server restart, because outgoing connections never use it. */
export async function findStablePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LASTING.from, LASTING.below);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (free) await new Promise<void>((resolve) => server.close(() => resolve()));
  return free;
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
