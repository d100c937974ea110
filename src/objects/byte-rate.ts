import type { Clock } from '../limiter/clock.ts';
import { sleep } from './sleep.ts';

/** Keeps what goes over the network below a number of bytes a second. Everybody who shares the line shares one of these. */
export class ByteRate {
  /** When the bytes that were let through so far have had their time, in milliseconds since 1970. */
  #busyUntil = 0;

  /** @param bytesPerSecond undefined for no limit */
  constructor(
    private readonly bytesPerSecond: number | undefined,
    private readonly clock: Clock,
  ) {}

  /** How many bytes should be let through at a time: a tenth of a second of them. */
  get piece(): number {
    if (this.bytesPerSecond === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.min(64 * 1024, Math.floor(this.bytesPerSecond / 10)));
  }

  /** Returns how long bytes need at least, in milliseconds. */
  msFor(bytes: number): number {
    return this.bytesPerSecond === undefined ? 0 : (bytes / this.bytesPerSecond) * 1000;
  }

  /** Waits until bytes may pass. @throws the signal's reason */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.bytesPerSecond === undefined || bytes === 0) return;
    const now = this.clock.now();
    // A clock that was set back must not stop everything.
    const starts = Math.max(now, Math.min(this.#busyUntil, now + this.msFor(64 * 1024 * 1024)));
    this.#busyUntil = starts + this.msFor(bytes);
    if (starts > now) await sleep(this.clock, starts - now, signal);
  }
}
