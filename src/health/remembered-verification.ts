import type { DrillFacts, KnownDamage, KnownFinding, VerificationFacts } from './facts.ts';

/** A finding as the state holds it. */
export interface RememberedFinding extends KnownFinding {
  /** When it was last found: milliseconds since the epoch. */
  readonly at: number;
  /** The commit that a checkpoint vouches for, where that is what is damaged. */
  readonly commit: number | null;
}

export interface RememberedDamage extends Omit<KnownDamage, 'findings'> {
  readonly findings: readonly RememberedFinding[];
  /** Findings of which only the number is remembered, by what is damaged. */
  readonly counted: Readonly<Record<string, number>>;
  /** When these were last found: milliseconds since the epoch. */
  readonly countedAt: number;
}

export interface RememberedVerification extends Omit<VerificationFacts, 'damage' | 'drill'> {
  readonly damage: RememberedDamage | null;
}

const MODES: Readonly<Record<VerificationFacts['mode'], true>> = {
  full: true,
  quick: true,
  sample: true,
  drill: true,
  repair: true,
  rebuild: true,
};

/**
 * Returns the verification that a value of the state describes, or undefined where it describes none. By hand: the
 * schema library would slow reading commands down.
 */
export function verificationIn(value: unknown): RememberedVerification | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'ok' in value)) return undefined;
  const { at, ok } = value;
  if (typeof at !== 'number' || typeof ok !== 'boolean') return undefined;
  if (!('mode' in value)) return earlier(at, ok);
  if (!('checked' in value && 'of' in value)) return undefined;
  if (!('fullAt' in value && 'damage' in value)) return undefined;
  const { mode, checked, of, fullAt } = value;
  const damage = value.damage === null ? null : damageIn(value.damage);
  const isSound =
    typeof checked === 'number' &&
    typeof of === 'number' &&
    (typeof fullAt === 'number' || fullAt === null);
  if (!isSound || !isMode(mode) || damage === undefined) return undefined;
  return { at, mode, checked, of, fullAt, ok, damage };
}

export function drillIn(value: unknown): DrillFacts | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'checked' in value && 'of' in value)) return undefined;
  const { at, checked, of } = value;
  return typeof at === 'number' && typeof checked === 'number' && typeof of === 'number'
    ? { at, checked, of }
    : undefined;
}

/** Earlier versions remembered complete verifications alone, and of those only the verdict. */
function earlier(at: number, ok: boolean): RememberedVerification {
  const last = { at, mode: 'full', checked: 0, of: 0, fullAt: at, ok } as const;
  if (ok) return { ...last, damage: null };
  const text = 'an earlier version found damage: "mailkeep verify" names it';
  const finding = { what: 'log', id: null, text, at, commit: null };
  return {
    ...last,
    damage: { since: at, found: 1, findings: [finding], counted: {}, countedAt: at },
  };
}

function isMode(mode: unknown): mode is VerificationFacts['mode'] {
  return typeof mode === 'string' && Object.hasOwn(MODES, mode);
}

function damageIn(value: unknown): RememberedDamage | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('since' in value && 'found' in value && 'findings' in value)) return undefined;
  const { since, found } = value;
  if (typeof since !== 'number' || typeof found !== 'number') return undefined;
  if (!Array.isArray(value.findings)) return undefined;
  const findings = value.findings
    .map((finding) => findingIn(finding, since))
    .filter((finding) => finding !== undefined);
  const counted = 'counted' in value ? countsIn(value.counted) : { log: found - findings.length };
  const countedAt = 'countedAt' in value ? value.countedAt : undefined;
  const times = { since, countedAt: typeof countedAt === 'number' ? countedAt : since };
  return { ...times, found, findings, counted };
}

function countsIn(value: unknown): Record<string, number> {
  if (typeof value !== 'object' || value === null) return {};
  const counts = Object.entries(value).filter((entry) => typeof entry[1] === 'number');
  return Object.fromEntries(counts);
}

/** @param since what counts as its time where none is remembered */
function findingIn(value: unknown, since: number): RememberedFinding | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('what' in value && 'id' in value && 'text' in value)) return undefined;
  const { what, id, text } = value;
  if (typeof what !== 'string' || typeof text !== 'string') return undefined;
  if (id !== null && typeof id !== 'string') return undefined;
  const at = 'at' in value && typeof value.at === 'number' ? value.at : since;
  const commit = 'commit' in value && typeof value.commit === 'number' ? value.commit : null;
  return { what, id, text, at, commit };
}
