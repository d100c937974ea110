import { beginCopy, prepareCopy, refuseExisting } from '../../../engine/offsite/init-copy.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import type { InitLine } from './lines.ts';
import { passphraseOf } from './opening-key.ts';
import { handOver, newKeyFile, refuseKeyFile, withNewKeyFile } from './recovery-key.ts';

/**
 * `mailkeep copy init`: makes the keys of a copy and begins it, once its owner has the recovery key.
 *
 * @throws usage-invalid for options that do not fit, offsite-no-witness where the recovery key can be neither shown nor written; what the engine throws
 */
export async function copyInit(context: CommandContext, line: InitLine): Promise<ExitCode> {
  const { signal, output, now } = context;
  const { createBucket = false, objectLock = false, age = [], writeOnly = false } = line;
  const target = required(line.to, '--to');
  if (objectLock && !createBucket) {
    const problem = '--object-lock needs --create-bucket: it changes no bucket that exists.';
    throw usageError('usage-invalid', { command: 'copy init', problem });
  }
  const dataDir = archiveOf(context);
  const file = newKeyFile(context, line.recoveryKeyFile);
  refuseKeyFile(file);
  const passphrase = passphraseOf(context, line.passphraseFile);
  return withStore(context, target, { createBucket, objectLock }, async (store) => {
    await refuseExisting(store, signal);
    const prepared = await prepareCopy(dataDir);
    const begun = { dataDir, store, to: store.label, prepared, passphrase, age, writeOnly };
    const copyId = await withNewKeyFile(file, (written) =>
      beginCopy({
        ...{ ...begun, signal, now },
        handOver: async () => {
          await handOver(context, file, store.label, prepared);
          written();
        },
      }),
    );
    const signer = prepared.signer.toString('base64');
    const result = { to: store.label, copyId, signer, recoveryKeyFile: file ?? null, writeOnly };
    await output.object(result, () =>
      present([
        `A copy begins at ${store.label}. Its manifests are signed by ${signer}.`,
        file !== undefined &&
          `The recovery key is in ${file}. Keep it away from this machine: anyone who has it can read the copy, and without it you cannot recover the copy.`,
        writeOnly && 'This machine can write to the copy, but not read it.',
        `"mailkeep copy --to ${target}" copies the archive there.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}
