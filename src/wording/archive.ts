import { terminalLine } from '../core/terminal-safe.ts';
import type * as errors from '../errors/archive.ts';
import { localTime } from './amounts.ts';
import { type FactsOfModule, reasonText, type Sentences, say } from './sentence.ts';

const KEEP =
  'Nothing was changed. Do not delete anything; copy the archive, then check the disk (smartctl, dmesg).';

/** Why the registry of a fleet did not take a commit. */
const NOT_TAKEN: Readonly<Record<string, string>> = {
  'registry-unreachable': 'it cannot be reached',
  'registry-certificate': 'its certificate cannot be trusted',
  'registry-access-denied': 'it denies access',
  'registry-busy': 'it is too slow, or was busy with another transaction',
  'registry-limit': 'the commit is too large for it',
  'registry-read-only': 'it is read-only',
  'registry-refused': 'it refused the statement',
  'outcome-unknown': 'the request or its answer was lost',
  'log-fenced': 'the lease was renewed meanwhile',
};

/** The system does not let this process write. */
const REFUSED = new Set(['EACCES', 'EPERM', 'EROFS', 'SQLITE_READONLY', 'SQLITE_CANTOPEN']);

/**
 * Returns the process that has the lock of an archive, in words. On another machine nothing can check that it still does.
 *
 * @param host null for this machine
 */
export function holderText(pid: number, command: string, since: string, host: string | null) {
  const program = terminalLine(`mailkeep ${command}`);
  const time = localTime(Date.parse(since));
  return host === null
    ? `process ${pid} (${program}), since ${time}`
    : `last locked by process ${pid} (${program}) on ${terminalLine(host)}, ${time}`;
}

export const ARCHIVE_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'archive-in-use': ({ dir, pid, command, since, host }) =>
    say(
      pid === null || command === null || since === null
        ? `The archive ${dir} is in use by another mailkeep.`
        : `The archive ${dir} is in use by another mailkeep: ${holderText(pid, command, since, host)}.`,
      command === 'daemon'
        ? 'Stop the daemon first. Reading commands (list, search, show, status) work while it runs.'
        : 'Wait until it has finished, or stop it if it is a daemon. Reading commands (list, search, show, status) work meanwhile.',
    ),
  'archive-lock-failed': ({ dir, errno }) =>
    say(
      `The archive ${dir} cannot be locked: ${reasonText(errno)}.`,
      REFUSED.has(errno)
        ? 'Check who owns the folder, and whether its file system is mounted read-only.'
        : 'Network file systems often cannot lock: put the archive on a local disk.',
    ),
  'network-file-system': ({ dir, type, mountPoint }) =>
    say(
      `${dir} is on ${type} (${mountPoint}), a network file system. Locks there are often unreliable, and data may be reported as written before it is on the disk.`,
      'Put the archive on a local disk and copy it from there, or accept the risk with MAILKEEP_NETWORK_FILE_SYSTEM=allow.',
    ),
  'archive-missing': ({ dir }) =>
    say(
      `There is no archive in ${dir}.`,
      'Specify its folder with --data DIR, or create an archive with "mailkeep sync".',
    ),
  'archive-format-newer': ({ dir, found, supported }) =>
    say(
      `The archive ${dir} has format "${found}"; this version supports formats up to ${supported}.`,
      'A newer mailkeep wrote it: use that version.',
    ),
  'archive-format-unreadable': ({ dir, found }) =>
    say(
      found === null
        ? `The archive ${dir} has a log but no FORMAT file.`
        : `The FORMAT file of the archive ${dir} has unexpected content.`,
      KEEP,
    ),
  'disk-full': ({ file, bytes }) =>
    say(
      `The disk is full: ${bytes} more bytes do not fit into ${file}. What was committed is safe.`,
      'Free some space and run the command again; it continues where it stopped.',
    ),
  'log-write-failed': ({ file, errno }) => {
    const reason = NOT_TAKEN[errno];
    return reason === undefined
      ? say(
          `${file} cannot be written: ${reasonText(errno)}. What was committed is safe.`,
          'Check the disk and the permissions, then run the command again.',
        )
      : say(
          `The registry ${file} did not take a commit: ${reason}. What was committed is safe.`,
          'The next pass tries again. If it keeps failing, check the registry.',
        );
  },
  'log-sync-failed': ({ file, errno }) =>
    say(
      `The system could not guarantee that ${file} is on the disk: ${reasonText(errno)}.`,
      'The disk may be failing (dmesg, smartctl). Run the command again once it is repaired; the log is checked when it is opened.',
    ),
  'log-thread-ended': ({ file, reason, detail }) =>
    say(
      `The thread that writes ${file} ended (${reason}: ${detail}). What was committed before is safe.`,
      'Run the command again: it checks the end of the log and continues where it stopped.',
    ),
  'log-fenced': ({ commit, reason }) =>
    say(
      reason === 'refused'
        ? 'Another process has become the writer of this archive, so this one stopped writing. What was committed before is safe.'
        : `It is not known whether ${commit === null ? 'the last change' : `commit ${commit}`} was accepted, so this process stopped writing to the archive. What was committed before is safe.`,
      'Open the archive again: it continues from the last commit that was accepted.',
    ),
  'log-copy-failed': ({ file, errno }) =>
    say(
      `The local copy of the log cannot be written: ${file}: ${reasonText(errno)}. What was committed is safe.`,
      'Check the disk and its free space, then open the archive again: it completes the copy.',
    ),
  'log-damaged': ({ file, offset, reason }) =>
    say(`The log is damaged: ${file} at byte ${offset} (${reason}).`, KEEP),
  'log-ends-early': ({ file, expectedNumber, lastNumber }) =>
    say(
      `The log is damaged: ${file} ends at commit ${lastNumber}, but commit ${expectedNumber} was already seen.`,
      KEEP,
    ),
  'log-diverged': ({ file, number }) =>
    say(
      `Commit ${number} of the log ${file} differs from the one the catalog has seen.`,
      `The two do not belong together. ${KEEP}`,
    ),
  'segment-elsewhere': ({ segment }) =>
    say(
      `Segment ${segment} of the log is not on this disk yet.`,
      'Try again in a moment: it can be fetched.',
    ),
  'message-damaged': ({ message, reason }) =>
    say(`The stored bytes of message ${message} are damaged (${reason}).`, KEEP),
  'blob-damaged': ({ blob, reason }) =>
    say(`The stored bytes of ${blob} are damaged (${reason}).`, KEEP),
  'bytes-unknown': ({ hash }) => say(`The archive does not contain the bytes of ${hash}.`),
  'bytes-purged': ({ hash }) =>
    say(`The bytes of ${hash} were removed by "prune" or "forget"; only their hash remains.`),
};
