import type { StateFile } from '../core/state.ts';
import {
  type CopyChecked,
  type CopyDamage,
  type CopyFailed,
  type CopyPlanned,
  type KnownCopy,
  NOTHING_KNOWN,
} from '../core/state-runs.ts';

const SCOPE = 'copy-target';

/** A copy that lacks commits is stale once so many of its intervals have passed without one that lacked nothing. */
const STALE_INTERVALS = 3;

type Memory = Pick<StateFile, 'get' | 'set' | 'together'>;

/** A copy of the archive, as monitoring sees it. Times are milliseconds since the epoch. */
export interface CopyFacts extends KnownCopy {
  /** `s3://BUCKET/PREFIX`, or the folder. */
  readonly to: string;
  /** Commits of the archive that it lacks; null before the first copy. */
  readonly behind: number | null;
}

/** Returns the copies that are known, in the order of their names. */
export function recalledCopies(
  state: Pick<StateFile, 'entries'> | undefined,
  /** The last commit of the archive. */
  reached: number,
): CopyFacts[] {
  return (state?.entries(SCOPE) ?? []).map(({ key, value }) => ({
    ...value,
    to: key,
    behind: value.made === null ? null : Math.max(0, reached - value.made.commit),
  }));
}

export function recalledCopy(state: Pick<StateFile, 'get'>, to: string): KnownCopy {
  return state.get(SCOPE, to) ?? NOTHING_KNOWN;
}

/** Whether the daemon should have brought a copy up to date long ago. */
export function isStale({ plan, made, behind }: CopyFacts, now: number): boolean {
  if (plan === null || behind === 0) return false;
  const last = Math.max(made?.at ?? plan.since, plan.currentAt);
  return now - last > STALE_INTERVALS * plan.everyMs;
}

export function rememberCopied(state: Memory, to: string, made: KnownCopy['made']): void {
  change(state, to, (known) => ({ ...known, made, failed: null }));
}

/** Remembers that a copy could not be brought up to date; its failures in a row are counted. */
export function rememberCopyFailure(
  state: Memory,
  to: string,
  { at, code, text }: Pick<CopyFailed, 'at' | 'code' | 'text'>,
): void {
  change(state, to, (known) => {
    const { since = at, tries = 0 } = known.failed ?? {};
    return { ...known, failed: { since: Math.min(since, at), at, tries: tries + 1, code, text } };
  });
}

/** What was found at a copy: an object by its name, or a file of a readable copy. */
export interface FoundInCopy {
  readonly name: string;
  /** One sentence for people. */
  readonly message: string;
}

/** So many damaged objects are uploaded again one by one; a copy that has more is refreshed. */
const MOST_NAMES = 10_000;
/** Objects that open, describe and lead to a copy. */
const SMALL = /^(?:mailkeep-copy$|keys\/|signers\/|settings\/|manifests\/)/;

/**
 * Remembers that a copy was read back. Damaged data stays known until everything was read and found intact, or was
 * replaced: a sample that happens to read other segments says nothing about it. The small objects are always compared.
 */
export function rememberCopyChecked(
  state: Memory,
  to: string,
  { at, checked, of, unit }: Omit<CopyChecked, 'fullAt' | 'found'>,
  findings: readonly FoundInCopy[],
): void {
  const data = findings.filter(({ name }) => !SMALL.test(name));
  const small = findings.filter(({ name }) => SMALL.test(name));
  const found = findings.length;
  change(state, to, (known) => {
    const isFull = checked >= of;
    const fullAt = isFull ? at : (known.checked?.fullAt ?? null);
    const names = data.map(({ name }) => name).slice(0, MOST_NAMES);
    const damage = damageOf(data, known.damage, at, { names }) ?? (isFull ? null : known.damage);
    const unkept = damageOf(small, known.unkept, at, {});
    return { ...known, checked: { at, checked, of, unit, found, fullAt }, damage, unkept };
  });
}

/**
 * Remembers what a copy found at its target. Damage that this run repaired is shown until the next look, unless it was
 * shown before.
 *
 * @param replaced objects that were known to be damaged, and that the copy no longer needs
 */
export function rememberMended(
  state: Memory,
  to: string,
  at: number,
  findings: readonly (FoundInCopy & { readonly repaired: boolean })[],
  replaced: readonly string[],
): void {
  change(state, to, (known) => {
    const isShown = (known.unkept ?? null) !== null && findings.every(({ repaired }) => repaired);
    const gone = new Set(replaced);
    const left = (known.damage?.names ?? []).filter((name) => !gone.has(name));
    const damage = gone.size > 0 && left.length === 0 ? null : known.damage;
    const unkept = isShown ? null : damageOf(findings, known.unkept, at, {});
    return { ...known, damage, unkept };
  });
}

