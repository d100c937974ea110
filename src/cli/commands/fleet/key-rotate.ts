import {
  combineExitCodes,
  describeError,
  EXIT,
  type ExitCode,
  exitCodeFor,
} from '../../../core/errors.ts';
import { terminalLine } from '../../../core/terminal-safe.ts';
import { count, counted } from '../../../core/text.ts';
import { addKey, readFleetKeys } from '../../../fleet/key-file.ts';
import { type Rotated, sealWithCurrent } from '../../../fleet/rotate-keys.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import { withFleet } from './open-fleet.ts';

export interface RotateLine {
  readonly new?: string;
}

/**
 * `mailkeep fleet key rotate`: encrypts every secret by the first key of the file, after putting a new one there if that is
 * wanted.
 *
 * @throws what `addKey`, `readFleetKeys` and `sealWithCurrent` throw
 */
export async function rotateCommand(
  context: CommandContext,
  { new: name }: RotateLine,
): Promise<ExitCode> {
  const { output, signal, notices } = context;
  return withFleet(context, async ({ config, registry, fleet }) => {
    const { keyFile } = config.fleet;
    const isNew = name !== undefined && addKey(keyFile, name);
    // As the file has it: what is not in it could never be decrypted.
    const keys = readFleetKeys(keyFile);
    const key = keys.current;
    if (isNew) {
      notices.say(
        `${terminalLine(keyFile)} has the new key ${key}. Copy the file to every node now: without it, they cannot read what this key encrypts.`,
      );
    }
    const rotated = await sealWithCurrent(registry, fleet.id, keys, signal);
    await output.object(factsOf(rotated, { key, keyFile, isNew }), () => textOf(rotated, key));
    const isLeft = rotated.failed > 0 || rotated.older.length > 0;
    return combineExitCodes([
      ...rotated.failures.map(exitCodeFor),
      isLeft ? EXIT.failures : EXIT.done,
    ]);
  });
}

function factsOf(
  { sealed, failed, failures, older }: Rotated,
  { key, keyFile, isNew }: { key: string; keyFile: string; isNew: boolean },
) {
  return {
    ...{ keyFile, key, keyCreated: isNew, sealed, failed },
    failures: failures.map((error) => ({
      code: error.code,
      message: describeError(error).message,
    })),
    older: older.map(({ keyId, secrets }) => ({ key: keyId, secrets })),
  };
}

function textOf({ sealed, failed, failures, older }: Rotated, key: string): string {
  const left = older.reduce((sum, { secrets }) => sum + secrets, 0);
  const more = failed - failures.length;
  return joinReport([
    `${counted(sealed, 'secret was', 'secrets were')} encrypted again by the key ${key}.`,
    left === 0
      ? 'No secret uses another key: once every node has this file, the lines of older keys can be removed.'
      : `${counted(left, 'secret still uses', 'secrets still use')} an older key: ${older.map(({ keyId, secrets }) => `${keyId} (${count(secrets)})`).join(', ')}. Keep its line, and run the command again.`,
    failures.map((error) => describeError(error).message),
    more > 0 && `and ${count(more)} more`,
  ])
    .map(terminalLine)
    .join('\n');
}
