import { LONGEST_HOLD_MS } from './pace.ts';
import { readAmounts } from './remembered.ts';

/** 429s in a row after which a host is left alone altogether: going on is what gets an address blocked. */
export const REFUSALS_TO_PAUSE = 3;
const FIRST_PAUSE_MS = 60_000;

/** A host that is left alone, by whatever token. Plain numbers: it is remembered between runs. */
export interface HostPause {
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** Pauses since the host last answered something else than 429. */
  readonly pauses: number;
}

export const NO_PAUSE: HostPause = { until: 0, pauses: 0 };

/** The next pause: one minute, doubling, at most an hour, and never shorter than what the host asked for. */
export function pauseAgain(pause: HostPause, retryAfterMs: number | null, now: number): HostPause {
  const byItself = FIRST_PAUSE_MS * 2 ** Math.min(pause.pauses, 10);
  const ms = Math.min(LONGEST_HOLD_MS, Math.max(byItself, retryAfterMs ?? 0));
  return { until: Math.max(pause.until, now + ms), pauses: pause.pauses + 1 };
}

/** Reads back what a limiter remembered of a host, or null where it is not that. */
export function readHostPause(value: unknown): HostPause | null {
  return readAmounts(value, ['until', 'pauses']);
}
