import { reachedBy } from '../../../catalog/closed-catalog.ts';
import type { CopySettings } from '../../../config/copies.ts';
import { copiesError } from '../../../errors/copies.ts';
import { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { type CopyStatus, copyStatuses } from '../../../health/copies.ts';
import { readState } from '../../../state/state-file.ts';
import { counted, span } from '../../../wording/amounts.ts';
import { type Check, failed, skipped, warned, well } from './check.ts';

/** The copies of the configuration, as the archive's state knows them: asks nothing of the places where they are. */
export function copyChecks(dataDir: string, copies: readonly CopySettings[], now: number): Check[] {
  if (copies.length === 0) return [];
  const state = readState(dataDir);
  try {
    const known = copyStatuses(state, reachedBy(dataDir)?.number ?? 0, now);
    return copies.map(({ to }) =>
      checkOf(
        to,
        known.find((copy) => copy.to === to),
        now,
      ),
    );
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return [failed('copy', null, error)];
  } finally {
    state?.close();
  }
}

function checkOf(to: string, copy: CopyStatus | undefined, now: number): Check {
  const at = { name: 'copy', about: to };
  if (copy === undefined || (copy.copiedAt === null && copy.failure === null && !copy.stale)) {
    const remedy = 'A running daemon makes it; an encrypted one begins with "mailkeep copy init".';
    return skipped({ ...at, message: 'The copy was not made yet.', remedy });
  }
  const { damage, stale, failure, copiedAt, behind } = copy;
  if (damage !== null) {
    return failed(at.name, to, copiesError('offsite-damaged', { to, found: damage.findings }));
  }
  if (stale) {
    const check = failed(at.name, to, copiesError('offsite-stale', { to, behind, copiedAt }));
    return failure === null ? check : { ...check, remedy: failure.message };
  }
  if (failure !== null) return warned({ ...at, message: failure.message });
  const age = span(Math.max(0, now - Date.parse(copiedAt ?? '')));
  const lacks = behind === null || behind === 0 ? 'nothing' : counted(behind, 'commit');
  return well({ ...at, message: `The copy was made ${age} ago, and lacks ${lacks}.` });
}
