import { z } from 'zod';
import { ERROR_FAMILIES, type ErrorFamily } from '../errors/mailkeep-error.ts';
import {
  type Failure,
  isWarning,
  type Observation,
  SUBJECT_KINDS,
  type Subject,
  subjectKey,
} from './observation.ts';

/** What is stored about a subject that does not work, or did not until lately. Times in milliseconds since the epoch. */
export interface Trouble {
  readonly subject: Subject;
  readonly failure: Failure;
  readonly since: number;
  /** When it was last found not to work. */
  readonly seenAt: number;
  /** Since when it works again; null while it does not. */
  readonly wellSince: number | null;
  /** When the failure was last reported; null before that, and once its recovery was reported. */
  readonly toldAt: number | null;
  /** Family of the failure that was reported; without it, that of `failure`. */
  readonly toldAs?: ErrorFamily | undefined;
  /** Its recovery was reported within the last hour: the next recovery has to last before it is reported. */
  readonly flapping: boolean;
}

/** What was reported to one channel: the troubles by subject, and when sending was last tried. */
export interface Reported {
  readonly troubles: Readonly<Record<string, Trouble>>;
  readonly triedAt: number | null;
}

export const NOTHING_REPORTED: Reported = { troubles: {}, triedAt: null };

/** What to report now, all of it in one notification. */
export interface Notice {
  readonly failing: readonly Trouble[];
  /** Reported before, and still so a day later. */
  readonly still: readonly Trouble[];
  readonly recovered: readonly Trouble[];
}

/** A failure that clears by itself within this time is not worth a notification. */
const PATIENCE_MS = 15 * 60_000;
/** A problem that returned within this time must be gone for as long before its recovery is reported. */
const FLAPPING_MS = 60 * 60_000;
/** Notifications are at least this far apart; what happens in between is reported together. */
const SPACING_MS = 5 * 60_000;
const REMIND_MS = 24 * 60 * 60_000;
/** For subjects that are no longer observed, such as removed mailboxes. */
const FORGET_MS = 30 * REMIND_MS;

/** Failures that waiting does not fix, so somebody has to act; damage is the gravest. */
const GRAVITY: Readonly<Partial<Record<ErrorFamily, number>>> = {
  ...{ auth: 1, config: 1, usage: 1, disk: 1, held: 1 },
  damage: 2,
};

function gravityOf(family: ErrorFamily): number {
  return GRAVITY[family] ?? 0;
}

/** Returns what is stored about a channel after some observations. */
export function observe(
  reported: Reported,
  observations: readonly Observation[],
  now: number,
): Reported {
  const troubles = new Map(Object.entries(reported.troubles));
  for (const { subject, failure } of observations) {
    const key = subjectKey(subject);
    const known = troubles.get(key);
    if (failure !== null) troubles.set(key, failed(known, subject, failure, now));
    else if (known?.wellSince === null) troubles.set(key, { ...known, wellSince: now });
  }
  for (const [key, trouble] of troubles) if (isOver(trouble, now)) troubles.delete(key);
  return { ...reported, troubles: Object.fromEntries(troubles) };
}

function failed(
  known: Trouble | undefined,
  subject: Subject,
  failure: Failure,
  now: number,
): Trouble {
  const begun = { subject, failure, since: now, seenAt: now, wellSince: null, toldAt: null };
  if (known === undefined) return { ...begun, flapping: false };
  if (known.wellSince !== null && known.toldAt === null) {
    return { ...begun, flapping: known.flapping };
  }
  // While the network is lost, a refused token stays refused: reporting it again later would be a repetition.
  const isMilder =
    known.wellSince === null && gravityOf(failure.family) < gravityOf(known.failure.family);
  return {
    ...known,
    // What it is called may have changed.
    subject,
    failure: isMilder ? known.failure : failure,
    // The clock may have been set back.
    since: Math.min(known.since, now),
    seenAt: now,
    wellSince: null,
  };
}

function isOver({ wellSince, toldAt, seenAt }: Trouble, now: number): boolean {
  if (Math.abs(now - seenAt) >= FORGET_MS) return true;
  return wellSince !== null && toldAt === null && Math.abs(now - wellSince) >= FLAPPING_MS;
}

/** Returns what is due to be reported; null for nothing. */
export function due({ troubles, triedAt }: Reported, now: number): Notice | null {
  if (triedAt !== null && Math.abs(now - triedAt) < SPACING_MS) return null;
  const all = Object.values(troubles);
  const failing = all.filter((trouble) => isRipe(trouble, now));
  const still = all.filter(
    ({ subject, wellSince, toldAt, seenAt }) =>
      wellSince === null &&
      toldAt !== null &&
      Math.abs(seenAt - toldAt) >= REMIND_MS &&
      !isWarning(subject),
  );
  const recovered = all.filter(
    ({ wellSince, toldAt, flapping }) =>
      wellSince !== null &&
      toldAt !== null &&
      (!flapping || Math.abs(now - wellSince) >= FLAPPING_MS),
  );
  const none = failing.length + still.length + recovered.length === 0;
  return none ? null : { failing, still, recovered };
}

function isRipe({ since, wellSince, toldAt, toldAs, failure }: Trouble, now: number): boolean {
  const gravity = gravityOf(failure.family);
  if (wellSince !== null) return false;
  // It may have become a failure that somebody must act on.
  if (toldAt !== null) return gravity > gravityOf(toldAs ?? failure.family);
  return gravity > 0 || now - since >= PATIENCE_MS;
}

/** Records that a notice was sent, or, if `sent` is false, that it could not be: it is due again later. */
export function tried(reported: Reported, notice: Notice, sent: boolean, now: number): Reported {
  if (!sent) return { ...reported, triedAt: now };
  const troubles = new Map(Object.entries(reported.troubles));
  // Things may have changed while the notice was under way.
  const mark = ({ subject }: Trouble, told: Partial<Trouble>): void => {
    const key = subjectKey(subject);
    const known = troubles.get(key);
    if (known !== undefined) troubles.set(key, { ...known, ...told });
  };
  for (const trouble of [...notice.failing, ...notice.still]) {
    mark(trouble, { toldAt: now, toldAs: trouble.failure.family });
  }
  for (const trouble of notice.recovered) {
    mark(trouble, { toldAt: null, toldAs: undefined, flapping: true });
  }
  return { troubles: Object.fromEntries(troubles), triedAt: now };
}

/** True while nothing is known not to work; warnings apart. */
export function allWell({ troubles }: Reported): boolean {
  return Object.values(troubles).every(
    ({ subject, wellSince }) => wellSince !== null || isWarning(subject),
  );
}

const family = z.enum(ERROR_FAMILIES);
const reportedSchema = z.object({
  troubles: z.record(
    z.string(),
    z.object({
      subject: z.object({
        kind: z.enum(SUBJECT_KINDS),
        name: z.string(),
        id: z.string().optional(),
      }),
      failure: z.object({ family, code: z.string(), message: z.string() }),
      since: z.number(),
      seenAt: z.number(),
      wellSince: z.number().nullable(),
      toldAt: z.number().nullable(),
      toldAs: family.optional(),
      flapping: z.boolean(),
    }),
  ),
  triedAt: z.number().nullable(),
});

/** Reads back what was reported to a channel; nothing if it has another shape: at worst a report is repeated. */
export function readReported(value: unknown): Reported {
  return reportedSchema.safeParse(value).data ?? NOTHING_REPORTED;
}
