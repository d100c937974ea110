import { nameOfTarget } from '../../../config/copies.ts';
import { copiesError } from '../../../errors/copies.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { forgetCopy } from '../../../health/copies.ts';
import { parseTarget } from '../../../objects/s3-target.ts';
import { openExistingState } from '../../../state/state-file.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required } from '../../copy-target.ts';
import type { ListLine } from './lines.ts';

/**
 * `mailkeep copy drop`: forgets what this archive knows of a copy that was given up. Asks nothing of the target, which
 * may be gone.
 *
 * @throws offsite-unknown, offsite-planned
 */
export async function copyDrop(context: CommandContext, line: ListLine): Promise<ExitCode> {
  const { output, surroundings } = context;
  const typed = required(line.to, '--to');
  parseTarget(typed);
  const to = nameOfTarget(typed, surroundings.cwd) ?? typed;
  const state = openExistingState(archiveOf(context));
  try {
    const was = state === undefined ? 'unknown' : forgetCopy(state, to);
    if (was === 'unknown') throw copiesError('offsite-unknown', { to });
    if (was === 'planned') throw copiesError('offsite-planned', { to });
  } finally {
    state?.close();
  }
  await output.object(
    { to, dropped: true },
    () => `${to} is no longer listed. Nothing was deleted there, and its keys are still here.`,
  );
  return EXIT.done;
}
