import { accessSync, constants, lstatSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FILE_MODE } from '../../../archive/format/layout.ts';
import { copiesError } from '../../../errors/copies.ts';
import { errnoName } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { parseRecoveryLine, recoveryLines } from '../../../offsite/format/recovery.ts';
import { terminalAsker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';

/** A recovery key that opens nothing yet. */
interface NewRecovery {
  readonly recovery: Buffer;
  /** Ed25519, 32 bytes: who signs the manifests of its copy. */
  readonly signer: Buffer;
}

/** Returns where a new recovery key is to be written; undefined where it is to be shown. */
export function newKeyFile(
  { surroundings }: CommandContext,
  named: string | undefined,
): string | undefined {
  return named === undefined ? undefined : path.resolve(surroundings.cwd, named);
}

/**
 * Refuses a file that exists already, or whose folder does not, before anything is done: it is written last.
 *
 * @throws usage-save-failed
 */
export function refuseKeyFile(file: string | undefined): void {
  if (file === undefined) return;
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) throw unsaved(file, 'EEXIST');
  try {
    accessSync(path.dirname(file), constants.W_OK);
  } catch (error) {
    throw unsaved(file, errnoName(error));
  }
}

/** Runs `act`, and removes the file of a recovery key that it wrote if it fails: that key opens nothing. */
export async function withNewKeyFile<T>(
  file: string | undefined,
  act: (written: () => void) => Promise<T>,
): Promise<T> {
  let isWritten = false;
  try {
    return await act(() => {
      isWritten = true;
    });
  } catch (error) {
    if (isWritten && file !== undefined) rmSync(file, { force: true });
    throw error;
  }
}

function unsaved(file: string, reason: string): Error {
  return usageError('usage-save-failed', { file, reason });
}

/**
 * Gives a new recovery key to its owner, before it opens anything: in a new file, or on a terminal, typed back.
 *
 * @param to the copy that it will open, for people
 * @throws offsite-no-witness where it can be neither shown nor written; usage-save-failed
 */
export async function handOver(
  context: CommandContext,
  file: string | undefined,
  to: string,
  made: NewRecovery,
): Promise<void> {
  if (file === undefined) await shown(context, made);
  else writeKey(file, to, made);
}

/** Shows the recovery key on a terminal, and has it typed back: paper that was never read is no key. */
async function shown(context: CommandContext, { recovery, signer }: NewRecovery): Promise<void> {
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
function writeKey(file: string, to: string, { recovery, signer }: NewRecovery): void {
  const text = [
    `# The recovery key of the mailkeep copy at ${to}. Keep it away from the machine and from the copy.`,
    `# Manifests are signed by ${signer.toString('base64')}`,
    ...recoveryLines(recovery),
    '',
  ].join('\n');
  try {
    writeFileSync(file, text, { mode: FILE_MODE, flag: 'wx', flush: true });
  } catch (error) {
    throw unsaved(file, errnoName(error));
  }
}
