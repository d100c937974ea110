import cron from 'node-cron';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
/** Offsets of time zones are multiples of this: a minute of the hour is the same everywhere but for such steps. */
const ZONE_STEP_MINUTES = 15;
/** Four years and a day: 29 February comes within it. */
const FARTHEST_MS = (4 * 366 + 1) * DAY;

/** When a schedule is due next. */
export interface CronTimes {
  /** The first time after `after` (milliseconds since the epoch), or null when there is none within four years. */
  next(after: number): number | null;
}

/**
 * The times of a cron expression with 5 fields, or 6 with seconds first. node-cron itself only tells the next time from
 * the system's clock on; whether an instant matches it tells of any, so candidates are tried in order.
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
