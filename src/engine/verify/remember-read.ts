import type { VerificationMode } from '../../health/facts.ts';
import type { RememberedFinding } from '../../health/remembered-verification.ts';
import { rememberDamage, rememberVerification } from '../../health/verification.ts';
import type { VouchedCommit } from '../../verify/read-log.ts';
import { readNothing, type Verification } from '../../verify/verify-archive.ts';
import type { EngineContext } from '../context.ts';
import { isOfCatalog, knownFindings, noting } from './remember.ts';

export interface ReadRun {
  /** When it began: milliseconds since the epoch. */
  readonly at: number;
  readonly mode: Extract<VerificationMode, 'full' | 'quick' | 'repair'>;
  readonly checkpoint: VouchedCommit | null;
}

/**
 * Remembers what reading the whole archive came to. A run that could not read the catalog and found nothing counts as
 * none, and one that could not read the log says nothing about what was found before.
 *
 * @param holdsLock whether the caller holds the archive's lock
 * @returns whether it was remembered
 */
export function rememberRead(
  context: EngineContext,
  dataDir: string,
  { at, mode, checkpoint }: ReadRun,
  result: Verification,
  holdsLock = false,
): boolean {
  const { found, findings, catalog, rebuilt, messages } = result;
  if (found === 0 && catalog === 'unreadable') return false;
  // A checkpoint of another archive says nothing about this one.
  const ours = findings.filter(
    (finding) => finding.what !== 'commit' || finding.reason !== 'other-archive',
  );
  const nothing = readNothing(result);
  const complete = mode !== 'quick' && !nothing;
  const held = checkpoint !== null && holds(result) ? checkpoint.number : 0;
  const outcome = {
    at,
    endedAt: context.now(),
    found: found - (findings.length - ours.length),
    findings: knownFindings(context, ours),
    covers: (known: RememberedFinding) =>
      complete &&
      (catalog !== 'unreadable' || !isOfCatalog(known)) &&
      (known.what !== 'checkpoint' || (known.commit ?? 1) <= held),
  };
  const act = nothing
    ? (state: Parameters<typeof rememberDamage>[0]) => rememberDamage(state, outcome, 'quick')
    : (state: Parameters<typeof rememberVerification>[0]) =>
        rememberVerification(state, { ...outcome, mode, checked: rebuilt, of: messages });
  return noting(context, dataDir, 'result', act, holdsLock);
}

/** Whether what the run's checkpoint vouches for is in the log. */
function holds({ findings }: Verification): boolean {
  return !findings.some((finding) => finding.what === 'commit' && finding.by === 'checkpoint');
}
