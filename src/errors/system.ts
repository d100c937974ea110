import { MailkeepError } from './mailkeep-error.ts';

/** A result could not be written to standard output, such as to a file on a full disk. */
export function outputFailed(errno: string, cause: unknown) {
  return new MailkeepError('disk', 'output-failed', { errno }, { cause });
}

/** An archive's folder is there or may be there, but this process may not read it. */
export function archiveUnreadable(dir: string, errno: string, cause: unknown) {
  return new MailkeepError('disk', 'archive-unreadable', { dir, errno }, { cause });
}

/** A folder of the archive does not take what a sync writes into it. */
export function archiveUnwritable(file: string, errno: string, cause: unknown) {
  return new MailkeepError('disk', 'archive-unwritable', { file, errno }, { cause });
}
