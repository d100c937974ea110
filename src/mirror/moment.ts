import { z } from 'zod';
import { invalid } from '../mailbox-surface/refusal.ts';
import type { Moment } from './mirror-view.ts';

const DAY = z.iso.date();
/** Seconds may be left out. */
const INSTANT = z.union([
  z.iso.datetime({ offset: true }),
  z.iso.datetime({ offset: true, precision: -1 }),
]);
const DAY_MS = 86_400_000;

/**
 * Reads `asOf`, an extension of the mirror: a day in UTC, which stands for its end, or a time with its zone (RFC 3339).
 *
 * @throws Refusal 422, also for days that do not exist
 */
export function momentOf(
  raw: string | null,
  commitAt: (time: number) => number | undefined,
): Moment {
  if (raw === null) return null;
  const isDay = DAY.safeParse(raw).success;
  if (!isDay && !INSTANT.safeParse(raw).success)
    throw invalid({ asOf: ['must be a day (2026-03-14) or a time with its zone (RFC 3339)'] });
  const time = Date.parse(raw);
  return commitAt(isDay ? time + DAY_MS - 1 : time) ?? 0;
}
