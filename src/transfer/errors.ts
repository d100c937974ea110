import { defineErrors, endOfSentence, hasCode, reasonText, shortList } from '../core/errors.ts';
import { counted } from '../core/text.ts';

const CONTINUE =
  'Run the same command again: it continues where it stopped, and sends nothing twice.';

export const restoreError = defineErrors({
  usage: {
    /** `found` never contains a password. */
    'restore-target-invalid': ({ found, problem }: { found: string; problem: string }) => [
      `--to ${found} is no address of an IMAP server: ${problem}.`,
      'It takes imaps://USER@HOST, with :PORT where that is not 993. Write an @ within USER as %40.',
    ],
    'restore-needs-tls': ({ host }: { host: string }) => [
      `Without TLS, the password for ${host} could be read on its way. Nothing was sent.`,
      'Use imaps://; imap:// is for servers on this machine.',
    ],
    'restore-no-password': ({ user }: { user: string }) => [
      `There is no password for ${user}, and no terminal to ask on.`,
      'Use --password-file FILE, --password-env NAME or --oauth-token-env NAME.',
    ],
    'restore-password-unreadable': ({ source, reason }: { source: string; reason: string }) =>
      `The password cannot be read from ${source}: ${reasonText(reason)}.`,
    'restore-several-mailboxes': ({ mailboxes }: { mailboxes: readonly string[] }) => [
      `In place, the folders of ${counted(mailboxes.length, 'mailbox', 'mailboxes')} would become one: ${shortList(mailboxes)}.`,
      'Choose one with --mailbox, or use --into PREFIX.',
    ],
  },
  'in-use': {
    'restore-running': ({ target }: { target: string }) => [
      `Another mailkeep carries out this restore to ${target}. Nothing was sent.`,
      'Wait until it has finished, or stop it; then run the same command again.',
    ],
  },
  disk: {
    'restore-journal-unwritable': ({ file, reason }: { file: string; reason: string }) => [
      `The journal of the restore cannot be kept in ${file}: ${reasonText(reason)}. Nothing was sent.`,
      'Keep it elsewhere with --journal FILE.',
    ],
  },
  auth: {
    'restore-login-refused': (f: { user: string; host: string; text: string }) => [
      `${f.host} refused the login of ${f.user}: ${endOfSentence(f.text)}.`,
      'Check user and password. Many providers want a password made for one program, or an OAuth token.',
    ],
  },
  origin: {
    'restore-unreachable': (f: { host: string; port: number; reason: string }) =>
      `${f.host} cannot be reached on port ${f.port}: ${reasonText(f.reason)}.`,
    'restore-certificate': ({ host, reason }: { host: string; reason: string }) => [
      `The certificate of ${host} cannot be trusted: ${reasonText(reason)}. No password was sent.`,
      'Name the host as in its certificate. For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
    ],
    /** The server responded with NO or BAD and stored nothing. `response` is its response code (RFC 5530). */
    'restore-refused': (f: { command: string; response: string | null; text: string }) =>
      `The server refused ${f.command}${f.response === null ? '' : ` (${f.response})`}: ${endOfSentence(f.text)}.`,
    /** `waitMs` is null if the server does not specify a delay. */
    'restore-throttled': ({ text }: { text: string; waitMs: number | null }) =>
      `The server asks to wait: ${endOfSentence(text)}.`,
    /** The outcome of the command in progress is unknown. */
    'restore-connection-lost': ({ host, reason }: { host: string; reason: string }) => [
      `The connection to ${host} broke: ${reasonText(reason)}.`,
      CONTINUE,
    ],
    'restore-gave-up': (f: { host: string; tries: number; reason: string }) => [
      `The connection to ${f.host} broke ${counted(f.tries, 'time')} in a row: ${reasonText(f.reason)}. What was appended is journaled.`,
      CONTINUE,
    ],
  },
  damage: {
    'restore-incomplete': ({ planned, accounted }: { planned: number; accounted: number }) => [
      `The restore accounts for ${accounted} of ${planned} messages.`,
      CONTINUE,
    ],
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
    'export-disk-full': ({ file }: { file: string }) => [
      `The disk is full: ${file} cannot be written. Files with their final names are complete.`,
      'Free some space and run the command again; it continues where it stopped.',
    ],
    'export-write-failed': ({ file, errno }: { file: string; errno: string }) => [
      `${file} cannot be written: ${reasonText(errno)}. Files with their final names are complete.`,
      'Check the disk and the permissions, then run the command again; it continues where it stopped.',
    ],
  },
  usage: {
    'export-target-foreign': (f: { target: string; expected: 'file' | 'folder' }) => [
      f.expected === 'folder'
        ? `${f.target} contains something other than an export of mailkeep. Nothing was changed.`
        : `${f.target} is not a zip file that mailkeep exported. Nothing was changed.`,
      `Name a ${f.expected} that does not exist yet with --to.`,
    ],
    'export-target-inside': ({ target, archive }: { target: string; archive: string }) => [
      `${target} is inside the archive ${archive}, whose folder must contain nothing else.`,
      'Name another place with --to.',
    ],
    'export-format-differs': (f: { target: string; found: string; wanted: string }) => [
      `${f.target} contains an export in format ${f.found}, but this one would be ${f.wanted}. Nothing was changed.`,
      `Name another place with --to, or use --format ${f.found}.`,
    ],
    'export-missing': ({ target }: { target: string }) =>
      `There is no export of mailkeep at ${target}.`,
    'export-changed': ({ file }: { file: string }) => [
      `${file} was changed after it was exported. It was left as it is.`,
      'Export to a new target, or export without --incremental to rewrite it.',
    ],
    'export-target-linked': ({ folder }: { folder: string }) => [
      `${folder} is a link: the export would be written somewhere else. Nothing was written through it.`,
      'Remove the link, or name another place with --to.',
    ],
  },
  damage: {
    'export-manifest-damaged': ({ file }: { file: string }) => [
      `The manifest ${file} was changed or damaged.`,
      'Export to a new target; the existing export stays as it is.',
    ],
    'export-incomplete': ({ places, told }: { places: number; told: number }) => [
      `The export has ${told} of ${places} places, and the others are not accounted for.`,
      'Run "mailkeep verify" on the archive, and export to a new target.',
    ],
  },
});

export const importError = defineErrors({
  usage: {
    'import-unreadable': ({ path, errno }: { path: string; errno: string }) =>
      `${path} cannot be read: ${reasonText(errno)}.`,
    'import-name-taken': ({ name }: { name: string }) => [
      `The archive already mirrors a mailbox called ${name}; imported mail needs a mailbox of its own.`,
      'Choose another name with --mailbox NAME.',
    ],
    'import-no-mail': ({ path }: { path: string }) => [
      `${path} is neither a message nor an mbox nor a zip. Nothing was imported.`,
      'Messages end in .eml or .emlx, or begin with a header field.',
    ],
    'import-manifest-damaged': ({ path }: { path: string }) => [
      `The manifest in ${path} is damaged. Nothing was imported.`,
      'Unpack the zip and import its folder: folders and dates are then taken from the files, and flags are lost.',
    ],
  },
});

export function isRestoreError<Code extends Parameters<typeof restoreError>[0]>(
  error: unknown,
  code: Code,
): error is ReturnType<typeof restoreError<Code>> {
  return hasCode(error, code);
}
