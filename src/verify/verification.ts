import type {
  KnownDamage,
  KnownFinding,
  RememberedDamage,
  RememberedFinding,
  RememberedVerification,
  VerificationFacts,
  VerificationMode,
} from '../core/state.ts';
import { readState, type StateFile } from '../core/state.ts';
import { verifyError } from './errors.ts';

const SCOPE = 'verification';
const KEY = 'last';
const DRILL = 'drill';

/** Findings that are remembered one by one; all of them are counted. */
const MOST_KEPT = 100;

/** Another run may end, and write, just before this one writes what it had come to by its own end: one minute. */
const SET_BACK_MS = 60_000;

/** A finding of a run, with the commit that a checkpoint vouches for, or the segment, where that is what is damaged. */
export type FoundFinding = KnownFinding & Partial<Pick<RememberedFinding, 'commit' | 'segment'>>;

/** What a run learned about damage. */
interface DamageOutcome {
  /** When the run began and ended: milliseconds since the epoch. */
  readonly at: number;
  readonly endedAt: number;
  /** All findings; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly FoundFinding[];
  /**
   * Whether an earlier finding is about something that was read again. Only then can it be cleared, and only if it was
   * found before the run began.
   */
  readonly covers: (finding: RememberedFinding) => boolean;
}

/** What a verification read and found. */
export interface VerificationOutcome extends DamageOutcome {
  readonly mode: VerificationMode;
  /** Messages whose bytes were read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
}

type Memory = Pick<StateFile, 'get' | 'set' | 'together'>;

/**
 * Remembers a verification. Damage that was found before stays known unless this one covered it: a sample or a quick
 * run that happens to read other bytes says nothing about them. Of verifications that ran at the same time, the one
 * that began last is shown.
 */
export function rememberVerification(state: Memory, outcome: VerificationOutcome): void {
  state.together(() => {
    const before = stored(state);
    const { at, endedAt, mode, checked, of } = outcome;
    const complete = mode === 'full' || mode === 'repair';
    const fullAt = before?.fullAt ?? null;
    const shown =
      before === undefined || isReplaced(before.at, outcome) ? { at, mode, checked, of } : before;
    const full =
      !complete || (fullAt !== null && !isReplaced(fullAt, { at, endedAt })) ? fullAt : at;
    write(state, { ...shown, fullAt: full }, damageAfter(before?.damage ?? null, outcome));
  });
}

/**
 * Remembers what something other than a verification learned about damage, such as a rebuild of the catalog. The time
 * and the coverage of the last verification stay as they were.
 *
 * @param mode how this is shown where nothing was verified before
 */
export function rememberDamage(
  state: Memory,
  outcome: DamageOutcome,
  mode: VerificationMode,
): void {
  state.together(() => {
    const before = stored(state);
    const damage = damageAfter(before?.damage ?? null, outcome);
    if (before === undefined && damage === null) return;
    const last = before ?? { at: outcome.at, mode, checked: 0, of: 0, fullAt: null };
    write(state, last, damage);
  });
}

/** Remembers a drill, and the damage that it met. It reads back a few messages and replaces no verification. */
export function rememberDrill(
  state: Memory,
  { checked, of, ...outcome }: Omit<VerificationOutcome, 'mode' | 'covers'>,
): void {
  state.together(() => {
    const before = stored(state);
    const { at } = outcome;
    const replaces = before === undefined || before.mode === 'drill' || before.mode === 'rebuild';
    const last = replaces
      ? { at, mode: 'drill' as const, checked, of, fullAt: before?.fullAt ?? null }
      : before;
    // An export reads back what it wrote: it proves less than a verification.
    const covers = (): boolean => false;
    write(state, last, damageAfter(before?.damage ?? null, { ...outcome, covers }));
    state.set(SCOPE, DRILL, { at, checked, of });
  });
}

/** Returns the last verification, or null where none is remembered. */
export function recalledVerification(
  state: Pick<StateFile, 'get'> | undefined,
): VerificationFacts | null {
  const last = state === undefined ? undefined : stored(state);
  if (last === undefined) return null;
  const { at, mode, checked, of, fullAt, ok, damage } = last;
  const drill = state?.get(SCOPE, DRILL) ?? null;
  const shown = { at, mode, checked, of, fullAt, ok, drill };
  if (damage === null) return { ...shown, damage: null };
  const { since, found } = damage;
  const findings = damage.findings.map(({ what, id, text }) => ({ what, id, text }));
  return { ...shown, damage: { since, found, findings } };
}

/** Returns what is known to be damaged of the log: segments, and messages in them. */
export function knownDamageOfLog(state: Pick<StateFile, 'get'> | undefined): {
  readonly segments: readonly number[];
  readonly messages: readonly string[];
} {
  const findings = (state === undefined ? undefined : stored(state))?.damage?.findings ?? [];
  return {
    segments: findings.flatMap(({ segment }) => segment ?? []),
    messages: findings.flatMap(({ what, id }) => (what === 'message' && id !== null ? [id] : [])),
  };
}

function stored(state: Pick<StateFile, 'get'>): RememberedVerification | undefined {
  const last = state.get(SCOPE, KEY);
  return last !== undefined && 'ok' in last ? last : undefined;
}

function write(
  state: Memory,
  { at, mode, checked, of, fullAt }: Omit<RememberedVerification, 'ok' | 'damage'>,
  damage: RememberedDamage | null,
): void {
  state.set(SCOPE, KEY, { at, mode, checked, of, fullAt, ok: damage === null, damage });
}

/** Whether a time is not after a run's beginning. One long after its end is from before the clock was set back. */
function isReplaced(
  before: number,
  { at, endedAt }: Pick<DamageOutcome, 'at' | 'endedAt'>,
): boolean {
  return before <= at || before > endedAt + SET_BACK_MS;
}

function damageAfter(
  before: RememberedDamage | null,
  outcome: DamageOutcome,
): RememberedDamage | null {
  const { at, endedAt, found, findings, covers } = outcome;
  const isCleared = (finding: RememberedFinding): boolean =>
    isReplaced(finding.at, outcome) && covers(finding);
  const kept = (before?.findings ?? []).filter((finding) => !isCleared(finding));
  const countedAt = before?.countedAt ?? at;
  const counted = new Map(
    Object.entries(before?.counted ?? {}).filter(
      // Findings of which only the number is remembered are cleared by what covers all of their kind.
      ([what]) =>
        !isCleared({ what, id: null, text: '', at: countedAt, commit: null, segment: null }),
    ),
  );
  const added = newAmong(findings, kept);
  const news = countByKind(added);
  // Those that a run only counts are of the kind that it came to last.
  raise(news, findings.at(-1)?.what ?? 'log', found - findings.length);
  const keys = new Set(findings.map(keyOf));
  const all = [
    ...kept.map((finding) => (keys.has(keyOf(finding)) ? { ...finding, at: endedAt } : finding)),
    ...added.map(({ commit = null, segment = null, ...finding }) => ({
      ...{ what: finding.what, id: finding.id, text: finding.text },
      ...{ commit, segment, at: endedAt },
    })),
  ];
  // Differences of the catalog may follow from what else is damaged, and are many: they go first.
  const remembered = [
    ...all.filter(({ what }) => what !== 'catalog'),
    ...all.filter(({ what }) => what === 'catalog'),
  ].slice(0, MOST_KEPT);
  const totals = countByKind(kept);
  for (const what of new Set([...counted.keys(), ...news.keys()])) {
    // Those that were only counted may be the same again: adding them up would count them with every run.
    raise(totals, what, Math.max(counted.get(what) ?? 0, news.get(what) ?? 0));
  }
  const total = [...totals.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  for (const { what } of remembered) raise(totals, what, -1);
  return {
    since: before?.since ?? at,
    found: total,
    findings: remembered,
    counted: Object.fromEntries([...totals].filter(([, count]) => count > 0)),
    countedAt: added.length > 0 || found > findings.length ? endedAt : countedAt,
  };
}

function countByKind(findings: readonly KnownFinding[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { what } of findings) raise(counts, what, 1);
  return counts;
}

function raise(counts: Map<string, number>, what: string, by: number): void {
  counts.set(what, (counts.get(what) ?? 0) + by);
}

/**
 * Returns the findings that are not among those known. Several may look alike, since what names them is not remembered:
 * as many of them as are known are the same.
 */
function newAmong(
  findings: readonly FoundFinding[],
  known: readonly KnownFinding[],
): FoundFinding[] {
  const unmatched = new Map<string, number>();
  for (const finding of known) raise(unmatched, keyOf(finding), 1);
  return findings.filter((finding) => {
    const key = keyOf(finding);
    const left = unmatched.get(key) ?? 0;
    if (left > 0) unmatched.set(key, left - 1);
    return left === 0;
  });
}

/** What makes two findings the same. Commands describe one damaged message in different words. */
function keyOf({ what, id, text }: KnownFinding): string {
  return `${what} ${id ?? text}`;
}

export type VerificationStatus = NonNullable<ReturnType<typeof verificationStatus>>;

/** Returns the last verification as `status --json` shows it; `at` is when it began. Times in ISO 8601. */
export function verificationStatus(last: VerificationFacts | null) {
  if (last === null) return null;
  const { at, mode, checked, of, fullAt, ok, damage, drill } = last;
  return {
    at: new Date(at).toISOString(),
    ...{ mode, checked, of },
    /** When every byte was last read; null while it never was. */
    fullAt: fullAt === null ? null : new Date(fullAt).toISOString(),
    ok,
    /** When the first of the known damage was found; null where none is known. */
    damagedSince: damage === null ? null : new Date(damage.since).toISOString(),
    /** All that is known; `findings` holds the first ones. */
    found: damage?.found ?? 0,
    findings: damage?.findings ?? [],
    /** The last drill: when it began, and how many messages of how many it read back; null for none. */
    drill: drill === null ? null : { ...drill, at: new Date(drill.at).toISOString() },
  };
}

/** Reads what is known of an archive's damage; null where none is, or where nothing can be read. */
export function readDamage(dataDir: string): KnownDamage | null {
  const state = readState(dataDir);
  try {
    return recalledVerification(state)?.damage ?? null;
  } finally {
    state?.close();
  }
}

/** The error of an archive whose damage is known. */
export function damageError({ found, findings }: KnownDamage) {
  return verifyError('archive-damaged', { found, findings: findings.map(({ text }) => text) });
}
