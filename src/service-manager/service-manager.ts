import { spawn } from 'node:child_process';
import { errnoOf } from '../errors/mailkeep-error.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** What the daemon reports to systemd (sd_notify(3)). Outside a unit with Type=notify all of it does nothing. */
export interface ServiceManager {
  /** The archive is open and the schedules run. `status` is a line that `systemctl status` shows. */
  ready(status: string): void;
  status(status: string): void;
  stopping(): void;
  /** Starts reporting that the event loop runs, as often as the unit requires. */
  startWatchdog(): void;
  /** Stops the watchdog, and resolves when every report was received. */
  close(): Promise<void>;
}

/**
 * Speaks with systemd by way of `systemd-notify`, since Node.js has no datagram sockets in the file system. The unit
 * needs NotifyAccess=all: it is not the main process that speaks.
 *
 * @param onError hears of a message that could not be sent, by a code
 */
export function serviceManager(
  env: Environment,
  onError: (reason: string) => void,
): ServiceManager {
  const socket = env.NOTIFY_SOCKET ?? '';
  const queue = new Messages(socket, env.PATH, onError);
  let timer: NodeJS.Timeout | undefined;
  return {
    ready: (status) => queue.send(['--ready', `--status=${oneLine(status)}`]),
    status: (status) => queue.send([`--status=${oneLine(status)}`]),
    stopping: () => queue.send(['STOPPING=1']),
    startWatchdog() {
      const everyMs = watchdogMs(env);
      if (everyMs === null || timer !== undefined) return;
      const ping = (): void => queue.send(['WATCHDOG=1'], 'watchdog');
      ping();
      timer = setInterval(ping, everyMs);
    },
    async close() {
      clearInterval(timer);
      await queue.idle();
    },
  };
}

/** How often the watchdog wants to hear, half of its patience; null when there is none for this process. */
export function watchdogMs(env: Environment, pid = process.pid): number | null {
  const microseconds = Number(env.WATCHDOG_USEC ?? '');
  const meant = env.WATCHDOG_PID === undefined || Number(env.WATCHDOG_PID) === pid;
  return meant && Number.isSafeInteger(microseconds) && microseconds > 0
    ? Math.max(1, Math.floor(microseconds / 2_000))
    : null;
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}]+/gu, ' ');
}

/** systemd answers within milliseconds; a process that waits longer waits for nothing. */
const TIMEOUT_MS = 10_000;

/** One message after the other, in the order in which they were given. */
class Messages {
  /** Of these kinds one is waiting already: a second would say the same. */
  readonly #waiting = new Set<string>();
  #last: Promise<void> = Promise.resolve();

  constructor(
    private readonly socket: string,
    private readonly path: string | undefined,
    private readonly onError: (reason: string) => void,
  ) {}

  send(args: readonly string[], kind?: string): void {
    if (this.socket === '' || (kind !== undefined && this.#waiting.has(kind))) return;
    if (kind !== undefined) this.#waiting.add(kind);
    this.#last = this.#last.then(async () => {
      if (kind !== undefined) this.#waiting.delete(kind);
      const reason = await this.#spawn(args);
      if (reason !== null) this.onError(reason);
    });
  }

  idle(): Promise<void> {
    return this.#last;
  }

  /** Why it failed, or null. */
  #spawn(args: readonly string[]): Promise<string | null> {
    // Nothing else of our environment is its business.
    const env = { NOTIFY_SOCKET: this.socket, PATH: this.path ?? '/usr/bin:/bin' };
    const child = spawn('systemd-notify', [...args], {
      env,
      stdio: 'ignore',
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    return new Promise((resolve) => {
      child.once('error', (error) => resolve(errnoOf(error) ?? 'not started'));
      child.once('exit', (code, signal) =>
        resolve(code === 0 ? null : code === null ? String(signal) : `exit code ${code}`),
      );
    });
  }
}
