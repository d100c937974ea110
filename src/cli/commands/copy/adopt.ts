import { adoptCopy } from '../../../engine/offsite/adopt-copy.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { counted } from '../../../wording/amounts.ts';
import { some } from '../../../wording/sentence.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { foundIn, required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import type { AdoptLine } from './lines.ts';
import { openingKey } from './opening-key.ts';

/** All of them are in JSON. */
const NEWER_SHOWN = 5;

/** `mailkeep copy adopt`: lets an archive that came from a copy continue that copy. */
export async function copyAdopt(context: CommandContext, line: AdoptLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  return withStore(context, target, {}, async (store) => {
    const way = await openingKey(context, line);
    const allowOlder = line.olderKey ?? false;
    const opened = { way, signer: line.signer };
    const adopted = await adoptCopy({ dataDir, store, ...opened, allowOlder, signal });
    const { copyId, signer, newer } = adopted;
    const findings = foundIn(adopted.findings);
    const result = { to: store.label, copyId, signer: signer.toString('base64'), newer, findings };
    await output.object(result, () =>
      present([
        `This archive continues the copy at ${store.label}, and signs for it with ${result.signer}.`,
        `"mailkeep copy --to ${target}" copies what is new.`,
        findings.map(
          ({ message, repaired }) => `${message}${repaired ? ' It was stored again.' : ''}`,
        ),
        newer.length > 0 &&
          `${counted(newer.length, 'recipient')} with newer keys should be removed, with "mailkeep copy key remove": ${some(newer, NEWER_SHOWN)}.`,
      ]).join('\n'),
    );
    return findings.length > 0 ? EXIT.damage : EXIT.done;
  });
}
