import { fieldOf, readAmounts, readRate } from './remembered.ts';

/**
 * When may the next request go? A pure decision: state and time in, state and wait out.
 *
 * Requests are paced evenly, `60 s / rate` apart. Idle time earns a small burst, and a burst is paid back at
 * once by the pause after it, so that in no 60 seconds there are more than `requestsPerMinute`: an even pace
 * with a burst added on top would exceed the ceiling by the burst, and a service that counts strictly would
 * answer 429.
 *
 * The rate in force is the ceiling until a 429 teaches otherwise: it falls to half of what was really sent,
 * and rises again by a twentieth of that, each minute without a 429. It is never above the ceiling.
 */
export interface PacePolicy {
  /** The ceiling: any number above 0. */
  readonly requestsPerMinute: number;
  /** Requests in flight at once. */
  readonly concurrency: number;
}

/** Requests begun in the current span and in the one before it. */
interface Tally {
  readonly since: number;
  readonly count: number;
  readonly before: number;
}

/** Plain numbers, 0 or more: it is remembered between runs. Times are milliseconds since the epoch. */
export interface PaceState {
  /** Requests a minute learned from refusals; null while none taught less than the ceiling. */
  readonly learned: number | null;
  /** What the learned rate gains each minute without a refusal. */
  readonly gain: number;
  readonly learnedAt: number;
  /** The service's own X-RateLimit-Limit, taken as requests a minute; null where it sends none. */
  readonly announced: number | null;
  /** When the next request is due. */
  readonly due: number;
  /** Requests that may go before they are due, earned by idling. */
  readonly credit: number;
  /** Nothing goes before this. */
  readonly holdUntil: number;
  /** 429s since the last answer that was none. */
  readonly refusals: number;
  /** A request begun before this belongs to a refusal that is counted already. */
  readonly refusedAt: number;
  readonly minute: Tally;
  readonly second: Tally;
}

const TALLY = ['since', 'count', 'before'] as const;
const AMOUNTS = [
  'gain',
  'learnedAt',
  'due',
  'credit',
  'holdUntil',
  'refusals',
  'refusedAt',
] as const;

/** Reads back what a limiter remembered, or null where it is not that: the memory is convenience, not truth. */
export function readPaceState(value: unknown): PaceState | null {
  const amounts = readAmounts(value, AMOUNTS);
  const learned = readRate(fieldOf(value, 'learned'));
  const announced = readRate(fieldOf(value, 'announced'));
  const minute = readAmounts(fieldOf(value, 'minute'), TALLY);
  const second = readAmounts(fieldOf(value, 'second'), TALLY);
  if (amounts === null || minute === null || second === null) return null;
  if (learned === undefined || announced === undefined) return null;
  return { ...amounts, learned, announced, minute, second };
}

/** What an answer says that the limiter cares for. */
export interface Answer {
  readonly status: number;
  /** When its request was let go. */
  readonly startedAt: number;
  /** Retry-After in milliseconds, null where there is none; a hint is capped here, not trusted. */
  readonly retryAfterMs: number | null;
  readonly limit: number | null;
  readonly remaining: number | null;
}

export type Decision =
  | { readonly go: true; readonly state: PaceState }
  | { readonly go: false; readonly waitMs: number; readonly reason: 'rate' | 'retry-after' };

const MINUTE_MS = 60_000;
/**
 * Added to the minute when pacing. It absorbs requests that travel at different speeds, and, where requests
 * are closer together than timers can resolve, lets the pace catch up on that much lateness.
 */
const SLACK_MS = 100;
/** A host may not make us wait longer than this, whatever its Retry-After says. */
export const LONGEST_HOLD_MS = 3_600_000;
/** Without a Retry-After: the first wait after a 429; it doubles with each further one. */
const FIRST_HOLD_MS = 5_000;
/** A Retry-After this long indicates a limit counted by the minute, a shorter one a limit by the second. */
const MINUTE_WINDOW_HINT_MS = 10_000;
/** Fewer requests a minute than this show nothing about a limit: the refusal of a lone request is no reason to creep. */
const CONCLUSIVE_RATE = 20;
const DECREASE = 0.5;
const GAIN_SHARE = 0.05;
const LARGEST_BURST = 10;

export const FRESH_PACE: PaceState = {
  learned: null,
  gain: 0,
  learnedAt: 0,
  announced: null,
  due: 0,
  credit: 0,
  holdUntil: 0,
  refusals: 0,
  refusedAt: 0,
  minute: { since: 0, count: 0, before: 0 },
  second: { since: 0, count: 0, before: 0 },
};

/** The requests a minute in force now. */
export function rateOf(state: PaceState, policy: PacePolicy): number {
  return Math.min(
    policy.requestsPerMinute,
    state.learned ?? Number.POSITIVE_INFINITY,
    state.announced ?? Number.POSITIVE_INFINITY,
  );
}

/** How many may be in flight: after a refusal one at a time, until an answer is none. */
export function widthOf(state: PaceState, policy: PacePolicy): number {
  return state.refusals > 0 ? 1 : policy.concurrency;
}

