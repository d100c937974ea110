import cron from 'node-cron';
import type { Settings } from '../core/config-schema.ts';
import type { StateFile } from '../core/state.ts';
import type { DaemonClock } from './ports.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
/** Offsets of time zones are multiples of this: a minute of the hour is the same everywhere but for such steps. */
const ZONE_STEP_MINUTES = 15;
/** Four years and a day: 29 February comes within it. */
const FARTHEST_MS = (4 * 366 + 1) * DAY;

interface CronTimes {
  /** The first time after `after` (milliseconds since the epoch), or null when there is none within four years. */
  next(after: number): number | null;
}

/**
 * The times of a cron expression with 5 fields, or 6 with seconds first. node-cron itself only computes the next time from
 * the system's clock; it can check any instant for a match, so candidates are tried in order.
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

/** From 1, in UTC: elsewhere it may be another, but not a day earlier or later. */
function monthOf(at: number): number {
  return new Date(at).getUTCMonth() + 1;
}

/** The two clocks differ by more than this when the machine slept, or somebody set the time. */
const JUMP_MS = 60_000;

/** Compares the wall clock with one that never goes back, and stands still while the machine sleeps. */
export class ClockJumps {
  #seen: { readonly wall: number; readonly monotonic: number };

  constructor(wall: number, monotonic: number) {
    this.#seen = { wall, monotonic };
  }

  /** By how many milliseconds the wall clock has jumped since the last look; null where it has not. */
  look(wall: number, monotonic: number): number | null {
    const jumped = wall - this.#seen.wall - (monotonic - this.#seen.monotonic);
    this.#seen = { wall, monotonic };
    return Math.abs(jumped) < JUMP_MS ? null : jumped;
  }
}

export class Timers {
  readonly #cancels = new Set<() => void>();

  constructor(private readonly clock: Pick<DaemonClock, 'after'>) {}

  after(ms: number, act: () => void): void {
    const cancel = this.clock.after(ms, () => {
      this.#cancels.delete(cancel);
      act();
    });
    this.#cancels.add(cancel);
  }

  cancel(): void {
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}

/** What a daemon does by the clock. */
export const SCHEDULED = ['sync', 'sweep', 'verify', 'prune'] as const;
export type Scheduled = (typeof SCHEDULED)[number];

interface Entry {
  readonly name: Scheduled;
  readonly times: CronTimes;
  /** When it was begun last, milliseconds since the epoch; null when that is not known. */
  readonly lastAt: number | null;
  /** Due at once, whenever it was begun last. */
  readonly atStart: boolean;
}

interface Row {
  readonly times: CronTimes;
  lastAt: number;
  dueAt: number | null;
}

/** A clock that is so much earlier than when it was last looked at has been set back. */
const SET_BACK_MS = 60_000;

/**
 * When what is due. Whatever was missed, once or often, because the machine slept, the clock was set or nobody was
 * running, is due once. Pure: time is an argument.
 */
export class Timetable {
  readonly #rows = new Map<Scheduled, Row>();
  #seenAt: number;

  /** @param jitter milliseconds to be late by, drawn again for each time */
  constructor(
    entries: readonly Entry[],
    private readonly jitter: () => number,
    now: number,
  ) {
    this.#seenAt = now;
    for (const { name, times, lastAt, atStart } of entries) {
      // A time in the future comes from a clock that was set back meanwhile.
      const known = lastAt !== null && lastAt <= now ? lastAt : null;
      const dueAt = atStart ? now : this.#next(times, known ?? now, now);
      this.#rows.set(name, { times, lastAt: known ?? now, dueAt });
    }
  }

  /** What is due now, and counts as begun with this. */
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

  /** When it was begun last; the start of the daemon where it never was. */
  lastAt(name: Scheduled): number | null {
    return this.#rows.get(name)?.lastAt ?? null;
  }

  nextAt(name: Scheduled): number | null {
    return this.#rows.get(name)?.dueAt ?? null;
  }

  /** Milliseconds until something is due; infinite when nothing ever is. */
  waitMs(now: number): number {
    const times = [...this.#rows.values()].flatMap(({ dueAt }) => dueAt ?? []);
    return Math.max(0, Math.min(...times, Number.POSITIVE_INFINITY) - now);
  }

  /** Without this, everything would wait until the clock has caught up with where it was. */
  #setBack(now: number): void {
    for (const row of this.#rows.values()) {
      row.lastAt = Math.min(row.lastAt, now);
      const next = this.#next(row.times, now, now);
      if (next !== null && (row.dueAt === null || next < row.dueAt)) row.dueAt = next;
    }
  }

  #next(times: CronTimes, after: number, now: number): number | null {
    const next = times.next(after);
    // What was missed is made up for at once: it is late enough.
    return next === null || next <= now ? next : next + this.jitter();
  }
}

/** Scope of memory: when each schedule was begun last, milliseconds since the epoch. */
const BEGUN = 'schedule';

type Memory = Pick<StateFile, 'get' | 'set'>;

/**
 * Returns the timetable of a configuration, which continues where the archive's state says that it stopped.
 *
 * @param names what of it is done
 */
export function rememberedTimetable(
  { schedule }: Pick<Settings, 'schedule'>,
  memory: Memory,
  clock: Pick<DaemonClock, 'now'>,
  names: readonly Scheduled[] = SCHEDULED,
): Timetable {
  const lastAt = (name: Scheduled): number | null => {
    const at = memory.get(BEGUN, name);
    if (at !== undefined) return at;
    // From here on it can be missed, and made up for, however often the daemon is restarted.
    if (name !== 'sync') noteBegun(memory, name, clock.now());
    return null;
  };
  return new Timetable(
    names.flatMap((name) => {
      const expression = schedule[name];
      if (expression === null) return [];
      const times = cronTimes(expression, schedule.timezone);
      return [{ name, times, lastAt: lastAt(name), atStart: name === 'sync' }];
    }),
    () => Math.random() * schedule.jitterSeconds * 1000,
    clock.now(),
  );
}

/** Remembers when something of the timetable was begun, in milliseconds since the epoch. */
export function noteBegun(memory: Memory, name: Scheduled, at: number): void {
  memory.set(BEGUN, name, at);
}
