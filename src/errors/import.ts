import { MailkeepError } from './mailkeep-error.ts';

/** A path of the command line that cannot be read. */
export function importUnreadable(path: string, errno: string) {
  return new MailkeepError('usage', 'import-unreadable', { path, errno });
}

/** The name of an import is that of a mailbox of the service. */
export function importNameTaken(name: string) {
  return new MailkeepError('usage', 'import-name-taken', { name });
}

/** A file that was named is no mbox, has no name of a message, and does not begin like one. Nothing was imported. */
export function importNoMail(path: string) {
  return new MailkeepError('usage', 'import-no-mail', { path });
}

/** A zip of an export whose manifest is not what was written. Nothing was imported. */
export function importManifestDamaged(path: string) {
  return new MailkeepError('usage', 'import-manifest-damaged', { path });
}

/** No import of this number was recorded; `runs` is how many were. */
export function importUnknownRun(run: number, runs: number) {
  return new MailkeepError('usage', 'import-unknown-run', { run, runs });
}
