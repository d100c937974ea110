import type { HostPause } from './host-pause.ts';
import { FRESH_PACE, type PaceState, type Tally } from './pace.ts';

/** Reads back what a limiter remembered, or null where it is not that: the memory is convenience, not truth. */
export function readPaceState(value: unknown): PaceState | null {
  if (typeof value !== 'object' || value === null) return null;
  const from = new Map<string, unknown>(Object.entries(value));
  const learned = numberOrNull(from.get('learned'));
  const announced = numberOrNull(from.get('announced'));
  const minute = readTally(from.get('minute'));
  const second = readTally(from.get('second'));
  const plain = ['gain', 'learnedAt', 'due', 'credit', 'holdUntil', 'refusals', 'refusedAt'].map(
    (name) => from.get(name),
  );
  if (learned === undefined || announced === undefined || minute === null || second === null) {
    return null;
  }
  if (!plain.every(isAmount) || (learned ?? 1) <= 0 || (announced ?? 1) <= 0) return null;
  const [gain = 0, learnedAt = 0, due = 0, credit = 0, holdUntil = 0, refusals = 0, refusedAt = 0] =
    plain;
  return {
    ...FRESH_PACE,
    learned,
    announced,
    gain,
    learnedAt,
    due,
    credit,
    holdUntil,
    refusals,
    refusedAt,
    minute,
    second,
  };
}

export function readHostPause(value: unknown): HostPause | null {
  if (typeof value !== 'object' || value === null) return null;
  const from = new Map<string, unknown>(Object.entries(value));
  const until = from.get('until');
  const pauses = from.get('pauses');
  return isAmount(until) && isAmount(pauses) ? { until, pauses } : null;
}

function readTally(value: unknown): Tally | null {
  if (typeof value !== 'object' || value === null) return null;
  const from = new Map<string, unknown>(Object.entries(value));
  const [since, count, before] = [from.get('since'), from.get('count'), from.get('before')];
  return isAmount(since) && isAmount(count) && isAmount(before) ? { since, count, before } : null;
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function numberOrNull(value: unknown): number | null | undefined {
  if (value === null) return null;
  return isAmount(value) ? value : undefined;
}
