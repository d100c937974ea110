import { errnoName, MailkeepError } from './mailkeep-error.ts';

/** The process that holds a lock; `host` is null for this machine, where it is known to run. */
interface Holder {
  readonly pid: number;
  readonly command: string;
  readonly since: string;
  readonly host: string | null;
}

/** Another process (or another part of this one) writes to the archive; `holder` is null where it is unknown which. */
export function archiveInUse(dir: string, holder: Holder | null, cause: unknown) {
  const { pid = null, command = null, since = null, host = null } = holder ?? {};
  const facts = { dir, pid, command, since, host };
  return new MailkeepError('in-use', 'archive-in-use', facts, { cause, retryable: true });
}

/** The lock file cannot be opened or locked for another reason than that somebody holds it. */
export function archiveLockFailed(dir: string, cause: unknown) {
  const facts = { dir, errno: errnoName(cause) };
  return new MailkeepError('disk', 'archive-lock-failed', facts, { cause });
}

/** The archive's folder is reached over a network, whose locks and promises are often untrue. */
export function networkFileSystem(facts: {
  readonly dir: string;
  readonly type: string;
  readonly mountPoint: string;
}) {
  return new MailkeepError('config', 'network-file-system', { ...facts });
}

/** There is no archive in this folder. */
export function archiveMissing(dir: string) {
  return new MailkeepError('usage', 'archive-missing', { dir });
}

/** FORMAT names a format that this program does not know: most likely a newer program wrote it. */
export function archiveFormatNewer(dir: string, found: string, supported: number) {
  return new MailkeepError('config', 'archive-format-newer', { dir, found, supported });
}

/** FORMAT exists with unexpected content, or is missing although there is a log. */
export function archiveFormatUnreadable(dir: string, found: string | null) {
  return new MailkeepError('damage', 'archive-format-unreadable', { dir, found });
}

/** No room (ENOSPC) or no quota (EDQUOT). Nothing of what was being written stays; the writer continues once there is room. */
export function diskFull(file: string, bytes: number, cause: unknown) {
  const facts = { file, bytes, errno: errnoName(cause) };
  return new MailkeepError('disk', 'disk-full', facts, { cause });
}

/** Writing failed for another reason than room. Cut back to the last commit. */
export function logWriteFailed(file: string, cause: unknown) {
  const facts = { file, errno: errnoName(cause) };
  return new MailkeepError('disk', 'log-write-failed', facts, { cause });
}

/**
 * The system could not guarantee that written bytes are on the disk. The page cache can no longer be trusted for that
 * file, so the writer never retries: the process has to end and open the archive again.
 */
export function logSyncFailed(file: string, cause: unknown) {
  return new MailkeepError('disk', 'log-sync-failed', { file, errno: errnoName(cause) }, { cause });
}

/**
 * The thread that writes to the log ended while it wrote. How much of the batch is in the log is not known, so the
 * process has to end, as after a failed sync: opening the log again finds the end of it.
 */
export function logThreadEnded(file: string, cause: unknown) {
  const { reason, detail } = cause instanceof MailkeepError ? cause.facts : {};
  const facts = { file, reason: String(reason), detail: String(detail) };
  return new MailkeepError('disk', 'log-thread-ended', facts, { cause });
}

/**
 * What makes commits durable refused one, because this process is not the archive's writer any more, or left it open
 * whether it was accepted. Nothing is promised about the batch. This writer takes no further commits.
 *
 * @param commit the commit that was under way; null where a segment was closed
 */
export function logFenced(commit: number | null, reason: 'refused' | 'unknown', cause?: unknown) {
  return new MailkeepError('in-use', 'log-fenced', { commit, reason }, { cause });
}

/**
 * A commit is durable elsewhere, but the local copy of the log could not be written. This writer takes no further
 * commits: opening the archive again completes the copy.
 */
export function logCopyFailed(file: string, cause: unknown) {
  const errno = cause instanceof MailkeepError ? cause.facts.errno : undefined;
  const facts = { file, errno: typeof errno === 'string' ? errno : errnoName(cause) };
  return new MailkeepError('disk', 'log-copy-failed', facts, { cause });
}

/** What kind of damage a byte range of the log shows; see docs/archive-format.md. */
export type DamageReason =
  | 'segment-header'
  | 'segment-missing'
  | 'bytes'
  /** The disk does not give the bytes back. */
  | 'unreadable'
  | 'payload'
  | 'commit'
  | 'chain'
  | 'recipe'
  | 'fact'
  | 'footer'
  | 'ends-early'
  | 'diverged'
  | 'order';

/** Bytes of the log are not what was written. Nothing was changed. */
export function logDamaged(facts: {
  readonly file: string;
  readonly segment: number;
  readonly offset: number;
  readonly reason: DamageReason;
}) {
  return new MailkeepError('damage', 'log-damaged', { ...facts });
}

/** The log ends before a commit that the catalog has already seen. */
export function logEndsEarly(facts: {
  readonly file: string;
  readonly expectedNumber: number;
  readonly expectedHash: string;
  readonly lastNumber: number;
}) {
  return new MailkeepError('damage', 'log-ends-early', { ...facts });
}

/** The log holds another commit under a number that the catalog has already seen: they do not belong together. */
export function logDiverged(facts: {
  readonly file: string;
  readonly number: number;
  readonly expectedHash: string;
  readonly foundHash: string;
}) {
  return new MailkeepError('damage', 'log-diverged', { ...facts });
}

/**
 * The file of a segment is not in the log's folder, but in a place from which it can be fetched. Of the family `origin`,
 * because it concerns one archive: an error of the disk pauses all accounts.
 */
export function segmentElsewhere(segment: number) {
  return new MailkeepError('origin', 'segment-elsewhere', { segment }, { retryable: true });
}

/** A message's stored bytes do not give its source back. */
export function messageDamaged(message: string, reason: DamageReason | 'hash' | 'absent') {
  return new MailkeepError('damage', 'message-damaged', { message, reason });
}

/** A blob's stored bytes do not have its hash, or the log does not hold it where it should. */
export function blobDamaged(blob: string, reason: DamageReason | 'hash' | 'absent') {
  return new MailkeepError('damage', 'blob-damaged', { blob, reason });
}

/** The locator does not know the message or blob. */
export function bytesUnknown(hash: string) {
  return new MailkeepError('usage', 'bytes-unknown', { hash });
}

/** The bytes were removed on purpose; only their identity is left. */
export function bytesPurged(hash: string) {
  return new MailkeepError('usage', 'bytes-purged', { hash });
}