/** May a request go now? If so, the state counts it. */
export function ask(state: PaceState, policy: PacePolicy, now: number): Decision {
  const held = leftOf(state.holdUntil, now);
  if (held > 0) return { go: false, waitMs: held, reason: 'retry-after' };
  const rate = rateOf(state, policy);
  const interval = (MINUTE_MS + SLACK_MS) / rate;
  const most = Math.min(LARGEST_BURST, Math.max(1, Math.floor(rate / 15)));
  // A due time further ahead than any burst could have put it comes from a clock that was set back.
  const due = state.due - now > interval * most + 1 ? now + interval : state.due;
  const late = now - due;
  if (late >= 0) {
    const caughtUp = interval < SLACK_MS ? Math.min(late, SLACK_MS) : 0;
    const earned = (late - caughtUp) / interval;
    const credit = Math.min(most - 1, state.credit + earned);
    return { go: true, state: begun(state, now, now - caughtUp + interval, credit) };
  }
  if (state.credit >= 1) {
    return { go: true, state: begun(state, now, due + interval, Math.min(most, state.credit) - 1) };
  }
  return { go: false, waitMs: -late, reason: 'rate' };
}

/** Milliseconds until a hold ends. One longer than any hold can be comes from a clock that was set back: it is over. */
export function leftOf(until: number, now: number): number {
  const left = until - now;
  return left > LONGEST_HOLD_MS ? 0 : Math.max(0, left);
}

function begun(state: PaceState, now: number, due: number, credit: number): PaceState {
  return {
    ...state,
    due,
    credit,
    minute: counted(state.minute, MINUTE_MS, now),
    second: counted(state.second, 1000, now),
  };
}

function counted(tally: Tally, span: number, now: number): Tally {
  const age = now - tally.since;
  if (age >= 0 && age < span) {
    return { ...tally, count: tally.count + 1 };
  }
  return { since: now, count: 1, before: age >= 0 && age < 2 * span ? tally.count : 0 };
}

/** Requests in the last span: the current one and, by its share, the one before. */
function recent(tally: Tally, span: number, now: number): number {
  const age = now - tally.since;
  if (age < 0 || age >= 2 * span) return 0;
  if (age >= span) return tally.count;
  return tally.count + tally.before * (1 - age / span);
}

/** Learns from an answer, whatever its status. */
export function learn(
  state: PaceState,
  policy: PacePolicy,
  answer: Answer,
  now: number,
): PaceState {
  const heard = heed(state, answer, policy, now);
  if (answer.status !== 429) return recover(heard, policy, now);
  const asked =
    answer.retryAfterMs === null ? null : Math.min(answer.retryAfterMs, LONGEST_HOLD_MS);
  // Requests that were in flight together are refused together: that is one refusal, not several.
  if (answer.startedAt < state.refusedAt) return hold(heard, now, asked ?? 0);
  const sent =
    asked !== null && asked >= MINUTE_WINDOW_HINT_MS
      ? recent(state.minute, MINUTE_MS, now)
      : Math.max(recent(state.minute, MINUTE_MS, now), recent(state.second, 1000, now) * 60);
  const before = Math.min(rateOf(state, policy), Math.max(sent, CONCLUSIVE_RATE));
  const refusals = state.refusals + 1;
  const byItself = Math.min(LONGEST_HOLD_MS, FIRST_HOLD_MS * 2 ** Math.min(refusals - 1, 20));
  return hold(
    {
      ...heard,
      learned: Math.max(before * DECREASE, Math.min(1, policy.requestsPerMinute)),
      gain: Math.max(before * GAIN_SHARE, Math.min(1, policy.requestsPerMinute)),
      learnedAt: now,
      credit: 0,
      refusals,
      refusedAt: now,
    },
    now,
    Math.max(asked ?? byItself, MINUTE_MS / policy.requestsPerMinute / 2),
  );
}

/** Takes the service at its word where it announces a limit, but never above the ceiling nor below one a minute. */
function heed(state: PaceState, answer: Answer, policy: PacePolicy, now: number): PaceState {
  const announced = answer.limit === null ? state.announced : Math.max(1, answer.limit);
  const changed = announced === state.announced ? state : { ...state, announced };
  if (answer.remaining !== 0 || answer.status === 429) return changed;
  // Retry-After stands on every answer of the platform surface: it counts only once nothing remains.
  const wait = answer.retryAfterMs ?? Math.max(1000, MINUTE_MS / rateOf(changed, policy));
  return hold(changed, now, Math.min(wait, LONGEST_HOLD_MS));
}

function hold(state: PaceState, now: number, ms: number): PaceState {
  const until = now + ms;
  return until <= state.holdUntil ? state : { ...state, holdUntil: until };
}

function recover(state: PaceState, policy: PacePolicy, now: number): PaceState {
  const calm = state.refusals === 0 ? state : { ...state, refusals: 0 };
  if (calm.learned === null || now - calm.learnedAt < MINUTE_MS) return calm;
  const learned = calm.learned + calm.gain;
  if (learned >= policy.requestsPerMinute) return { ...calm, learned: null, gain: 0 };
  return { ...calm, learned, learnedAt: now };
}
