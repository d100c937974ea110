import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { FILE_MODE } from '../../../archive/format/layout.ts';
import {
  beginCopy,
  type PreparedCopy,
  prepareCopy,
  refuseExisting,
} from '../../../engine/offsite/init-copy.ts';
import { copiesError } from '../../../errors/copies.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoName } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { parseRecoveryLine, recoveryLines } from '../../../offsite/format/recovery.ts';
import { archiveOf } from '../../archive-access.ts';
import { terminalAsker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import { required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import type { InitLine } from './lines.ts';
import { passphraseOf } from './opening-key.ts';

/**
 * `mailkeep copy init`: makes the keys of a copy and begins it, once its owner has the recovery key.
 *
 * @throws offsite-no-witness where the recovery key can be neither shown nor written; what the engine throws
 */
export async function copyInit(context: CommandContext, line: InitLine): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const { createBucket = false, age = [], writeOnly = false } = line;
  const target = required(line.to, '--to');
  const dataDir = archiveOf(context);
  const file =
    line.recoveryKeyFile === undefined
      ? undefined
      : path.resolve(surroundings.cwd, line.recoveryKeyFile);
  const passphrase = passphraseOf(context, line.passphraseFile);
  return withStore(context, target, { createBucket }, async (store) => {
    await refuseExisting(store, signal);
    const prepared = await prepareCopy(dataDir);
    if (file === undefined) await shown(context, prepared);
    else writeKey(file, store.label, prepared);
    const copyId = await beginCopy({
      ...{ dataDir, store, to: store.label, prepared, passphrase, age, writeOnly, signal, now },
    });
    const signer = prepared.signer.toString('base64');
    const result = { to: store.label, copyId, signer, recoveryKeyFile: file ?? null, writeOnly };
    await output.object(result, () =>
      present([
        `A copy begins at ${store.label}. Its manifests are signed by ${signer}.`,
        file !== undefined &&
          `The recovery key is in ${file}. Keep it away from this machine: whoever has it can read the copy, and without it a lost disk is lost.`,
        writeOnly && 'This machine can write to the copy, but not read it.',
        `"mailkeep copy --to ${target}" copies the archive there.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

/** Shows the recovery key on a terminal, and has it typed back: paper that was never read is no key. */
async function shown(context: CommandContext, { recovery, signer }: PreparedCopy): Promise<void> {
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw copiesError('offsite-no-witness', {});
  const { stream } = context.notices;
  const lines = recoveryLines(recovery);
  stream.write(
    [
      'The recovery key opens the copy if this machine is lost. It is shown once. Write it down on paper:',
      '',
      ...lines.map((text, at) => `   ${at + 1}.  ${text}`),
      '',
      `   signed by  ${signer.toString('base64')}`,
      '',
      'Type it from the paper:',
      '',
    ].join('\n'),
  );
  for (const [at, wanted] of lines.entries()) {
    for (;;) {
      const typed = await asker.line(`Line ${at + 1}`);
      if (isLine(typed, at + 1, wanted)) break;
      stream.write(
        `That is not line ${at + 1}. Compare it with the paper, and the paper with the above.\n`,
      );
    }
  }
}

function isLine(typed: string, number: number, wanted: string): boolean {
  try {
    return parseRecoveryLine(typed, number).equals(parseRecoveryLine(wanted, number));
  } catch {
    // Whatever is wrong with it, it is not the line; the caller says so.
    return false;
  }
}

/** @throws usage-save-failed; a file that exists is never replaced */
function writeKey(file: string, to: string, { recovery, signer }: PreparedCopy): void {
  const text = [
    `# The recovery key of the mailkeep copy at ${to}. Keep it away from the machine and from the copy.`,
    `# Manifests are signed by ${signer.toString('base64')}`,
    ...recoveryLines(recovery),
    '',
  ].join('\n');
  try {
    writeFileSync(file, text, { mode: FILE_MODE, flag: 'wx', flush: true });
  } catch (error) {
    throw usageError('usage-save-failed', { file, reason: errnoName(error) });
  }
}
