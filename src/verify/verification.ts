import type {
  KnownDamage,
  KnownFinding,
  StoredDamage,
  StoredFinding,
  StoredVerification,
  VerificationFacts,
  VerificationMode,
} from '../core/state.ts';
import { readState, type StateFile } from '../core/state.ts';

const SCOPE = 'verification';
const KEY = 'last';
const EXPORT_TEST = 'drill';

const MAX_KEPT = 100;

/** Tolerance for another run that finishes and writes its result just before this one. */
const SET_BACK_MS = 60_000;

export type FoundFinding = KnownFinding & Partial<Pick<StoredFinding, 'commit' | 'segment'>>;

interface DamageOutcome {
  readonly at: number;
  readonly endedAt: number;
  readonly found: number;
  readonly findings: readonly FoundFinding[];
  /** Reports whether the run reread the subject of a known finding. Only such findings can be cleared. */
  readonly covers: (finding: StoredFinding) => boolean;
}

export interface VerificationOutcome extends DamageOutcome {
  readonly mode: VerificationMode;
  readonly checked: number;
  readonly of: number;
}

type Memory = Pick<StateFile, 'get' | 'set' | 'together'>;

/**
 * Records a verification. Damage that it did not cover is kept, because a sample or quick run proves nothing about
 * other bytes. If verifications ran concurrently, the last one to start is shown.
 */
export function recordVerification(state: Memory, outcome: VerificationOutcome): void {
  state.together(() => {
    const record = readStored(state);
    const { at, endedAt, mode, checked, of } = outcome;
    const complete = mode === 'full' || mode === 'repair';
    const fullAt = record?.fullAt ?? null;
    const shown =
      record === undefined || isReplaced(record.at, outcome) ? { at, mode, checked, of } : record;
    const full =
      !complete || (fullAt !== null && !isReplaced(fullAt, { at, endedAt })) ? fullAt : at;
    write(state, { ...shown, fullAt: full }, damageAfter(record?.damage ?? null, outcome));
  });
}

/**
 * Records damage found by other work, such as a catalog rebuild, without changing the time and coverage of the last
 * verification.
 *
 * @param mode shown if nothing has been verified before
 */
export function recordDamage(state: Memory, outcome: DamageOutcome, mode: VerificationMode): void {
  state.together(() => {
    const record = readStored(state);
    const damage = damageAfter(record?.damage ?? null, outcome);
    if (record === undefined && damage === null) return;
    const last = record ?? { at: outcome.at, mode, checked: 0, of: 0, fullAt: null };
    write(state, last, damage);
  });
}

/**
 * Records an export test and any damage that it found. It reads few messages, so it does not replace a verification.
 */
export function recordExportTest(
  state: Memory,
  { checked, of, ...outcome }: Omit<VerificationOutcome, 'mode' | 'covers'>,
): void {
  state.together(() => {
    const record = readStored(state);
    const { at } = outcome;
    const replaces = record === undefined || record.mode === 'drill' || record.mode === 'rebuild';
    const last = replaces
      ? { at, mode: 'drill' as const, checked, of, fullAt: record?.fullAt ?? null }
      : record;
    // An export test reads its own output, which proves less than a verification.
    const covers = (): boolean => false;
    write(state, last, damageAfter(record?.damage ?? null, { ...outcome, covers }));
    state.set(SCOPE, EXPORT_TEST, { at, checked, of });
  });
}

export function recallVerification(
  state: Pick<StateFile, 'get'> | undefined,
): VerificationFacts | null {
  const last = state === undefined ? undefined : readStored(state);
  if (last === undefined) return null;
  const { at, mode, checked, of, fullAt, ok, damage } = last;
  const drill = state?.get(SCOPE, EXPORT_TEST) ?? null;
  const shown = { at, mode, checked, of, fullAt, ok, drill };
  if (damage === null) return { ...shown, damage: null };
  const { since, found } = damage;
  const findings = damage.findings.map(({ what, id, text }) => ({ what, id, text }));
  return { ...shown, damage: { since, found, findings } };
}

export function knownDamageOfLog(state: Pick<StateFile, 'get'> | undefined): {
  readonly segments: readonly number[];
  readonly messages: readonly string[];
} {
  const findings = (state === undefined ? undefined : readStored(state))?.damage?.findings ?? [];
  return {
    segments: findings.flatMap(({ segment }) => segment ?? []),
    messages: findings.flatMap(({ what, id }) => (what === 'message' && id !== null ? [id] : [])),
  };
}

