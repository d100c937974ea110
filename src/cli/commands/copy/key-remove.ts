import { removeRecipients } from '../../../engine/offsite/change-recipients.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { counted } from '../../../wording/amounts.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import type { ListLine } from './lines.ts';

/** `mailkeep copy key remove`: removes recipients, and says what that does not do. */
export async function keyRemove(
  context: CommandContext,
  ids: readonly string[],
  line: ListLine,
): Promise<ExitCode> {
  const { output, signal } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const removed = await removeRecipients({ dataDir, store, signal, ids });
    await output.object({ to: store.label, removed }, () =>
      [
        `${counted(removed.length, 'recipient')} removed: ${removed.join(', ')}.`,
        'This revokes nothing that was learned before: whoever opened the copy may have kept its keys.',
        `"mailkeep copy key rotate --to ${target}" makes new keys for what is copied from now on.`,
      ].join('\n'),
    );
    return EXIT.done;
  });
}
