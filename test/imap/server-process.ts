import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { listening } from '../peers/ports.ts';
import { stopServer } from '../peers/stop-server.ts';

const BETWEEN_LOOKS_MS = 5;

/** How a server is started, and where it greets. */
export interface ServerCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly port: number;
  readonly log: string;
}

/** A server with its children, in a process group of its own: Cyrus's master ends its complete group. */
export class ServerProcess {
  readonly #command: ServerCommand;
  #server: ChildProcess | undefined;
  readonly #killNow = (): void => {
    if (this.#server !== undefined) signalGroup(this.#server, 'SIGKILL');
  };

  constructor(command: ServerCommand) {
    this.#command = command;
    process.once('exit', this.#killNow);
  }

  /** Starts the server, and waits for its greeting. */
  async start(): Promise<void> {
    const { program, args, env, port, log } = this.#command;
    const server = spawn(program, args, {
      stdio: 'ignore',
      detached: true,
      ...(env === undefined ? {} : { env }),
    });
    this.#server = server;
    try {
      await listening(server, port, log);
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  /** Kills the server with all its children at once, and waits until they are gone. */
  async kill(): Promise<void> {
    const server = this.#server;
    if (server?.pid === undefined) return;
    const gone = isGone(server) ? undefined : once(server, 'exit');
    signalGroup(server, 'SIGKILL');
    await gone;
    while (isGroupAlive(server.pid)) await delay(BETWEEN_LOOKS_MS);
    this.#server = undefined;
  }

  /** Asks the server to end, then kills what is left of it. */
  async stop(): Promise<void> {
    if (this.#server !== undefined) await stopServer(this.#server);
    await this.kill();
  }

  /** Kills the server for good. */
  async end(): Promise<void> {
    await this.kill();
    process.removeListener('exit', this.#killNow);
  }
}

function isGone(server: ChildProcess): boolean {
  return server.exitCode !== null || server.signalCode !== null;
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Whether a process of the group still runs. One that only waits for its parent to notice its end does not. */
function isGroupAlive(group: number): boolean {
  return readdirSync('/proc').some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    let stat: string;
    try {
      stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    } catch {
      return false;
    }
    // The name, in brackets, may contain anything.
    const [state = '', , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && !'ZX'.includes(state);
  });
}
