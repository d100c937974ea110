/**
 * Bytes exchanged with a server for an account, and the limit for a day. Stored in the state, so that restarts and other
 * runs count towards the same limit.
 */
import { MailkeepError } from '../core/errors.ts';
import type { ScopeValue, StateFile } from '../core/state.ts';
import { accountKey } from '../core/types.ts';
import { imapError } from './errors.ts';

/** Gmail locks out users who fetch more than about 2,500 MB a day. Leaves a fifth of it for other mail programs. */
export const GMAIL_BYTES_PER_DAY = 2_000_000_000;

const DAY_MS = 86_400_000;
/** Bytes are counted per ten minutes. */
const SLOT_MS = 600_000;
/** A day has 145. There are more only after the clock was set back. */
const MAX_SLOTS = 1_000;
/** After the limit was reached, the sync waits until this share is free, so that it does not crawl at the limit. */
const FREE_SHARE = 0.1;
/** Written at least after this many bytes and milliseconds, which is what a crash can leave uncounted. */
const SAVE_BYTES = 4 * 1024 * 1024;
const SAVE_MS = 10_000;

type StoredTraffic = ScopeValue<'imap-traffic'>;
type Slots = StoredTraffic['slots'];
type TrafficMemory = Pick<StateFile, 'get' | 'set' | 'together'>;

const NO_TRAFFIC: StoredTraffic = {
  ...{ limit: null, until: null, completeAt: null, speed: null },
  slots: [],
};
/** A sync run is long enough to measure its speed from this many milliseconds and messages. */
const MEASURED_MS = 2_000;
const MEASURED_MESSAGES = 100;

interface TrafficOptions {
  readonly host: string;
  /** Name in the configuration. */
  readonly account: string;
  /** Bytes a day; null for no limit. If undefined, a limit that the server is known for applies. */
  readonly limit?: number | null | undefined;
  /** If undefined, the counts are lost when the process exits. */
  readonly memory?: TrafficMemory | undefined;
  readonly now: () => number;
}

/** What a sync run fetched. */
interface FetchedInRun {
  readonly messages: number;
  readonly bytes: number;
}

