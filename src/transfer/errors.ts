import { defineErrors, hasCode, reasonText, say, some } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { counted } from '../core/text.ts';

const CONTINUE =
  'Run the same command again: it continues where it stopped, and sends nothing twice.';

/** An error of a restore. What the server has stays there, and the same command continues. */
export const restoreError = defineErrors({
  usage: {
    /** `--to` is no address of an IMAP server; `found` never has a password in it. */
    'restore-target-invalid': ({ found, problem }: { found: string; problem: string }) =>
      say(
        `--to ${found} is no address of an IMAP server: ${problem}.`,
        'It takes imaps://USER@HOST, with :PORT where that is not 993. Write an @ within USER as %40.',
      ),
    /** Without TLS a password can be read on its way: allowed to this machine only. */
    'restore-needs-tls': ({ host }: { host: string }) =>
      say(
        `Without TLS, the password for ${host} could be read on its way. Nothing was sent.`,
        'Use imaps://; imap:// is for servers on this machine.',
      ),
    'restore-no-password': ({ user }: { user: string }) =>
      say(
        `There is no password for ${user}, and no terminal to ask on.`,
        'Use --password-file FILE, --password-env NAME or --oauth-token-env NAME.',
      ),
    /** `source` is a file or a variable of the environment. */
    'restore-password-unreadable': ({ source, reason }: { source: string; reason: string }) =>
      say(`The password cannot be read from ${source}: ${reasonText(reason)}.`),
    /** In place there can be one mailbox only. */
    'restore-several-mailboxes': ({ mailboxes }: { mailboxes: readonly string[] }) =>
      say(
        `In place, the folders of ${counted(mailboxes.length, 'mailbox', 'mailboxes')} would become one: ${some(mailboxes)}.`,
        'Choose one with --mailbox, or use --into PREFIX.',
      ),
  },
  'in-use': {
    /** Another process carries out the same restore. */
    'restore-running': ({ target }: { target: string }) =>
      say(
        `Another mailkeep carries out this restore to ${target}. Nothing was sent.`,
        'Wait until it has finished, or stop it; then run the same command again.',
      ),
  },
  disk: {
    /** The plan cannot be journaled, so an interruption could not be continued. */
    'restore-journal-unwritable': ({ file, reason }: { file: string; reason: string }) =>
      say(
        `The journal of the restore cannot be kept in ${file}: ${reasonText(reason)}. Nothing was sent.`,
        'Keep it elsewhere with --journal FILE.',
      ),
  },
  auth: {
    'restore-login-refused': (f: { user: string; host: string; text: string }) =>
      say(
        `${f.host} refused the login of ${f.user}: ${terminalLine(f.text)}.`,
        'Check user and password. Many providers want a password made for one program, or an OAuth token.',
      ),
  },
  origin: {
    'restore-unreachable': (f: { host: string; port: number; reason: string }) =>
      say(`${f.host} cannot be reached on port ${f.port}: ${reasonText(f.reason)}.`),
    'restore-certificate': ({ host, reason }: { host: string; reason: string }) =>
      say(
        `The certificate of ${host} cannot be trusted: ${reasonText(reason)}. No password was sent.`,
        'Name the host as in its certificate. For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
      ),
    /** A command was answered with NO or BAD: nothing was stored. `response` is the response code, if any (RFC 5530). */
    'restore-refused': (f: { command: string; response: string | null; text: string }) =>
      say(
        `The server refused ${f.command}${f.response === null ? '' : ` (${f.response})`}: ${terminalLine(f.text)}.`,
      ),
    /** The server asks to wait; `waitMs` is null where it does not say how long. */
    'restore-throttled': ({ text }: { text: string; waitMs: number | null }) =>
      say(`The server asks to wait: ${terminalLine(text)}.`),
    /** The connection broke; of a command under way nobody knows whether it was carried out. */
    'restore-connection-lost': ({ host, reason }: { host: string; reason: string }) =>
      say(`The connection to ${host} broke: ${reasonText(reason)}.`, CONTINUE),
    /** The connection broke `tries` times in a row, or could not be made again. */
    'restore-gave-up': (f: { host: string; tries: number; reason: string }) =>
      say(
        `The connection to ${f.host} broke ${counted(f.tries, 'time')} in a row: ${reasonText(f.reason)}. What was appended is journaled.`,
        CONTINUE,
      ),
  },
  damage: {
    /** The counts of what became of the messages do not add up to the plan. */
    'restore-incomplete': ({ planned, accounted }: { planned: number; accounted: number }) =>
      say(`The restore accounts for ${accounted} of ${planned} messages.`, CONTINUE),
  },
  retryable: [
    'restore-unreachable',
    'restore-throttled',
    'restore-connection-lost',
    'restore-gave-up',
  ],
});