/** Returns the objects of a copy that were found damaged, and not replaced since. */
export function damagedObjects(state: Pick<StateFile, 'get'>, to: string): ReadonlySet<string> {
  return new Set(recalledCopy(state, to).damage?.names);
}

function damageOf<M extends object>(
  findings: readonly FoundInCopy[],
  before: { readonly since: number } | null | undefined,
  at: number,
  more: M,
): (M & { readonly since: number; readonly found: number; readonly text: string }) | null {
  const [first] = findings;
  if (first === undefined) return null;
  return { ...more, since: before?.since ?? at, found: findings.length, text: first.message };
}

/**
 * Remembers what the daemon's configuration wants, and returns the copies that it has no longer: these are kept as they
 * were left.
 *
 * @param plans the longest time between two copies, in milliseconds, by address
 */
export function rememberPlans(
  state: Memory & Pick<StateFile, 'entries'>,
  plans: ReadonlyMap<string, number>,
  now: number,
): string[] {
  return state.together(() => {
    const dropped: string[] = [];
    for (const { key: to, value } of state.entries(SCOPE)) {
      if (value.plan === null || plans.has(to)) continue;
      dropped.push(to);
      const left = { ...value, plan: null, failed: null };
      state.set(SCOPE, to, left.made === null ? null : left);
    }
    for (const [to, everyMs] of plans) {
      const known = recalledCopy(state, to);
      const { since = now, currentAt = 0 }: Partial<CopyPlanned> = known.plan ?? {};
      state.set(SCOPE, to, { ...known, plan: { everyMs, since, currentAt } });
    }
    return dropped;
  });
}

/** Forgets a copy that was given up, unless the daemon keeps it up to date. */
export function forgetCopy(state: Memory, to: string): 'forgotten' | 'planned' | 'unknown' {
  return state.together(() => {
    const known = state.get(SCOPE, to);
    if (known === undefined) return 'unknown';
    if (known.plan !== null) return 'planned';
    state.set(SCOPE, to, null);
    return 'forgotten';
  });
}

/** Remembers that the time of a copy had come, and that it lacked nothing. */
export function rememberCurrent(state: Memory, to: string, now: number): void {
  change(state, to, (known) =>
    known.plan === null ? known : { ...known, plan: { ...known.plan, currentAt: now } },
  );
}

function change(state: Memory, to: string, after: (known: KnownCopy) => KnownCopy): void {
  state.together(() => state.set(SCOPE, to, after(recalledCopy(state, to))));
}

export type CopyStatus = ReturnType<typeof copyStatus>;

/** Returns what is shown of the copies that are known, in the order of their names. */
export function copyStatuses(
  state: Pick<StateFile, 'entries'> | undefined,
  reached: number,
  now: number,
) {
  return recalledCopies(state, reached).map((copy) => copyStatus(copy, now));
}

/** Returns a copy as `status --json` and the health endpoint show it. Times are ISO 8601. */
export function copyStatus(copy: CopyFacts, now: number) {
  const { to, made, plan, failed, checked, behind } = copy;
  const damage = copyDamage(copy);
  return {
    to,
    /** Null where only `copy init` has begun it, or nothing. */
    encrypted: made?.encrypted ?? null,
    /** When it was last brought up to date, and the commit that it reached; null before the first copy. */
    copiedAt: isoOf(made?.at),
    commit: made?.commit ?? null,
    behind,
    /** The longest time between two copies of the daemon; null where its configuration has no such copy. */
    everySeconds: plan === null ? null : plan.everyMs / 1_000,
    stale: isStale(copy, now),
    /** Why it could not be brought up to date since; null where it was. */
    failure:
      failed === null
        ? null
        : {
            since: new Date(failed.since).toISOString(),
            at: new Date(failed.at).toISOString(),
            tries: failed.tries,
            code: failed.code,
            message: failed.text,
          },
    /** The last time that some of it was read back; null while it never was. */
    verified:
      checked === null
        ? null
        : { ...checked, at: new Date(checked.at).toISOString(), fullAt: isoOf(checked.fullAt) },
    /** What was found damaged, until all of it is found intact. */
    damage:
      damage === null
        ? null
        : {
            since: new Date(damage.since).toISOString(),
            findings: damage.found,
            message: damage.text,
          },
  };
}

/** Returns all that is known to be damaged of a copy; one of the findings is described. */
export function copyDamage({ damage, unkept = null }: KnownCopy): Omit<CopyDamage, 'names'> | null {
  if (damage === null || unkept === null) return damage ?? unkept;
  const since = Math.min(damage.since, unkept.since);
  return { ...unkept, since, found: damage.found + unkept.found };
}

function isoOf(ms: number | null | undefined): string | null {
  return ms === null || ms === undefined ? null : new Date(ms).toISOString();
}
