import { adoptCopy } from '../../../engine/offsite/adopt-copy.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import type { AdoptLine } from './lines.ts';
import { openingKey } from './opening-key.ts';

/** `mailkeep copy adopt`: lets an archive that came from a copy continue that copy. */
export async function copyAdopt(context: CommandContext, line: AdoptLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const way = await openingKey(context, line);
    const allowOlder = line.olderKey ?? false;
    const { copyId, signer } = await adoptCopy({ dataDir, store, way, allowOlder, signal });
    const result = { to: store.label, copyId, signer: signer.toString('base64') };
    await output.object(result, () =>
      [
        `This archive continues the copy at ${store.label}, and signs for it with ${result.signer}.`,
        `"mailkeep copy --to ${target}" copies what is new.`,
      ].join('\n'),
    );
    return EXIT.done;
  });
}
