import type { ObjectStore } from '../objects/store.ts';
import { severalAtOnce } from './at-once.ts';
import type { CopyMemory } from './memory.ts';

export interface MaybeLocking {
  readonly store: ObjectStore;
  readonly memory: Pick<CopyMemory, 'lockedUntil' | 'noteLock' | 'forgetLocks'>;
  /** For how long objects are locked; undefined where they are not. */
  readonly lockDays?: number | undefined;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export interface Locking extends MaybeLocking {
  readonly lockDays: number;
}

/** What was locked. */
export interface Locks {
  /** Objects whose lock was extended, or that had none. */
  readonly extended: number;
  /** When the first of the locks ends, milliseconds since the epoch. */
  readonly until: number;
}

const DAY_MS = 24 * 3_600_000;
/** Each takes a few small requests. */
const AT_ONCE = 4;

/** Returns until when an object is locked that is stored now, milliseconds since the epoch. */
export function lockEnd({ lockDays, now }: Pick<Locking, 'lockDays' | 'now'>): number {
  return now() + lockDays * DAY_MS;
}

/** Stores an object, locked if that was asked for. @throws what `ObjectStore.put` throws */
export async function putLocked(
  { store, lockDays, memory, signal, now }: MaybeLocking,
  name: string,
  length: number,
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (lockDays === undefined) return await store.put(name, length, bytes, { signal });
  const lockUntil = lockEnd({ lockDays, now });
  await store.put(name, length, bytes, { signal, lockUntil });
  memory.noteLock(name, lockUntil);
}

/**
 * Locks objects for long enough: those again of whose lock less than half is left. Until then, no request is made for
 * them.
 *
 * @throws what `ObjectStore.lock` throws
 */
export async function keepLocked(locking: Locking, names: readonly string[]): Promise<Locks> {
  const { store, memory, signal, now } = locking;
  const due = names.filter((name) => isLockDue(locking, name));
  await severalAtOnce(due, AT_ONCE, async (name) => {
    signal.throwIfAborted();
    const until = lockEnd(locking);
    await store.lock(name, until, signal);
    memory.noteLock(name, until);
  });
  memory.forgetLocks(now());
  const until = Math.min(...names.map((name) => memory.lockedUntil(name) ?? 0));
  return { extended: due.length, until };
}

/** Whether less than half of the time is left of an object's lock, or none is known. */
export function isLockDue(
  { memory, lockDays, now }: Pick<Locking, 'memory' | 'lockDays' | 'now'>,
  name: string,
): boolean {
  const until = memory.lockedUntil(name);
  return until === undefined || until < now() + (lockDays * DAY_MS) / 2;
}
