import { addRecipients } from '../../../engine/offsite/change-recipients.ts';
import { openOwnCopy } from '../../../engine/offsite/open-keys.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { newRecoveryKey } from '../../../offsite/format/recovery.ts';
import { counted } from '../../../wording/amounts.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import type { AddLine } from './lines.ts';
import { openingKeyAlongside, passphraseOf } from './opening-key.ts';
import { handOver, newKeyFile, refuseKeyFile, withNewKeyFile } from './recovery-key.ts';

/**
 * `mailkeep copy key add`: wraps the keys of a copy for somebody else. Without a recipient in its options or a passphrase
 * in the environment, it makes a recovery key.
 *
 * @throws what the engine and `handOver` throw
 */
export async function keyAdd(context: CommandContext, line: AddLine): Promise<ExitCode> {
  const { signal, output, now } = context;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const { age = [], label } = line;
  const isNamed = file !== undefined || age.length > 0;
  // The environment's passphrase may be what opens the copy, where something else is to be added.
  const passphrase =
    line.passphraseFile !== undefined || !isNamed
      ? passphraseOf(context, line.passphraseFile)
      : undefined;
  const isRecovery = file !== undefined || (!isNamed && passphrase === undefined);
  return withStore(context, target, {}, async (store) => {
    const order = { dataDir, store, signal };
    const secrets = await openOwnCopy(order, () => openingKeyAlongside(context, line));
    const recovery = isRecovery ? newRecoveryKey() : undefined;
    const additions = { recovery, passphrase, age, label };
    const added = await withNewKeyFile(file, async (written) => {
      if (recovery !== undefined) {
        await handOver(context, file, store.label, { recovery, signer: secrets.signer });
        written();
      }
      return addRecipients({ ...order, secrets, additions, now });
    });
    const result = { to: store.label, added, recoveryKeyFile: file ?? null };
    await output.object(result, () =>
      present([
        `${counted(added.length, 'recipient')} added: ${added.join(', ')}.`,
        file !== undefined && `The recovery key is in ${file}. Keep it away from this machine.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}
