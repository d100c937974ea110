import { MailkeepError } from './mailkeep-error.ts';

/** A path of the command line that cannot be read. */
export function importUnreadable(path: string, errno: string) {
  return new MailkeepError('usage', 'import-unreadable', { path, errno });
}

/** The name of an import is that of a mailbox of the service. */
export function importNameTaken(name: string) {
  return new MailkeepError('usage', 'import-name-taken', { name });
}
