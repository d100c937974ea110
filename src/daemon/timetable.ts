import type { CronTimes } from './cron.ts';

/** What a daemon does by the clock. */
export type Scheduled = 'sync' | 'sweep' | 'verify' | 'prune';

export interface Entry {
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
  readonly #jitter: () => number;
  #seenAt: number;

  /** @param jitter milliseconds to be late by, drawn anew for each time */
  constructor(entries: readonly Entry[], jitter: () => number, now: number) {
    this.#jitter = jitter;
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
    return next === null || next <= now ? next : next + this.#jitter();
  }
}
