import type { StateFile } from '../catalog/state.ts';
import type { KnownDamage, KnownFinding, VerificationFacts, VerificationMode } from './facts.ts';

const SCOPE = 'verification';
const KEY = 'last';

/** Findings that are remembered one by one; all of them are counted. */
const MOST_KEPT = 100;

/** What a verification read and found. */
export interface VerificationOutcome {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly mode: VerificationMode;
  /** Messages whose bytes were read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
  /** All findings; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly KnownFinding[];
  /** Whether an earlier finding is about something that was read again. Only then can it be cleared. */
  readonly covers: (finding: KnownFinding) => boolean;
}

type Memory = Pick<StateFile, 'read' | 'set'>;

/**
 * Remembers a verification. Damage that was found before stays known unless this one covered it: a sample or a quick
 * run that happens to read other bytes says nothing about them.
 */
export function rememberVerification(state: Memory, outcome: VerificationOutcome): void {
  const before = recalledVerification(state);
  const { at, mode, checked, of } = outcome;
  const complete = mode === 'full' || mode === 'repair';
  const damage = damageAfter(before?.damage ?? null, outcome);
  state.set(SCOPE, KEY, {
    at,
    mode,
    checked,
    of,
    fullAt: complete ? at : (before?.fullAt ?? null),
    ok: damage === null,
    damage,
  });
}

/**
 * Remembers what something other than a verification learned about damage, such as a rebuild of the catalog. The time
 * and the coverage of the last verification stay as they were.
 */
export function rememberDamage(
  state: Memory,
  outcome: Pick<VerificationOutcome, 'at' | 'found' | 'findings' | 'covers'>,
): void {
  const before = recalledVerification(state);
  const damage = damageAfter(before?.damage ?? null, outcome);
  if (before === null && damage === null) return;
  const last = before ?? { at: outcome.at, mode: 'rebuild', checked: 0, of: 0, fullAt: null };
  state.set(SCOPE, KEY, { ...last, ok: damage === null, damage });
}

function damageAfter(
  before: KnownDamage | null,
  {
    at,
    found,
    findings,
    covers,
  }: Pick<VerificationOutcome, 'at' | 'found' | 'findings' | 'covers'>,
): KnownDamage | null {
  const known = before?.findings ?? [];
  const kept = known.filter((finding) => !covers(finding));
  // Findings that were counted only are cleared by what covers everything.
  const counted = (before?.found ?? 0) - known.length;
  const uncleared = counted > 0 && !covers(COUNTED_ONLY) ? counted : 0;
  const texts = new Set(kept.map(({ text }) => text));
  const added = findings.filter(({ text }) => !texts.has(text));
  const again = findings.length - added.length;
  const total = kept.length + uncleared + found - again;
  if (total === 0) return null;
  return {
    since: before?.since ?? at,
    found: total,
    findings: [...kept, ...added].slice(0, MOST_KEPT),
  };
}

/** Stands for findings of which nothing but their number is remembered. */
const COUNTED_ONLY: KnownFinding = { what: 'log', id: null, text: '' };

/** Returns the last verification, or null where none is remembered. */
export function recalledVerification(
  state: Pick<StateFile, 'read'> | undefined,
): VerificationFacts | null {
  return state?.read(SCOPE, KEY, verificationIn) ?? null;
}

const MODES: readonly VerificationMode[] = [
  'full',
  'quick',
  'sample',
  'drill',
  'repair',
  'rebuild',
];

/** By hand: the schema library would slow reading commands down. */
function verificationIn(value: unknown): VerificationFacts | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'mode' in value && 'checked' in value && 'of' in value)) return undefined;
  if (!('fullAt' in value && 'ok' in value && 'damage' in value)) return undefined;
  const { at, checked, of, fullAt, ok } = value;
  const mode = MODES.find((known) => known === value.mode);
  const damage = value.damage === null ? null : damageIn(value.damage);
  const isSound =
    typeof at === 'number' &&
    typeof checked === 'number' &&
    typeof of === 'number' &&
    (typeof fullAt === 'number' || fullAt === null) &&
    typeof ok === 'boolean';
  if (!isSound || mode === undefined || damage === undefined) return undefined;
  return { at, mode, checked, of, fullAt, ok, damage };
}

function damageIn(value: unknown): KnownDamage | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('since' in value && 'found' in value && 'findings' in value)) return undefined;
  const { since, found } = value;
  if (typeof since !== 'number' || typeof found !== 'number') return undefined;
  if (!Array.isArray(value.findings)) return undefined;
  const findings = value.findings.map(findingIn).filter((finding) => finding !== undefined);
  return { since, found, findings };
}

function findingIn(value: unknown): KnownFinding | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('what' in value && 'id' in value && 'text' in value)) return undefined;
  const { what, id, text } = value;
  if (typeof what !== 'string' || typeof text !== 'string') return undefined;
  return id === null || typeof id === 'string' ? { what, id, text } : undefined;
}
