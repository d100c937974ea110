import path from 'node:path';
import { z } from 'zod';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { labelOf, type ParsedTarget, parseTarget } from '../objects/s3-target.ts';
import { parseRate } from './byte-rate.ts';
import { parseDuration } from './duration.ts';
import { checked, cronField, isCron, offUnlessSet, section, wholeNumber } from './field-kinds.ts';

/** Less would copy without a break. */
const SHORTEST_MS = 60_000;
/** States of a copy that are kept at the most. */
const MOST_KEPT = 10_000;
const MOST_LOCK_DAYS = 36_500;
const MOST_SAMPLED = 1_000_000;

const INTERVAL = 'a duration of at least 1m, such as 15m, 6h or 7d';

function isInterval(text: string): boolean {
  return (parseDuration(text) ?? 0) >= SHORTEST_MS;
}

function isShare(text: string): boolean {
  const match = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text);
  return match !== null && Number(match[1]) > 0 && Number(match[1]) <= 100;
}

const sample = z
  .union([z.int().min(1).max(MOST_SAMPLED), z.string().refine(isShare)])
  .nullable()
  .meta({
    description:
      'How much is read back after each copy: a number of segments, or a share such as 1%; null reads nothing',
    expected: 'a whole number from 1 to 1000000, a share such as "1%", or null',
  });

const full = checked(
  'When everything is read back: an interval such as 30d, or a cron expression; null never does',
  `${INTERVAL}, a cron expression, or null`,
  (text) => isInterval(text) || isCron(text),
)
  .nullable()
  .meta({ expected: `${INTERVAL}, a cron expression, or null` });

/** The copies that the daemon keeps. */
export const copiesSchema = z
  .array(
    section({
      to: checked(
        'Where the copy is: s3://BUCKET/PREFIX, or a folder, relative to this file',
        '"s3://BUCKET/PREFIX", or the path of a folder',
        (text) => readTarget(text) !== undefined,
      ),
      every: checked(
        'Copy when this long has passed since the last copy and something is new',
        INTERVAL,
        isInterval,
      ).optional(),
      schedule: cronField('Copy at these times instead, in schedule.timezone').optional(),
      encrypt: offUnlessSet('Make no readable copy: fail where a folder has no encrypted one'),
      keep: wholeNumber(
        1,
        MOST_KEPT,
        'Of an encrypted copy: how many of its states to keep; all of the last day stay',
      ).default(1),
      lockDays: wholeNumber(
        1,
        MOST_LOCK_DAYS,
        'In S3: for how many days nobody can delete what is copied; null for no lock',
      )
        .nullable()
        .default(null)
        .meta({ expected: `a whole number from 1 to ${MOST_LOCK_DAYS}, or null` }),
      limitRate: checked(
        'Of an encrypted copy: most bytes a second, such as 500k or 2M; null for no limit',
        'a number of bytes a second such as "500k" or "2M", or null',
        (text) => parseRate(text) !== undefined,
      )
        .nullable()
        .default(null)
        .meta({ expected: 'a number of bytes a second such as "500k" or "2M", or null' }),
      verify: section({ sample: sample.default(null), full: full.default(null) }).prefault({}),
    }),
  )
  .default([])
  .meta({
    description: 'Copies that the daemon keeps up to date; none by default',
    expected:
      'a list of objects with to, every or schedule, encrypt, keep, lockDays, limitRate and verify',
  });

/** When something is due: so many milliseconds after the last time, or by a cron expression. */
export type Rhythm = { readonly everyMs: number } | { readonly cron: string };

/** A copy that the daemon keeps up to date. */
export interface CopySettings {
  /** `s3://BUCKET/PREFIX`, or the absolute path of a folder: as the command line calls the copy. */
  readonly to: string;
  readonly rhythm: Rhythm;
  /** No readable copy may be made. */
  readonly encrypt: boolean;
  readonly keep: number;
  /** For how many days objects are locked; null where they are not. */
  readonly lockDays: number | null;
  /** As the command line takes it; null for no limit. */
  readonly limitRate: string | null;
  /** As `verify --sample` takes it; null reads nothing. */
  readonly sample: string | null;
  /** When everything is read back; null for never. */
  readonly full: Rhythm | null;
}

/** Returns the copies of a validated file; relative folders are those of `folder`. */
export function copySettings(
  copies: z.output<typeof copiesSchema>,
  folder: string,
): CopySettings[] {
  return copies.map(({ to, every, schedule, encrypt, keep, lockDays, limitRate, verify }) => ({
    to: nameOfTarget(to, folder) ?? to,
    rhythm: rhythmOf(schedule ?? every ?? ''),
    encrypt,
    keep,
    lockDays,
    limitRate,
    sample: verify.sample === null ? null : String(verify.sample),
    full: verify.full === null ? null : rhythmOf(verify.full),
  }));
}

/** Returns what a target is called, however it was typed; undefined for a text that is none. */
export function nameOfTarget(text: string, folder: string): string | undefined {
  const target = readTarget(text);
  if (target === undefined) return undefined;
  return target.kind === 's3' ? labelOf(target) : path.resolve(folder, target.path);
}

function readTarget(text: string): ParsedTarget | undefined {
  try {
    return parseTarget(text);
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

function rhythmOf(text: string): Rhythm {
  const everyMs = parseDuration(text);
  return everyMs === undefined ? { cron: text } : { everyMs };
}