export class Traffic {
  readonly #options: TrafficOptions;
  readonly #key: string;
  #stored: StoredTraffic;
  readonly #unsaved = new Map<number, number>();
  #unsavedBytes = 0;
  #savedAt: number;
  #limit: number | null;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#key = accountKey(options.account, options.host);
    this.#stored = options.memory?.get('imap-traffic', this.#key) ?? NO_TRAFFIC;
    this.#savedAt = options.now();
    // A limit from an earlier configuration is over; the server's own is not.
    const learned = this.#stored.limit === GMAIL_BYTES_PER_DAY ? GMAIL_BYTES_PER_DAY : null;
    this.#limit = options.limit === undefined ? learned : options.limit;
  }

  /** Applies the known limit of a server with these capabilities, unless the configuration has one. */
  learn(capabilities: ReadonlySet<string>): void {
    if (this.#options.limit !== undefined) return;
    this.#limit = capabilities.has('X-GM-EXT-1') ? GMAIL_BYTES_PER_DAY : null;
  }

  /** Bytes a day; null for no limit. */
  get limit(): number | null {
    return this.#limit;
  }

  /** Messages and bytes per second in the last sync run that fetched many; null if unknown. */
  get speed(): StoredTraffic['speed'] {
    return this.#stored.speed;
  }

  /** Bytes until the limit; infinite without one. */
  get left(): number {
    if (this.#limit === null) return Number.POSITIVE_INFINITY;
    return Math.max(0, this.#limit - bytesOfDay(this.#slots(), this.#options.now()));
  }

  /** @throws imap.day-limit while the limit is reached */
  check(): void {
    const { now } = this.#options;
    const limit = this.#limit;
    const { until: stored, limit: reached } = this.#stored;
    const isPaused = isAhead(stored, now());
    const isHeld = isPaused && limit !== null && limit <= (reached ?? 0);
    // The next save replaces the limit that was reached, and the pause was for that one.
    if (isPaused && !isHeld) this.save({ until: null, completeAt: null });
    if (limit === null || (!isHeld && this.left > 0)) return;
    const until = isHeld ? stored : resumesAt(this.#slots(), limit, now());
    if (!isHeld) this.save({ until, completeAt: null });
    throw this.#error(limit, until);
  }

  add(bytes: number): void {
    const now = this.#options.now();
    const slot = now - (now % SLOT_MS);
    this.#unsaved.set(slot, (this.#unsaved.get(slot) ?? 0) + bytes);
    this.#unsavedBytes += bytes;
    const age = now - this.#savedAt;
    if (this.#unsavedBytes >= SAVE_BYTES || age >= SAVE_MS || age < 0) this.save();
  }

  /** Stores the counts, and the speed of a sync run that fetched enough to measure it. */
  endRun({ messages, bytes }: FetchedInRun, ms: number): void {
    const isMeasured = messages >= MEASURED_MESSAGES && ms >= MEASURED_MS;
    const perSecond = (amount: number) => Math.round((amount / ms) * 1_000 * 10) / 10;
    const speed = { messages: perSecond(messages), bytes: Math.round(perSecond(bytes)) };
    this.save(isMeasured ? { speed } : {});
  }

  /**
   * Adds to an error of the day's limit when all mail will be fetched, and stores that for `status`.
   *
   * @param run what the sync run fetched before the error
   * @param remaining messages to fetch
   */
  withCompletion(error: MailkeepError, run: FetchedInRun, remaining: number): MailkeepError {
    const limit = this.#limit;
    const { until } = this.#stored;
    if (limit === null || until === null || run.messages === 0 || remaining <= 0) return error;
    const days = ((run.bytes / run.messages) * remaining) / limit;
    this.save({ completeAt: until + Math.ceil(days * DAY_MS) });
    return this.#error(limit, until, error);
  }

  #error(limit: number, until: number, cause?: unknown): MailkeepError {
    const { host, account } = this.#options;
    const { completeAt } = this.#stored;
    const facts = {
      ...{ host, account, limit },
      until: new Date(until).toISOString(),
      completeAt: completeAt === null ? null : new Date(completeAt).toISOString(),
    };
    return imapError('imap.day-limit', facts, cause);
  }

  /** Stores the counts. Adds them to what other processes have stored. Kept in memory while the state is read-only. */
  save(change: Partial<Omit<StoredTraffic, 'slots' | 'limit'>> = {}): void {
    const { memory, now } = this.#options;
    this.#savedAt = now();
    if (this.#unsavedBytes === 0 && Object.keys(change).length === 0) return;
    const merge = () => {
      const stored = memory?.get('imap-traffic', this.#key) ?? this.#stored;
      // Slots of the future count again when the clock has been put right.
      const slots = withAdded(stored.slots, this.#unsaved)
        .filter(({ at }) => now() < at + SLOT_MS + DAY_MS)
        .slice(0, MAX_SLOTS);
      this.#stored = { ...stored, limit: this.#limit, ...change, slots };
      memory?.set('imap-traffic', this.#key, this.#stored);
    };
    try {
      if (memory === undefined) merge();
      else memory.together(merge);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return;
    }
    this.#unsaved.clear();
    this.#unsavedBytes = 0;
  }

  #slots(): Slots {
    return withAdded(this.#stored.slots, this.#unsaved);
  }
}

/** What `status` shows of an account. Times are in ISO 8601 UTC. */
export function trafficStatus({ limit, until, completeAt, slots }: StoredTraffic, now: number) {
  const isHeld = isAhead(until, now);
  return {
    limit,
    /** In the last 24 hours. */
    bytes: bytesOfDay(slots, now),
    /** When the sync continues; null unless the limit is reached. */
    heldUntil: isHeld ? new Date(until).toISOString() : null,
    /** When the first sync is expected to be complete; null unless the limit stopped it. */
    completeAt: isHeld && completeAt !== null ? new Date(completeAt).toISOString() : null,
  };
}

function bytesOfDay(slots: Slots, now: number): number {
  return slotsOfDay(slots, now).reduce((sum, { bytes }) => sum + bytes, 0);
}

/**
 * Returns the slots that reach into the last 24 hours. If the clock was set back by less than a day, slots of the future
 * count as of now, because the bytes may have been exchanged just before. Ignores slots further ahead.
 */
function slotsOfDay(slots: Slots, now: number): Slots {
  return slots
    .filter(({ at }) => at <= now + DAY_MS && now < at + SLOT_MS + DAY_MS)
    .map(({ at, bytes }) => ({ at: Math.min(at, now), bytes }));
}

/** Reports whether a hold is in effect. One that is too far ahead is from before the clock was set back. */
function isAhead(until: number | null, now: number): until is number {
  return until !== null && now < until && until - now <= DAY_MS + SLOT_MS;
}

/** Returns when enough of the limit is free again. */
function resumesAt(slots: Slots, limit: number, now: number): number {
  const today = slotsOfDay(slots, now);
  let used = bytesOfDay(today, now);
  for (const { at, bytes } of today) {
    used -= bytes;
    if (used <= limit * (1 - FREE_SHARE)) return at + SLOT_MS + DAY_MS;
  }
  return now + DAY_MS;
}

/** Returns the slots in order of time. */
function withAdded(slots: Slots, added: ReadonlyMap<number, number>): Slots {
  const all = new Map(slots.map(({ at, bytes }) => [at, bytes]));
  for (const [at, bytes] of added) all.set(at, (all.get(at) ?? 0) + bytes);
  return [...all].map(([at, bytes]) => ({ at, bytes })).sort((a, b) => a.at - b.at);
}