function readStored(state: Pick<StateFile, 'get'>): StoredVerification | undefined {
  const last = state.get(SCOPE, KEY);
  return last !== undefined && 'ok' in last ? last : undefined;
}

function write(
  state: Memory,
  { at, mode, checked, of, fullAt }: Omit<StoredVerification, 'ok' | 'damage'>,
  damage: StoredDamage | null,
): void {
  state.set(SCOPE, KEY, { at, mode, checked, of, fullAt, ok: damage === null, damage });
}

/** Reports whether a run replaces a stored time: one before its start, or so late that the clock must have changed. */
function isReplaced(time: number, { at, endedAt }: Pick<DamageOutcome, 'at' | 'endedAt'>): boolean {
  return time <= at || time > endedAt + SET_BACK_MS;
}

function damageAfter(record: StoredDamage | null, outcome: DamageOutcome): StoredDamage | null {
  const { at, endedAt, found, findings, covers } = outcome;
  const isCleared = (finding: StoredFinding): boolean =>
    isReplaced(finding.at, outcome) && covers(finding);
  const uncleared = (record?.findings ?? []).filter((finding) => !isCleared(finding));
  const countedAt = record?.countedAt ?? at;
  const unlisted = new Map(
    Object.entries(record?.counted ?? {}).filter(
      // Findings that were only counted are cleared by a run that covers all findings of their kind.
      ([what]) =>
        !isCleared({ what, id: null, text: '', at: countedAt, commit: null, segment: null }),
    ),
  );
  const added = newAmong(findings, uncleared);
  const news = countByKind(added);
  // Unlisted findings are of the same kind as the last listed one.
  raise(news, findings.at(-1)?.what ?? 'log', found - findings.length);
  const keys = new Set(findings.map(keyOf));
  const all = [
    ...uncleared.map((finding) =>
      keys.has(keyOf(finding)) ? { ...finding, at: endedAt } : finding,
    ),
    ...added.map(({ commit = null, segment = null, ...finding }) => ({
      ...{ what: finding.what, id: finding.id, text: finding.text },
      ...{ commit, segment, at: endedAt },
    })),
  ];
  // Drop catalog differences first, because they may follow from other damage and are numerous.
  const remembered = [
    ...all.filter(({ what }) => what !== 'catalog'),
    ...all.filter(({ what }) => what === 'catalog'),
  ].slice(0, MAX_KEPT);
  const totals = countByKind(uncleared);
  for (const what of new Set([...unlisted.keys(), ...news.keys()])) {
    // Findings that were only counted may be the same, so adding them would recount them on every run.
    raise(totals, what, Math.max(unlisted.get(what) ?? 0, news.get(what) ?? 0));
  }
  const total = [...totals.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  for (const { what } of remembered) raise(totals, what, -1);
  return {
    since: record?.since ?? at,
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

/** Returns new findings. If several look alike, as many as were known are excluded. */
function newAmong(
  findings: readonly FoundFinding[],
  previous: readonly KnownFinding[],
): FoundFinding[] {
  const unmatched = new Map<string, number>();
  for (const finding of previous) raise(unmatched, keyOf(finding), 1);
  return findings.filter((finding) => {
    const key = keyOf(finding);
    const count = unmatched.get(key) ?? 0;
    if (count > 0) unmatched.set(key, count - 1);
    return count === 0;
  });
}

/** Returns a finding's identity, because commands describe the same damaged message in different words. */
function keyOf({ what, id, text }: KnownFinding): string {
  return `${what} ${id ?? text}`;
}

export type VerificationStatus = NonNullable<ReturnType<typeof verificationStatus>>;

/** Returns the last verification for `status --json`. Times are in ISO 8601; `at` is the start time. */
export function verificationStatus(last: VerificationFacts | null) {
  if (last === null) return null;
  const { at, mode, checked, of, fullAt, ok, damage, drill } = last;
  return {
    at: new Date(at).toISOString(),
    ...{ mode, checked, of },
    fullAt: fullAt === null ? null : new Date(fullAt).toISOString(),
    ok,
    damagedSince: damage === null ? null : new Date(damage.since).toISOString(),
    found: damage?.found ?? 0,
    findings: damage?.findings ?? [],
    /** The last export test: its start, the sample size and the total number of messages. */
    drill: drill === null ? null : { ...drill, at: new Date(drill.at).toISOString() },
  };
}

export function readDamage(dataDir: string): KnownDamage | null {
  const state = readState(dataDir);
  try {
    return recallVerification(state)?.damage ?? null;
  } finally {
    state?.close();
  }
}
