import type { Timer } from '../../../src/sandbox/webhooks.ts';

/** Time that stands still until it is moved; timers run when it is. */
export interface Clock {
  readonly now: () => number;
  readonly timer: Timer;
  /** Waits that are running, in milliseconds from now, shortest first. */
  waits(): number[];
  pass(ms: number): void;
}

export function standingClock(start = Date.UTC(2026, 0, 1)): Clock {
  let now = start;
  let timers: { readonly at: number; readonly act: () => void }[] = [];
  return {
    now: () => now,
    timer: (ms, act) => {
      const timer = { at: now + ms, act };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    waits: () => timers.map(({ at }) => at - now).sort((a, b) => a - b),
    pass: (ms) => {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { act } of due) act();
    },
  };
}
