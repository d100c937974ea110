import type { StateFile } from '../core/state.ts';
import { type KnownCopy, UNKNOWN_COPY } from '../core/state-runs.ts';

const SCOPE = 'copy-target';

/** Intervals after which an incomplete copy is stale. */
const STALE_INTERVALS = 3;

type Memory = Pick<StateFile, 'get' | 'set' | 'together'>;

export function recallCopy(state: Pick<StateFile, 'get'>, to: string): KnownCopy {
  return state.get(SCOPE, to) ?? UNKNOWN_COPY;
}

export function recordCopyMade(state: Memory, to: string, made: KnownCopy['made']): void {
  change(state, to, (copy) => ({ ...copy, made, failed: null }));
}

/** Records a failed update of a copy, and counts consecutive failures. */
export function recordCopyFailure(
  state: Memory,
  to: string,
  { at, code, text }: Pick<NonNullable<KnownCopy['failed']>, 'at' | 'code' | 'text'>,
): void {
  change(state, to, (copy) => {
    const { since = at, tries = 0 } = copy.failed ?? {};
    return { ...copy, failed: { since: Math.min(since, at), at, tries: tries + 1, code, text } };
  });
}

/** A finding in a copy: the name of an object, or of a file in a readable copy. */
interface CopyProblem {
  readonly name: string;
  /** One sentence for users. */
  readonly message: string;
}

/** Maximum number of damaged objects to replace individually. A copy with more is refreshed as a whole. */
const MAX_NAMES = 10_000;
/** Objects required to open, describe and locate a copy. */
const SMALL = /^(?:mailkeep-copy$|keys\/|signers\/|settings\/|manifests\/)/;

/**
 * Records a verification of a copy. Known damage is kept until everything has been read and found intact, or replaced,
 * because a sample of other segments proves nothing about it. Small objects are always compared.
 */
export function recordCopyCheck(
  state: Memory,
  to: string,
  { at, checked, of, unit }: Omit<NonNullable<KnownCopy['checked']>, 'fullAt' | 'found'>,
  findings: readonly CopyProblem[],
): void {
  const data = findings.filter(({ name }) => !SMALL.test(name));
  const small = findings.filter(({ name }) => SMALL.test(name));
  const found = findings.length;
  change(state, to, (copy) => {
    const isFull = checked >= of;
    const fullAt = isFull ? at : (copy.checked?.fullAt ?? null);
    const names = data.map(({ name }) => name).slice(0, MAX_NAMES);
    const current = damageOf(data, copy.damage, at);
    const damage = current !== null ? { ...current, names } : isFull ? null : copy.damage;
    const unkept = damageOf(small, copy.unkept, at);
    return { ...copy, checked: { at, checked, of, unit, found, fullAt }, damage, unkept };
  });
}

/**
 * Records damage that a copy run found at its target. Repaired damage is shown until the next check, unless it was
 * already shown.
 *
 * @param replaced damaged objects that the copy no longer needs
 */
export function recordCopyRepair(
  state: Memory,
  to: string,
  at: number,
  findings: readonly (CopyProblem & { readonly repaired: boolean })[],
  replaced: readonly string[],
): void {
  change(state, to, (copy) => {
    const isShown = copy.unkept !== null && findings.every(({ repaired }) => repaired);
    const names = new Set(replaced);
    const remaining = (copy.damage?.names ?? []).filter((name) => !names.has(name));
    const damage = names.size > 0 && remaining.length === 0 ? null : copy.damage;
    const unkept = isShown ? null : damageOf(findings, copy.unkept, at);
    return { ...copy, damage, unkept };
  });
}

/** Returns a copy's damaged objects that have not been replaced yet. */
export function damagedObjects(state: Pick<StateFile, 'get'>, to: string): ReadonlySet<string> {
  return new Set(recallCopy(state, to).damage?.names);
}

function damageOf(
  findings: readonly CopyProblem[],
  previous: KnownCopy['unkept'],
  at: number,
): KnownCopy['unkept'] {
  const [first] = findings;
  if (first === undefined) return null;
  return { since: previous?.since ?? at, found: findings.length, text: first.message };
}