export const exportError = defineErrors({
  disk: {
    /** The disk that takes the export has no room (ENOSPC) or no quota left. Nothing half-written has a final name. */
    'export-disk-full': ({ file }: { file: string }) =>
      say(
        `The disk is full: ${file} cannot be written. Files with their final names are complete.`,
        'Free some space and run the command again; it continues where it stopped.',
      ),
    /** A file of the export cannot be written for another reason than room. */
    'export-write-failed': ({ file, errno }: { file: string; errno: string }) =>
      say(
        `${file} cannot be written: ${reasonText(errno)}. Files with their final names are complete.`,
        'Check the disk and the permissions, then run the command again; it continues where it stopped.',
      ),
  },
  usage: {
    /** What is at the target is no export of ours: it is not touched. */
    'export-target-foreign': (f: { target: string; expected: 'file' | 'folder' }) =>
      say(
        f.expected === 'folder'
          ? `${f.target} contains something other than an export of mailkeep. Nothing was changed.`
          : `${f.target} is not a zip file that mailkeep exported. Nothing was changed.`,
        `Name a ${f.expected} that does not exist yet with --to.`,
      ),
    /** The target is the archive's own folder, or lies in it: what stands there is the archive's alone. */
    'export-target-inside': ({ target, archive }: { target: string; archive: string }) =>
      say(
        `${target} is inside the archive ${archive}, whose folder must contain nothing else.`,
        'Name another place with --to.',
      ),
    /** The target holds an export of another format. */
    'export-format-differs': (f: { target: string; found: string; wanted: string }) =>
      say(
        `${f.target} contains an export in format ${f.found}, but this one would be ${f.wanted}. Nothing was changed.`,
        `Name another place with --to, or use --format ${f.found}.`,
      ),
    /** There is no export here. */
    'export-missing': ({ target }: { target: string }) =>
      say(`There is no export of mailkeep at ${target}.`),
    /** A file of an earlier export, which this one would go on with, is not what was written. It is not touched. */
    'export-changed': ({ file }: { file: string }) =>
      say(
        `${file} was changed after it was exported. It was left as it is.`,
        'Export to a new target, or export without --incremental to rewrite it.',
      ),
    /** A folder within the target is a link: what is written there would lie elsewhere. */
    'export-target-linked': ({ folder }: { folder: string }) =>
      say(
        `${folder} is a link: the export would be written somewhere else. Nothing was written through it.`,
        'Remove the link, or name another place with --to.',
      ),
  },
  damage: {
    /** The manifest at the target is not what was written. */
    'export-manifest-damaged': ({ file }: { file: string }) =>
      say(
        `The manifest ${file} was changed or damaged.`,
        'Export to a new target; the existing export stays as it is.',
      ),
    /** The count of what was exported does not add up: not every place of the selection can be accounted for. */
    'export-incomplete': ({ places, told }: { places: number; told: number }) =>
      say(
        `The export has ${told} of ${places} places, and the others are not accounted for.`,
        'Run "mailkeep verify" on the archive, and export to a new target.',
      ),
  },
});

export const importError = defineErrors({
  usage: {
    /** A path of the command line that cannot be read. */
    'import-unreadable': ({ path, errno }: { path: string; errno: string }) =>
      say(`${path} cannot be read: ${reasonText(errno)}.`),
    /** The name of an import is that of a mailbox of the service. */
    'import-name-taken': ({ name }: { name: string }) =>
      say(
        `The archive already mirrors a mailbox called ${name}; imported mail needs a mailbox of its own.`,
        'Choose another name with --mailbox NAME.',
      ),
    /** A file that was named is no mbox, has no name of a message, and does not begin like one. Nothing was imported. */
    'import-no-mail': ({ path }: { path: string }) =>
      say(
        `${path} is neither a message nor an mbox nor a zip. Nothing was imported.`,
        'Messages end in .eml or .emlx, or begin with a header field.',
      ),
    /** A zip of an export whose manifest is not what was written. Nothing was imported. */
    'import-manifest-damaged': ({ path }: { path: string }) =>
      say(
        `The manifest in ${path} is damaged. Nothing was imported.`,
        'Unpack the zip and import its folder: folders and dates are then taken from the files, and flags are lost.',
      ),
  },
});

/** True for an error of a restore with this code. */
export function isRestoreError<Code extends Parameters<typeof restoreError>[0]>(
  error: unknown,
  code: Code,
): error is ReturnType<typeof restoreError<Code>> {
  return hasCode(error, code);
}
