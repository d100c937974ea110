/** Time as an argument, so that tests never wait. */
export interface Clock {
  /** Milliseconds since the epoch: what is remembered between runs is counted in it. */
  now(): number;
  /** Calls back once after at least `ms`; the returned function takes it back. */
  after(ms: number, call: () => void): () => void;
}

/** Node's timers take no longer delays: about 24.8 days. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, Math.min(ms, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};
