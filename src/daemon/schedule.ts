import cron from 'node-cron';
import type { Settings } from '../core/config-schema.ts';
import type { StateFile } from '../core/state.ts';
import type { DaemonClock } from './ports.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
/** Time zone offsets are multiples of this, so they shift the minute of the hour only in steps of this size. */
const ZONE_STEP_MINUTES = 15;
/** Four years and a day, which always include a 29 February. */
const FARTHEST_MS = (4 * 366 + 1) * DAY;

interface CronTimes {
  /** Returns the first time after `after`, or null if there is none within four years. Milliseconds since the epoch. */
  next(after: number): number | null;
}

/**
 * Computes the times of a cron expression with 5 fields, or 6 with seconds first. node-cron computes the next time only
 * from the system clock, and skips the hour that is repeated when clocks go back. It can match any instant, so
 * candidates are tried in order.
 *
 * @param timezone IANA name, or `local`
 */
export function cronTimes(expression: string, timezone: string): CronTimes {
  const task = cron.createTask(expression, () => {}, timezone === 'local' ? {} : { timezone });
  const { second, minute, month } = cron.parse(expression);
  const months = new Set(month);
  const seconds = [...second].sort((a, b) => a - b);
  const steps = new Set(minute.map((value) => value % ZONE_STEP_MINUTES));
  return {
    next(after) {
      const from = Math.floor(after / MINUTE) * MINUTE;
      for (let at = from; at <= after + FARTHEST_MS; at += MINUTE) {
        if (!months.has(monthOf(at - DAY)) && !months.has(monthOf(at + DAY))) {
          at += DAY - MINUTE;
          continue;
        }
        if (!steps.has((at / MINUTE) % ZONE_STEP_MINUTES)) continue;
        for (const value of seconds) {
          const candidate = at + value * SECOND;
          if (candidate > after && task.match(new Date(candidate))) return candidate;
        }
      }
      return null;
    },
  };
}

/** Returns the UTC month, from 1. Local months differ by at most a day. */
function monthOf(at: number): number {
  return new Date(at).getUTCMonth() + 1;
}

export const SCHEDULED = ['sync', 'sweep', 'verify', 'prune'] as const;
export type Scheduled = (typeof SCHEDULED)[number];

interface Entry {
  readonly name: Scheduled;
  readonly times: CronTimes;
  /** Time of the last start, in milliseconds since the epoch; null if unknown. */
  readonly lastAt: number | null;
  readonly atStart: boolean;
}

interface Row {
  readonly times: CronTimes;
  lastAt: number;
  dueAt: number | null;
}

/** A clock this far behind the last check was set back. */
const SET_BACK_MS = 60_000;

/** Determines which tasks are due. Anything missed (suspend, clock change, downtime) is due once. Pure. */
export class Timetable {
  readonly #rows = new Map<Scheduled, Row>();
  #seenAt: number;

  constructor(
    entries: readonly Entry[],
    private readonly jitter: () => number,
    now: number,
  ) {
    this.#seenAt = now;
    for (const { name, times, lastAt, atStart } of entries) {
      // A time in the future was recorded before the clock was set back.
      const known = lastAt !== null && lastAt <= now ? lastAt : null;
      const dueAt = atStart ? now : this.#next(times, known ?? now, now);
      this.#rows.set(name, { times, lastAt: known ?? now, dueAt });
    }
  }

  due(now: number): Scheduled[] {
    if (now < this.#seenAt - SET_BACK_MS) this.#setBack(now);
    this.#seenAt = now;
    const names: Scheduled[] = [];
    for (const [name, row] of this.#rows) {
      if (row.dueAt === null || row.dueAt > now) continue;
      names.push(name);
      row.lastAt = now;
      row.dueAt = this.#next(row.times, now, now);
    }
    return names;
  }

  /** Returns the last start of the task, or of the daemon if the task has never run. */
  lastAt(name: Scheduled): number | null {
    return this.#rows.get(name)?.lastAt ?? null;
  }

  nextAt(name: Scheduled): number | null {
    return this.#rows.get(name)?.dueAt ?? null;
  }

  /** Returns the milliseconds until the next task, or Infinity. */
  waitMs(now: number): number {
    const times = [...this.#rows.values()].flatMap(({ dueAt }) => dueAt ?? []);
    return Math.max(0, Math.min(...times, Number.POSITIVE_INFINITY) - now);
  }

  /** Recomputes due times after the clock was set back, so that tasks do not wait for it to catch up. */
  #setBack(now: number): void {
    for (const row of this.#rows.values()) {
      row.lastAt = Math.min(row.lastAt, now);
      const next = this.#next(row.times, now, now);
      if (next !== null && (row.dueAt === null || next < row.dueAt)) row.dueAt = next;
    }
  }

  #next(times: CronTimes, after: number, now: number): number | null {
    const next = times.next(after);
    // Missed tasks run without a random delay.
    return next === null || next <= now ? next : next + this.jitter();
  }
}

/** State scope for the last start of each schedule, in milliseconds since the epoch. */
const BEGUN = 'schedule';

type Memory = Pick<StateFile, 'get' | 'set'>;

/** Returns a configuration's timetable, resumed from the archive's state. */
export function rememberedTimetable(
  { schedule }: Pick<Settings, 'schedule'>,
  memory: Memory,
  clock: Pick<DaemonClock, 'now'>,
): Timetable {
  const lastAt = (name: Scheduled): number | null => {
    const at = memory.get(BEGUN, name);
    if (at !== undefined) return at;
    // Recorded now, so that later misses are detected even across restarts.
    if (name !== 'sync') recordStart(memory, name, clock.now());
    return null;
  };
  return new Timetable(
    SCHEDULED.flatMap((name) => {
      const expression = schedule[name];
      if (expression === null) return [];
      const times = cronTimes(expression, schedule.timezone);
      return [{ name, times, lastAt: lastAt(name), atStart: name === 'sync' }];
    }),
    () => Math.random() * schedule.jitterSeconds * 1000,
    clock.now(),
  );
}

export function recordStart(memory: Memory, name: Scheduled, at: number): void {
  memory.set(BEGUN, name, at);
}
