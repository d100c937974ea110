import path from 'node:path';
import { readRegularFile } from '../../../disk/regular-file.ts';
import { copiesError } from '../../../errors/copies.ts';
import { errnoName } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import { parseIdentities } from '../../../offsite/format/age.ts';
import { parseRecoveryKey, RECOVERY_LINES } from '../../../offsite/format/recovery.ts';
import type { Way } from '../../../offsite/format/unlock.ts';
import { terminalAsker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import type { KeyLine, OpenWithLine } from './lines.ts';

/** The environment's passphrase, where no file is named. */
const PASSPHRASE = 'MAILKEEP_COPY_PASSPHRASE';
const MOST_BYTES = 64 * 1024;

/**
 * Returns what opens a copy: from a file, from the environment, or as typed on a terminal.
 *
 * @throws offsite-no-way without any; copy-recovery-shape, copy-recovery-line, copy-age-identity
 */
export async function openingKey(context: CommandContext, line: KeyLine): Promise<Way> {
  const { recoveryKeyFile, passphraseFile, identityFile } = line;
  refuseSeveral(line, '--recovery-key-file, --passphrase-file and --identity-file');
  if (recoveryKeyFile !== undefined) {
    const text = readKeyFile(context, recoveryKeyFile);
    return { type: 'recovery', recovery: parseRecoveryKey(keyLines(text)) };
  }
  if (identityFile !== undefined) {
    return { type: 'age', identities: await parseIdentities(readKeyFile(context, identityFile)) };
  }
  const passphrase = passphraseOf(context, passphraseFile);
  if (passphrase !== undefined) return { type: 'passphrase', passphrase };
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw copiesError('offsite-no-way', { variable: PASSPHRASE });
  const lines: string[] = [];
  for (let number = 1; number <= RECOVERY_LINES; number += 1) {
    lines.push(await asker.line(`Line ${number} of the recovery key`));
  }
  return { type: 'recovery', recovery: parseRecoveryKey(lines.join('\n')) };
}

/**
 * Returns what opens a copy whose recipients are to be changed: there, the other options name what is new.
 *
 * @throws what `openingKey` throws
 */
export function openingKeyAlongside(context: CommandContext, line: OpenWithLine): Promise<Way> {
  const opening = {
    recoveryKeyFile: line.openWithRecoveryKey,
    passphraseFile: line.openWithPassphrase,
    identityFile: line.openWithIdentity,
  };
  const names = '--open-with-recovery-key, --open-with-passphrase and --open-with-identity';
  refuseSeveral(opening, names);
  return openingKey(context, opening);
}

function refuseSeveral({ recoveryKeyFile, passphraseFile, identityFile }: KeyLine, names: string) {
  const given = [recoveryKeyFile, passphraseFile, identityFile].filter((one) => one !== undefined);
  if (given.length <= 1) return;
  throw usageError('usage-invalid', { command: 'copy', problem: `name one of ${names}.` });
}

/** The passphrase in a file's first line, or in the environment; undefined where there is none. */
export function passphraseOf(
  context: CommandContext,
  file: string | undefined,
): string | undefined {
  if (file === undefined) {
    const value = context.surroundings.env[PASSPHRASE] ?? '';
    return value === '' ? undefined : value;
  }
  const [first = ''] = readKeyFile(context, file).split(/\r?\n/, 1);
  if (first === '') throw copiesError('offsite-key-unreadable', { file, reason: 'it is empty' });
  return first;
}

/** A file that `copy init` wrote has words around the key. */
function keyLines(text: string): string {
  return text
    .split(/\r?\n/)
    .filter((line) => !line.startsWith('#'))
    .join('\n');
}

function readKeyFile({ surroundings }: CommandContext, named: string): string {
  const file = path.resolve(surroundings.cwd, named);
  try {
    return readRegularFile(file, MOST_BYTES).toString('utf8');
  } catch (error) {
    throw copiesError('offsite-key-unreadable', { file, reason: errnoName(error) }, error);
  }
}
