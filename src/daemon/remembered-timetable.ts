import type { Settings } from '../config/settings.ts';
import type { StateFile } from '../state/state-file.ts';
import type { DaemonClock } from './ports.ts';
import { cronTimes, SCHEDULED, type Scheduled, Timetable } from './timetable.ts';

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
