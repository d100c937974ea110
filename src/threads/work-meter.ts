import { readFileSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';

/** What a look at a thread tells. */
interface Look {
  /** Processor time of the thread since it started, milliseconds. */
  readonly cpuMs: number;
  /** False for a thread that waits for something; true also for one that waits for a processor. */
  readonly isRunning: boolean;
}

/**
 * Measures the work of one thread, by looks at it at regular times. Work is processor time: a process that was stopped,
 * a machine that was paused and a container without processor time add nothing. Where processor time cannot be read,
 * each look counts as the time between two looks, however late it came.
 */
export class WorkMeter {
  #before: Look | null = null;
  #workedMs = 0;
  #waitedMs = 0;

  /** @param look undefined where processor time cannot be read */
  constructor(private readonly look: (() => Look | null) | undefined) {}

  /** Processor time since `restart`. */
  get workedMs(): number {
    return this.#workedMs;
  }

  /** Time since `restart` in which the thread neither worked nor was kept from it. */
  get waitedMs(): number {
    return this.#waitedMs;
  }

  restart(): void {
    this.#before = this.look?.() ?? null;
    this.#workedMs = 0;
    this.#waitedMs = 0;
  }

  /** Looks at the thread. @param sinceMs time between two looks, as planned; 0 for a look out of turn */
  tick(sinceMs: number): void {
    if (this.look === undefined) {
      this.#workedMs += sinceMs;
      return;
    }
    const now = this.look();
    const before = this.#before;
    this.#before = now ?? before;
    const worked = now === null || before === null ? 0 : now.cpuMs - before.cpuMs;
    this.#workedMs += worked;
    if (worked === 0 && now?.isRunning !== true) this.#waitedMs += sinceMs;
  }
}

/** USER_HZ, which is 100 on every architecture that Node.js runs on. */
const MS_PER_CLOCK_TICK = 10;

/**
 * Returns a meter for a thread that has started.
 *
 * @param task the thread as Linux names it below /proc; empty elsewhere
 */
export function meterOf(worker: Worker, task: string): WorkMeter {
  if (task !== '') return new WorkMeter(() => lookAtTask(task));
  // Since Node.js 24.6. Linux is asked first: the thread itself answers this, and not while it is in native code.
  if (!('cpuUsage' in worker)) return new WorkMeter(undefined);
  let known: Look | null = null;
  let isAsked = false;
  return new WorkMeter(() => {
    if (!isAsked) {
      isAsked = true;
      worker
        .cpuUsage()
        .then(({ user, system }) => {
          known = { cpuMs: (user + system) / 1000, isRunning: false };
        })
        // The thread has ended.
        .catch(() => undefined)
        .finally(() => {
          isAsked = false;
        });
    }
    return known;
  });
}

/** Null for a thread that has ended. */
function lookAtTask(task: string): Look | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${task}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The name of the thread, in brackets, may hold anything (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, user, system] = [fields[0], Number(fields[11]), Number(fields[12])];
  return { cpuMs: (user + system) * MS_PER_CLOCK_TICK, isRunning: state !== 'S' };
}
