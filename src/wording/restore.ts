import { terminalLine } from '../core/terminal-safe.ts';
import type { RestoreFacts } from '../errors/restore.ts';
import { counted } from './amounts.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

const CONTINUE =
  'Run the same command again: it continues where it stopped, and sends nothing twice.';

export const RESTORE_SENTENCES: Sentences<RestoreFacts> = {
  'restore-target-invalid': ({ found, problem }) =>
    say(
      `--to ${found} is no address of an IMAP server: ${problem}.`,
      'It takes imaps://USER@HOST, with :PORT where that is not 993. Write an @ within USER as %40.',
    ),
  'restore-needs-tls': ({ host }) =>
    say(
      `Without TLS, the password for ${host} could be read on its way. Nothing was sent.`,
      'Use imaps://; imap:// is for servers on this machine.',
    ),
  'restore-no-password': ({ user }) =>
    say(
      `There is no password for ${user}, and no terminal to ask on.`,
      'Use --password-file FILE, --password-env NAME or --oauth-token-env NAME.',
    ),
  'restore-password-unreadable': ({ source, reason }) =>
    say(`The password cannot be read from ${source}: ${reasonText(reason)}.`),
  'restore-several-mailboxes': ({ mailboxes }) =>
    say(
      `In place, the folders of ${counted(mailboxes.length, 'mailbox', 'mailboxes')} would become one: ${some(mailboxes)}.`,
      'Choose one with --mailbox, or use --into PREFIX.',
    ),
  'restore-running': ({ target }) =>
    say(
      `Another mailkeep carries out this restore to ${target}. Nothing was sent.`,
      'Wait until it has finished, or stop it; then run the same command again.',
    ),
  'restore-journal-unwritable': ({ file, reason }) =>
    say(
      `The journal of the restore cannot be kept in ${file}: ${reasonText(reason)}. Nothing was sent.`,
      'Keep it elsewhere with --journal FILE.',
    ),
  'restore-login-refused': ({ user, host, text }) =>
    say(
      `${host} refused the login of ${user}: ${terminalLine(text)}.`,
      'Check user and password. Many providers want a password made for one program, or an OAuth token.',
    ),
  'restore-unreachable': ({ host, port, reason }) =>
    say(`${host} cannot be reached on port ${port}: ${reasonText(reason)}.`),
  'restore-certificate': ({ host, reason }) =>
    say(
      `The certificate of ${host} cannot be trusted: ${reasonText(reason)}. No password was sent.`,
      'Name the host as in its certificate. For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
    ),
  'restore-refused': ({ command, response, text }) =>
    say(
      `The server refused ${command}${response === null ? '' : ` (${response})`}: ${terminalLine(text)}.`,
    ),
  'restore-throttled': ({ text }) => say(`The server asks to wait: ${terminalLine(text)}.`),
  'restore-connection-lost': ({ host, reason }) =>
    say(`The connection to ${host} broke: ${reasonText(reason)}.`, CONTINUE),
  'restore-gave-up': ({ host, tries, reason }) =>
    say(
      `The connection to ${host} broke ${counted(tries, 'time')} in a row: ${reasonText(reason)}. What was appended is journaled.`,
      CONTINUE,
    ),
  'restore-incomplete': ({ planned, accounted }) =>
    say(`The restore accounts for ${accounted} of ${planned} messages.`, CONTINUE),
};
