import { readFileSync } from 'node:fs';
import path from 'node:path';
import { errnoName } from '../../../errors/mailkeep-error.ts';
import { restoreError } from '../../../errors/restore.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { ImapAddress } from '../../../restore/imap-access.ts';
import type { Credential } from '../../../restore/imap-connection.ts';
import { terminalAsker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';

/** Where the user said that the password is. */
export interface CredentialLine {
  readonly passwordFile?: string;
  readonly passwordEnv?: string;
  readonly oauthTokenEnv?: string;
}

/**
 * Returns what the user signs in with; asked for on a terminal where nothing says where it is. It never stands on a
 * command line, which every user of a machine can read.
 *
 * @throws restore-no-password, restore-password-unreadable
 */
export async function credentialFor(
  context: CommandContext,
  { user, host }: ImapAddress,
  { passwordFile, passwordEnv, oauthTokenEnv }: CredentialLine,
): Promise<Credential> {
  const { cwd, env } = context.surroundings;
  if (passwordFile !== undefined) return { password: fromFile(path.resolve(cwd, passwordFile)) };
  if (passwordEnv !== undefined) return { password: fromEnvironment(env, passwordEnv) };
  if (oauthTokenEnv !== undefined) return { accessToken: fromEnvironment(env, oauthTokenEnv) };
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw restoreError('restore-no-password', { user });
  return {
    password: await asker.secret(`Password of ${terminalLine(user)} at ${terminalLine(host)}`),
  };
}

/** The first line of a file: an editor ends it with a line break. */
function fromFile(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw restoreError(
      'restore-password-unreadable',
      { source: file, reason: errnoName(error) },
      error,
    );
  }
  const [first = ''] = text.split(/\r?\n/, 1);
  if (first === '')
    throw restoreError('restore-password-unreadable', { source: file, reason: 'it is empty' });
  return first;
}

function fromEnvironment(env: Readonly<Record<string, string | undefined>>, name: string): string {
  const value = env[name] ?? '';
  if (value === '')
    throw restoreError('restore-password-unreadable', { source: name, reason: 'it is not set' });
  return value;
}
