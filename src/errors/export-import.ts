import { MailkeepError } from './mailkeep-error.ts';

/** The disk that takes the export has no room (ENOSPC) or no quota left. Nothing half-written has a final name. */
export function exportDiskFull(file: string, cause: unknown) {
  return new MailkeepError('disk', 'export-disk-full', { file }, { cause });
}

/** A file of the export cannot be written for another reason than room. */
export function exportWriteFailed(file: string, errno: string, cause: unknown) {
  return new MailkeepError('disk', 'export-write-failed', { file, errno }, { cause });
}

/** What is at the target is no export of ours: it is not touched. */
export function exportTargetForeign(target: string, expected: 'file' | 'folder') {
  return new MailkeepError('usage', 'export-target-foreign', { target, expected });
}

/** The target is the archive's own folder, or lies in it: what stands there is the archive's alone. */
export function exportTargetInside(target: string, archive: string) {
  return new MailkeepError('usage', 'export-target-inside', { target, archive });
}

/** The target holds an export of another format. */
export function exportFormatDiffers(target: string, found: string, wanted: string) {
  return new MailkeepError('usage', 'export-format-differs', { target, found, wanted });
}

/** The manifest at the target is not what was written. */
export function exportManifestDamaged(file: string) {
  return new MailkeepError('damage', 'export-manifest-damaged', { file });
}

/** There is no export here. */
export function exportMissing(target: string) {
  return new MailkeepError('usage', 'export-missing', { target });
}

/** A file of an earlier export, which this one would go on with, is not what was written. It is not touched. */
export function exportChanged(file: string) {
  return new MailkeepError('usage', 'export-changed', { file });
}

/** A folder within the target is a link: what is written there would lie elsewhere. */
export function exportTargetLinked(folder: string) {
  return new MailkeepError('usage', 'export-target-linked', { folder });
}

/** The count of what was exported does not add up: not every place of the selection can be accounted for. */
export function exportIncomplete(places: number, told: number) {
  return new MailkeepError('damage', 'export-incomplete', { places, told });
}

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
