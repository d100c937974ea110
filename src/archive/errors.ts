import { defineErrors, errnoName, reasonText } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { localTime } from '../core/text.ts';

/** Describes an archive's lock holder, or the last one known on another machine. @param host null for this machine */
export function describeHolder(pid: number, command: string, since: string, host: string | null) {
  const program = terminalLine(`mailkeep ${command}`);
  const time = localTime(Date.parse(since));
  return host === null
    ? `process ${pid} (${program}), since ${time}`
    : `last locked by process ${pid} (${program}) on ${terminalLine(host)}, ${time}`;
}

/** Errors that mean the process has no write access. */
const REFUSED = new Set(['EACCES', 'EPERM', 'EROFS', 'SQLITE_READONLY', 'SQLITE_CANTOPEN']);

const KEEP =
  'Nothing was changed. Do not delete anything; copy the archive, then check the disk (smartctl, dmesg).';

export type DamageReason =
  | 'segment-header'
  | 'segment-missing'
  | 'bytes'
  /** The disk reports a read error. */
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

export const archiveError = defineErrors({
  'in-use': {
    /** Another process, or another part of this one, is writing to the archive. Unknown fields are null. */
    'archive-in-use': (f: {
      dir: string;
      pid: number | null;
      command: string | null;
      since: string | null;
      host: string | null;
    }) => [
      f.pid === null || f.command === null || f.since === null
        ? `The archive ${f.dir} is in use by another mailkeep.`
        : `The archive ${f.dir} is in use by another mailkeep: ${describeHolder(f.pid, f.command, f.since, f.host)}.`,
      f.command === 'daemon'
        ? 'Stop the daemon first. Reading commands (list, search, show, status) work while it runs.'
        : 'Wait until it has finished, or stop it if it is a daemon. Reading commands (list, search, show, status) work meanwhile.',
    ],
  },
  disk: {
    'archive-lock-failed': ({ dir, errno }: { dir: string; errno: string }) => [
      `The archive ${dir} cannot be locked: ${reasonText(errno)}.`,
      REFUSED.has(errno)
        ? 'Check who owns the folder, and whether its file system is mounted read-only.'
        : 'Network file systems often cannot lock: put the archive on a local disk.',
    ],
    /** Nothing was written. The writer continues once there is space. */
    'disk-full': ({ file, bytes }: { file: string; bytes: number; errno: string }) => [
      `The disk is full: ${bytes} more bytes do not fit into ${file}. What was committed is safe.`,
      'Free some space and run the command again; it continues where it stopped.',
    ],
    /** The log was truncated to the last commit. */
    'log-write-failed': ({ file, errno }: { file: string; errno: string }) => [
      `${file} cannot be written: ${reasonText(errno)}. What was committed is safe.`,
      'Check the disk and the permissions, then run the command again.',
    ],
    /** The file's page cache is unreliable after a failed sync, so the process must exit and reopen the archive. */
    'log-sync-failed': ({ file, errno }: { file: string; errno: string }) => [
      `The system could not guarantee that ${file} is on the disk: ${reasonText(errno)}.`,
      'The disk may be failing (dmesg, smartctl). Run the command again once it is repaired; the log is checked when it is opened.',
    ],
    /** The batch may or may not have been written, so the process must exit and reopen the archive. */
    'log-thread-ended': (f: { file: string; reason: string; detail: string }) => [
      `The thread that writes ${f.file} ended (${f.reason}: ${f.detail}). What was committed before is safe.`,
      'Run the command again: it checks the end of the log and continues where it stopped.',
    ],
    'archive-unreadable': ({ dir, errno }: { dir: string; errno: string }) => [
      `The archive ${dir} cannot be read: ${reasonText(errno)}.`,
      'Check who owns the folder and the folders above it ("ls -ld"), and run mailkeep as that user.',
    ],
    'archive-unwritable': ({ file, errno }: { file: string; errno: string }) => [
      `${file} cannot be written: ${reasonText(errno)}.`,
      'Check the permissions, and whether the file system is read-only or full.',
    ],
  },
  config: {
    'network-file-system': (f: { dir: string; type: string; mountPoint: string }) => [
      `${f.dir} is on ${f.type} (${f.mountPoint}), a network file system. Locks there are often unreliable, and data may be reported as written before it is on the disk.`,
      'Put the archive on a local disk and copy it from there, or accept the risk with MAILKEEP_NETWORK_FILE_SYSTEM=allow.',
    ],
    'archive-format-newer': (f: { dir: string; found: string; supported: number }) => [
      `The archive ${f.dir} has format "${f.found}"; this version supports formats up to ${f.supported}.`,
      'A newer mailkeep wrote it: use that version.',
    ],
  },
  usage: {
    'archive-missing': ({ dir }: { dir: string }) => [
      `There is no archive in ${dir}.`,
      'Specify its folder with --data DIR, or create an archive with "mailkeep sync".',
    ],
    'bytes-unknown': ({ hash }: { hash: string }) =>
      `The archive does not contain the bytes of ${hash}.`,
    'bytes-purged': ({ hash }: { hash: string }) =>
      `The bytes of ${hash} were removed by "prune" or "forget"; only their hash remains.`,
  },
  damage: {
    'archive-format-unreadable': ({ dir, found }: { dir: string; found: string | null }) => [
      found === null
        ? `The archive ${dir} has a log but no FORMAT file.`
        : `The FORMAT file of the archive ${dir} has unexpected content.`,
      KEEP,
    ],
    'log-damaged': (f: { file: string; segment: number; offset: number; reason: DamageReason }) => [
      `The log is damaged: ${f.file} at byte ${f.offset} (${f.reason}).`,
      KEEP,
    ],
    'log-ends-early': (f: {
      file: string;
      expectedNumber: number;
      expectedHash: string;
      lastNumber: number;
    }) => [
      `The log is damaged: ${f.file} ends at commit ${f.lastNumber}, but commit ${f.expectedNumber} was already seen.`,
      KEEP,
    ],
    'log-diverged': (f: {
      file: string;
      number: number;
      expectedHash: string;
      foundHash: string;
    }) => [
      `Commit ${f.number} of the log ${f.file} differs from the one the catalog has seen.`,
      `The two do not belong together. ${KEEP}`,
    ],
    'message-damaged': (f: { message: string; reason: DamageReason | 'hash' | 'absent' }) => [
      `The stored bytes of message ${f.message} are damaged (${f.reason}).`,
      KEEP,
    ],
    /** A blob's stored bytes do not match its hash, or the log has no blob at the expected position. */
    'blob-damaged': (f: { blob: string; reason: DamageReason | 'hash' | 'absent' }) => [
      `The stored bytes of ${f.blob} are damaged (${f.reason}).`,
      KEEP,
    ],
  },
  retryable: ['archive-in-use'],
});

export function diskFull(file: string, bytes: number, cause: unknown) {
  return archiveError('disk-full', { file, bytes, errno: errnoName(cause) }, cause);
}

export function logWriteFailed(file: string, cause: unknown) {
  return archiveError('log-write-failed', { file, errno: errnoName(cause) }, cause);
}

export function logSyncFailed(file: string, cause: unknown) {
  return archiveError('log-sync-failed', { file, errno: errnoName(cause) }, cause);
}
