import { verifyError } from '../errors/verify.ts';
import { readState } from '../state/state-file.ts';
import type { KnownDamage, KnownFinding, VerificationFacts, VerificationMode } from './facts.ts';
import { recalledVerification } from './verification.ts';

/** The last verification as `status --json` shows it. */
export interface VerificationStatus {
  /** ISO 8601: when it began. */
  readonly at: string;
  readonly mode: VerificationMode;
  /** Messages whose bytes it read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
  /** ISO 8601: when every byte was last read; null while it never was. */
  readonly fullAt: string | null;
  /** Whether no damage is known. */
  readonly ok: boolean;
  /** ISO 8601: when the first of the known damage was found; null where none is known. */
  readonly damagedSince: string | null;
  /** All that is known; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly KnownFinding[];
  /** The last drill: when it began (ISO 8601), and how many messages of how many it read back; null for none. */
  readonly drill: { readonly at: string; readonly checked: number; readonly of: number } | null;
}

export function verificationStatus(last: VerificationFacts | null): VerificationStatus | null {
  if (last === null) return null;
  const { at, mode, checked, of, fullAt, ok, damage, drill } = last;
  return {
    at: new Date(at).toISOString(),
    mode,
    checked,
    of,
    fullAt: fullAt === null ? null : new Date(fullAt).toISOString(),
    ok,
    damagedSince: damage === null ? null : new Date(damage.since).toISOString(),
    found: damage?.found ?? 0,
    findings: damage?.findings ?? [],
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