/**
 * Records the copies in the daemon's configuration. Returns removed copies, which keep their last state.
 *
 * @param plans maximum interval between two copies, in milliseconds, by address
 */
export function recordPlans(
  state: Memory & Pick<StateFile, 'entries'>,
  plans: ReadonlyMap<string, number>,
  now: number,
): string[] {
  return state.together(() => {
    const removed: string[] = [];
    for (const { key: to, value } of state.entries(SCOPE)) {
      if (value.plan === null || plans.has(to)) continue;
      removed.push(to);
      const copy = { ...value, plan: null, failed: null };
      state.set(SCOPE, to, copy.made === null ? null : copy);
    }
    for (const [to, everyMs] of plans) {
      const copy = recallCopy(state, to);
      const plan = { since: now, currentAt: 0, ...copy.plan, everyMs };
      state.set(SCOPE, to, { ...copy, plan });
    }
    return removed;
  });
}

/** Forgets an abandoned copy. Refuses if the daemon still updates it. */
export function forgetCopy(state: Memory, to: string): 'forgotten' | 'planned' | 'unknown' {
  return state.together(() => {
    const copy = state.get(SCOPE, to);
    if (copy === undefined) return 'unknown';
    if (copy.plan !== null) return 'planned';
    state.set(SCOPE, to, null);
    return 'forgotten';
  });
}

/** Records that a copy was already complete when it was due. */
export function recordCopyCurrent(state: Memory, to: string, now: number): void {
  change(state, to, (copy) =>
    copy.plan === null ? copy : { ...copy, plan: { ...copy.plan, currentAt: now } },
  );
}

function change(state: Memory, to: string, after: (copy: KnownCopy) => KnownCopy): void {
  state.together(() => state.set(SCOPE, to, after(recallCopy(state, to))));
}

export type CopyStatus = ReturnType<typeof copyStatus>;

/**
 * Returns the status of the known copies, by name.
 * @param reached the archive's last commit
 */
export function copyStatuses(
  state: Pick<StateFile, 'entries'> | undefined,
  reached: number,
  now: number,
) {
  const entries = state?.entries(SCOPE) ?? [];
  return entries.map(({ key, value }) => copyStatus(key, value, reached, now));
}

/** Returns a copy's status for `status --json`. Times are in ISO 8601. */
export function copyStatus(to: string, copy: KnownCopy, reached: number, now: number) {
  const { made, plan, failed, checked } = copy;
  const damage = copyDamage(copy);
  const behind = made === null ? null : Math.max(0, reached - made.commit);
  const currentAt = Math.max(made?.at ?? plan?.since ?? 0, plan?.currentAt ?? 0);
  return {
    /** `s3://BUCKET/PREFIX`, or a directory. */
    to,
    /** Null before the first run, or if only `copy init` has run. */
    encrypted: made?.encrypted ?? null,
    /** Time of the last update, and the commit it reached; null before the first copy. */
    copiedAt: isoOf(made?.at),
    commit: made?.commit ?? null,
    /** Number of missing commits; null before the first copy. */
    behind,
    /** The daemon's maximum interval between two copies; null if not configured. */
    everySeconds: plan === null ? null : plan.everyMs / 1_000,
    /** True if the daemon's updates are long overdue. */
    stale: plan !== null && behind !== 0 && now - currentAt > STALE_INTERVALS * plan.everyMs,
    /** Reason why updates have failed since the last success; null if they have not. */
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
    /** The last verification; null if there was none. */
    verified:
      checked === null
        ? null
        : { ...checked, at: new Date(checked.at).toISOString(), fullAt: isoOf(checked.fullAt) },
    /** Known damage, until a full verification finds the copy intact. */
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

/** Returns all known damage to a copy, with a description of one finding. */
export function copyDamage({ damage, unkept }: KnownCopy): KnownCopy['unkept'] {
  if (damage === null || unkept === null) return damage ?? unkept;
  const since = Math.min(damage.since, unkept.since);
  return { ...unkept, since, found: damage.found + unkept.found };
}

function isoOf(ms: number | null | undefined): string | null {
  return ms === null || ms === undefined ? null : new Date(ms).toISOString();
}
