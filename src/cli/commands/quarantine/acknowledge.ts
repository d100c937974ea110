import { openReader } from '../../../engine/archive/reader.ts';
import { openWriter } from '../../../engine/archive/writer.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { counted } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { refuseUnknownChoice } from '../../unknown-names.ts';
import { chosenEntries, type QuarantineChoice } from './choice.ts';

/**
 * `mailkeep quarantine ack`: records that the user knows of what is in quarantine. It stays counted.
 *
 * @throws usage-invalid for another action, or where nothing was chosen
 */
export async function acknowledge(
  context: CommandContext,
  action: string,
  choice: QuarantineChoice,
  all: boolean,
): Promise<ExitCode> {
  const invalid = (problem: string) =>
    usageError('usage-invalid', { command: 'quarantine', problem });
  if (action !== 'ack') throw invalid(`unknown action '${action}'. Did you mean ack?`);
  const { mailbox, folder, uid } = choice;
  const chosen = [mailbox, folder, uid].some((option) => option !== undefined);
  if (chosen === all) {
    throw invalid('choose by --mailbox, --folder and --uid, or everything by --all.');
  }
  // A reader finds the archive, whichever way it is named, and says when there is none.
  const reader = openReader(context);
  const { dataDir } = reader;
  try {
    refuseUnknownChoice(reader, { ...choice, deleted: true });
  } finally {
    reader.close();
  }
  const writer = await openWriter(context, dataDir);
  try {
    const entries = chosenEntries(writer.catalog, choice).filter(
      ({ acknowledged }) => !acknowledged,
    );
    const batch = writer.log.newBatch();
    for (const { host, mailbox: id, folder: path, generation, uid: number } of entries) {
      batch.addFact({
        fact: 'acknowledged',
        host,
        mailbox: id,
        folder: path,
        generation,
        uid: number,
      });
    }
    if (entries.length > 0) writer.catalog.foldBatch(await writer.log.commit(batch));
    const result = { acknowledged: entries.length };
    await context.output.object(
      result,
      () => `${counted(entries.length, 'message')} in quarantine will be kept quiet about.`,
    );
    return EXIT.done;
  } finally {
    await writer.close();
  }
}
