import { copyToTarget } from '../../../engine/offsite/copy-to-target.ts';
import { type KeysOrder, openOwnCopy } from '../../../engine/offsite/open-keys.ts';
import {
  finishRotation,
  isSwitched,
  type RotatedKeys,
  refuseTooManyKeys,
  rotateKeys,
} from '../../../engine/offsite/rotate-keys.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { newRecoveryKey } from '../../../offsite/format/recovery.ts';
import { bytes, counted } from '../../../wording/amounts.ts';
import { some } from '../../../wording/sentence.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';
import type { RotateLine } from './lines.ts';
import { openingKeyAlongside, passphraseOf } from './opening-key.ts';
import { handOver, newKeyFile } from './recovery-key.ts';

/** Anybody can put recipients there: so many are named, and all of them in JSON. */
const OLD_SHOWN = 5;
/** All states stay: how many to keep is for the next copy to say. */
const KEEP_ALL = Number.MAX_SAFE_INTEGER;

/**
 * `mailkeep copy key rotate`: makes new keys for what is copied from now on, and with `--reencrypt` uploads the rest again.
 *
 * @throws what the engine and `handOver` throw
 */
export async function keyRotate(context: CommandContext, line: RotateLine): Promise<ExitCode> {
  const { signal, output } = context;
  const target = required(line.to, '--to');
  const order = { dataDir: archiveOf(context), signal };
  const file = newKeyFile(context, line.recoveryKeyFile);
  // The environment's passphrase may be what opens the copy: it becomes no recipient.
  const { passphraseFile } = line;
  const passphrase =
    passphraseFile === undefined ? undefined : passphraseOf(context, passphraseFile);
  return withStore(context, target, { bytesPerSecond: line.limitRate }, async (store) => {
    const inStore = { ...order, store };
    const isFinishing = await isSwitched(inStore);
    const rotated = isFinishing
      ? await finishRotation(inStore)
      : await rotate(context, line, inStore, { file, passphrase });
    const uploaded = line.reencrypt === true ? await reencrypt(context, inStore) : null;
    const recoveryKeyFile = isFinishing ? null : (file ?? null);
    const result = { to: store.label, ...rotated, recoveryKeyFile, uploaded };
    await output.object(result, () =>
      present([
        isFinishing
          ? 'The rotation that was interrupted is complete: its recovery key opens the copy.'
          : `What is copied from now on is encrypted for a new key, with ${counted(rotated.added.length, 'recipient')}.`,
        recoveryKeyFile !== null &&
          `The new recovery key is in ${recoveryKeyFile}. Keep it away from this machine.`,
        rotated.removed.length > 0 &&
          `${counted(rotated.removed.length, 'recipient')} of the earlier key removed.`,
        rotated.old.length > 0 &&
          `${counted(rotated.old.length, 'recipient')} can open only what was copied before: ${some(rotated.old, OLD_SHOWN)}.`,
        uploaded !== null &&
          `${counted(uploaded.objects, 'object')} uploaded again, ${bytes(uploaded.bytes)}. Earlier states stay readable with the earlier key until a copy removes them.`,
        uploaded === null &&
          `What is there stays readable with the earlier key. "mailkeep copy --refresh --to ${target}" uploads it again.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

async function rotate(
  context: CommandContext,
  line: RotateLine,
  order: KeysOrder,
  {
    file,
    passphrase,
  }: { readonly file: string | undefined; readonly passphrase: string | undefined },
): Promise<RotatedKeys> {
  const { store } = order;
  const secrets = await openOwnCopy(order, () => openingKeyAlongside(context, line));
  refuseTooManyKeys(secrets, store.label);
  const recovery = newRecoveryKey();
  await handOver(context, file, store.label, { recovery, signer: secrets.signer });
  const additions = { recovery, passphrase };
  return rotateKeys({ ...order, secrets, additions, now: context.now });
}

async function reencrypt(
  context: CommandContext,
  order: KeysOrder,
): Promise<{ readonly objects: number; readonly bytes: number }> {
  const activity = openActivity(context, 'comparing the copy with the archive');
  const copied = await copyToTarget({
    ...{ ...order, refresh: true, keep: KEEP_ALL, now: context.now },
    onProgress: ({ objects, of, bytes: sent }) =>
      activity.show(() => `uploaded ${objects} of ${counted(of, 'object')}, ${bytes(sent)}`),
  }).finally(activity.stop);
  return { objects: copied.uploaded, bytes: copied.bytes };
}
