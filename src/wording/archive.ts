import type * as errors from '../errors/archive.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import { localTime } from './amounts.ts';
import { type FactsOfModule, reasonText, type Sentences, say } from './sentence.ts';

const KEEP =
  'Nothing was changed. Do not delete anything; copy the archive, then look at the disk (smartctl, dmesg).';

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
    : `the last to lock it was process ${pid} (${program}) on ${terminalLine(host)}, ${time}`;
}

export const ARCHIVE_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'archive-in-use': ({ dir, pid, command, since, host }) =>
    say(
      pid === null || command === null || since === null
        ? `The archive ${dir} is in use by another mailkeep.`
        : `The archive ${dir} is in use by another mailkeep: ${holderText(pid, command, since, host)}.`,
      command === 'daemon'
        ? 'Stop the daemon for this. Reading commands (list, search, show, status) work meanwhile.'
        : 'Wait until it has ended; a daemon has to be stopped for this. Reading commands (list, search, show, status) work meanwhile.',
    ),
  'archive-lock-failed': ({ dir, errno }) =>
    say(
      `The lock of the archive ${dir} cannot be taken: ${reasonText(errno)}.`,
      REFUSED.has(errno)
        ? 'Check who owns the folder, and whether its file system is mounted read-only.'
        : 'Network file systems often cannot lock: put the archive on a local disk.',
    ),
  'network-file-system': ({ dir, type, mountPoint }) =>
    say(
      `${dir} is on ${type} (${mountPoint}), a network file system, whose locks and promises that data is on the disk are often untrue.`,
      'Put the archive on a local disk and copy it from there; or take the risk with MAILKEEP_NETWORK_FILE_SYSTEM=allow.',
    ),
  'archive-missing': ({ dir }) =>
    say(
      `There is no archive in ${dir}.`,
      'Name its folder with --data DIR, or fill one with "mailkeep sync".',
    ),
  'archive-format-newer': ({ dir, found, supported }) =>
    say(
      `The archive ${dir} has format "${found}"; this program writes up to format ${supported}.`,
      'A newer mailkeep wrote it: use that one.',
    ),
  'archive-format-unreadable': ({ dir, found }) =>
    say(
      found === null
        ? `The archive ${dir} has no FORMAT file beside its log.`
        : `The FORMAT file of the archive ${dir} does not say what it should.`,
      KEEP,
    ),
  'disk-full': ({ file, bytes }) =>
    say(
      `The disk is full: ${bytes} more bytes do not fit into ${file}. What was committed is safe.`,
      'Make room and run the command again; it goes on where it stopped.',
    ),
  'log-write-failed': ({ file, errno }) =>
    say(
      `${file} cannot be written: ${reasonText(errno)}. What was committed is safe.`,
      'Look at the disk and its permissions, then run the command again.',
    ),
  'log-sync-failed': ({ file, errno }) =>
    say(
      `The system could not promise that ${file} is on the disk: ${reasonText(errno)}.`,
      'The disk may be failing (dmesg, smartctl). Run the command again once it is well; the log is checked on opening.',
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
      `The log ${file} holds another commit ${number} than the one the catalog has seen.`,
      `The two do not belong together. ${KEEP}`,
    ),
  'message-damaged': ({ message, reason }) =>
    say(`The stored bytes of message ${message} are damaged (${reason}).`, KEEP),
  'blob-damaged': ({ blob, reason }) =>
    say(`The stored bytes of ${blob} are damaged (${reason}).`, KEEP),
  'bytes-unknown': ({ hash }) => say(`The archive has no bytes of ${hash}.`),
  'bytes-purged': ({ hash }) =>
    say(`The bytes of ${hash} were removed on purpose; only their identity is left.`),
};
