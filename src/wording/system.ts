import { errnoOf } from '../errors/mailkeep-error.ts';
import type * as errors from '../errors/system.ts';
import { type FactsOfModule, reasonText, type Said, type Sentences, say } from './sentence.ts';

const CHECK = 'Check the permissions, and whether the file system is read-only or full.';

export const SYSTEM_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'output-failed': ({ errno }) =>
    say(
      `Standard output cannot be written: ${reasonText(errno)}. The result is incomplete.`,
      'Free some space, or write it somewhere else.',
    ),
  'archive-unreadable': ({ dir, errno }) =>
    say(
      `The archive ${dir} cannot be read: ${reasonText(errno)}.`,
      'Check who owns the folder and the folders above it ("ls -ld"), and run mailkeep as that user.',
    ),
  'archive-unwritable': ({ file, errno }) =>
    say(`${file} cannot be written: ${reasonText(errno)}.`, CHECK),
};

const DONE: Readonly<Record<string, string>> = {
  open: 'opened',
  read: 'read',
  scandir: 'read',
  opendir: 'read',
  stat: 'read',
  lstat: 'read',
  access: 'used',
  mkdir: 'created',
  mkdtemp: 'created',
  unlink: 'removed',
  rmdir: 'removed',
  rm: 'removed',
  rename: 'renamed',
  chmod: 'changed',
  copyfile: 'copied',
};

/**
 * The sentence of an error of the operating system, or of SQLite, that nobody gave words of its own; undefined for any
 * other error.
 */
export function systemSaid(error: unknown): (Said & { readonly code: string }) | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = 'system-error';
  if (error.name === 'SqliteError' && 'code' in error) {
    const reason = reasonText(String(error.code));
    // Without words for the code it is a mistake in a statement, and a bug.
    if (reason === String(error.code)) return undefined;
    return { code, ...say(`A database of the archive cannot be used: ${reason}.`, CHECK) };
  }
  const errno = errnoOf(error);
  if (errno === undefined || !('syscall' in error)) return undefined;
  const syscall = String(error.syscall);
  const reason = reasonText(errno);
  return 'path' in error && typeof error.path === 'string'
    ? { code, ...say(`${error.path} cannot be ${DONE[syscall] ?? 'written'}: ${reason}.`, CHECK) }
    : { code, ...say(`The system refused "${syscall}": ${reason}.`, CHECK) };
}
