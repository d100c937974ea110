import { defineErrors, reasonText } from '../core/errors.ts';
import { bytes, counted, localTime, span } from '../core/text.ts';

interface AtHost {
  readonly host: string;
}

/** `command` is a verb such as `UID FETCH`; `code` is an upper-case response code (RFC 5530), or empty. */
type CommandFacts = AtHost & { readonly command: string; readonly code: string };

type TooLargeFacts = AtHost & {
  readonly command: string;
  readonly what: keyof typeof LIMIT_UNITS;
  readonly limit: number;
};

type MailboxChangedFacts = Readonly<Record<'account' | 'address' | 'kept' | 'found', string>>;
/** `limit` is in bytes. `until` and `completeAt` are ISO 8601 times. */
type DayLimitFacts = AtHost & {
  readonly account: string;
  readonly limit: number;
  /** When the sync continues. */
  readonly until: string;
  /** When the first sync is expected to be complete; null if unknown. */
  readonly completeAt: string | null;
};

interface SignInFacts extends AtHost {
  readonly user: string;
  readonly code: string;
  readonly login?: string;
}

interface LoginNeededFacts {
  readonly account: string;
  readonly reason: keyof typeof NOT_SIGNED_IN;
}

interface NotSignedInFacts {
  readonly account: string;
  readonly reason: 'denied' | 'expired';
}

/** `canName` is what the command takes in place of an account. */
type NoImapFacts = { readonly account: string; readonly canName?: 'address' };

type FileFacts = Readonly<Record<'file' | 'reason', string>>;

const NOT_SIGNED_IN = {
  never: 'is not signed in yet',
  changed: 'was signed in with another client, issuer or scope',
  ended: 'is not signed in any more: the provider has ended the sign-in',
};

const LIMIT_UNITS = {
  literal: 'bytes in one literal',
  line: 'bytes in one line',
  response: 'bytes in one response',
  message: 'bytes in one message',
  folders: 'folders',
  uids: 'messages in one folder',
  responses: 'responses to one command',
  answer: 'bytes in the answer to one command',
};

const RESUME_HINT = 'Nothing is lost; the next sync continues where this one stopped.';
const REPORT_HINT =
  'This answer was ignored, and nothing was concluded from it. If it happens again, report it to the mail provider.';

function withCode(code: string): string {
  return code === '' ? '' : ` (${code})`;
}

const CANNOT_BE_MIRRORED = 'This folder cannot be mirrored. Ask the mail provider to repair it.';

const NO_UID_EPOCH = {
  missing: (folder: string): [string, string] => [
    `The server reports no valid UIDVALIDITY for the folder ${folder}, so its messages cannot be told apart.`,
    CANNOT_BE_MIRRORED,
  ],
  'not-sticky': (folder: string): [string, string] => [
    `The server renumbers the messages of the folder ${folder} in every session (UIDNOTSTICKY).`,
    CANNOT_BE_MIRRORED,
  ],
  unstable: (folder: string): [string, string] => [
    `The UIDVALIDITY of the folder ${folder} went back to a lower value for the second time within a day.`,
    'The folder is read again once its UIDVALIDITY has been stable for a day. If it stays like this, ask the mail provider.',
  ],
};

/** Errors in communication with an IMAP server. Facts never contain text from the server, only response codes. */
export const imapError = defineErrors({
  auth: {
    /**
     * AUTHENTICATIONFAILED, EXPIRED, PRIVACYREQUIRED, or a refusal without a code. Stops the account. `login` is the
     * account's name if it signs in with OAuth.
     */
    'imap.sign-in-refused': ({ host, user, code, login }: SignInFacts) => [
      `${host} refused to sign in ${user}${withCode(code)}.`,
      login === undefined
        ? 'Check the user name and the password or token. Many providers require an app password, or IMAP to be enabled first.'
        : `The token is new, so it may be of another user, or not for IMAP. Run "mailkeep account login ${login}" and sign in as ${user}.`,
    ],
    /** There is no usable refresh token. */
    'imap.login-needed': ({ account, reason }: LoginNeededFacts) => [
      `The account ${account} ${NOT_SIGNED_IN[reason]}.`,
      `Run "mailkeep account login ${account}".`,
    ],
    'imap.oauth-not-signed-in': ({ account, reason }: NotSignedInFacts) => [
      reason === 'denied'
        ? `The provider was told to refuse the sign-in of the account ${account}.`
        : `Nobody signed in for the account ${account} in time.`,
      `Run "mailkeep account login ${account}" again.`,
    ],
    /** `error` is a code of RFC 6749, 5.2, such as `invalid_client`. */
    'imap.oauth-refused': (f: AtHost & { readonly account: string; readonly error: string }) => [
      `${f.host} refused the request of the account ${f.account} for a token (${f.error}).`,
      'Check clientId, clientSecret and scope in "oauth", and what the provider allows this client.',
    ],
    'imap.oauth-scope': (f: { readonly account: string; readonly missing: string }) => [
      `The sign-in of the account ${f.account} does not permit ${f.missing}, so mail cannot be read.`,
      `Run "mailkeep account login ${f.account}" again, and allow everything that the provider asks for.`,
    ],
    'imap.no-sign-in-method': ({ host, kind }: AtHost & { readonly kind: string }) => [
      `${host} does not accept a ${kind} to sign in.`,
      kind === 'password'
        ? 'The provider may require OAuth, or TLS on another port.'
        : 'Configure a password, or ask the provider whether it supports OAuth for IMAP.',
    ],
  },
  config: {
    'imap.tokens-unreadable': ({ file, reason }: FileFacts) => [
      `${file} cannot be read: ${reason === 'content' ? 'it does not contain tokens' : reasonText(reason)}.`,
      'Run "mailkeep account login" for this account, which replaces the file.',
    ],
    'imap.tokens-unwritable': ({ file, reason }: FileFacts) => [
      `${file} cannot be written: ${reasonText(reason)}. The provider may accept its old content no longer.`,
      'Make the folder writable, and run "mailkeep account login" for this account.',
    ],
    'imap.no-oauth': ({ account }: { readonly account: string }) => [
      `The account ${account} does not use OAuth, or signs in as an application, so there is nothing to sign in to.`,
      'To sign in with OAuth, configure "oauth" without "appOnly"; docs/imap.md has examples.',
    ],
    'imap.no-api': ({ account }: { readonly account: string }) => [
      `The account ${account} is an IMAP account, and this works only with accounts of the hosted mail service (baseUrl and token).`,
      'If the configuration has such an account, choose it with --account.',
    ],
    'imap.no-imap': ({ account, canName }: NoImapFacts) => [
      `The account ${account} is an account of the hosted mail service (baseUrl and token), and this works only with accounts that have imap.`,
      canName === 'address'
        ? 'Choose an IMAP account. "mailkeep restore" also takes --to imaps://USER@HOST.'
        : 'Choose an IMAP account.',
    ],
    /** The archive has the account's mailbox under another key. `kept` and `found` are keys; see `ImapSettings.id`. */
    'imap.mailbox-changed': (f: MailboxChangedFacts) => [
      `The archive keeps ${f.address} as the mailbox ${f.kept}, but the configuration of the account ${f.account} now points to ${f.found}.`,
      `If it is the same mailbox, add "id": ${JSON.stringify(f.kept)} to "imap" in the configuration. To mirror it as another mailbox, add "id": ${JSON.stringify(f.found)}.`,
    ],
    'imap.server-elsewhere': ({ host, domain }: AtHost & { readonly domain: string }) => [
      `DNS names ${host} as the IMAP server of ${domain}, which is in another domain and would get the password.`,
      `If it is the server of your provider, add --host ${host}.`,
    ],
    'imap.needs-tls': ({ host }: AtHost) => [
      `Without TLS, the password would be sent to ${host} unencrypted.`,
      'Use "tls": "implicit" or "starttls"; "none" is for servers on this machine.',
    ],
  },
  origin: {
    /** `reason` is an errno or a code of Node.js or imapflow. */
    'imap.unreachable': (f: AtHost & { readonly port: number; readonly reason: string }) => [
      /^ERR_SSL_(?:WRONG_VERSION|PACKET_LENGTH)/.test(f.reason)
        ? `${f.host} does not speak TLS on port ${f.port}.`
        : `${f.host}, port ${f.port}, cannot be reached: ${reasonText(f.reason)}.`,
      'Check the network, and the host, port and TLS mode (implicit, starttls or none).',
    ],
    /** The authorization server. `reason` is an errno, an HTTP status or a code of RFC 6749. */
    'imap.oauth-unreachable': (f: AtHost & { readonly reason: string }) => [
      `${f.host} cannot be reached for a token: ${reasonText(f.reason)}.`,
      RESUME_HINT,
    ],
    'imap.oauth-malformed': (f: AtHost & { readonly found: string }) => [
      `The answer of ${f.host} does not follow OAuth: ${f.found}.`,
      'Check the issuer in the configuration, and report it to the provider if it is right.',
    ],
    'imap.certificate': (f: AtHost & { readonly reason: string }) => [
      `The certificate of ${f.host} cannot be trusted: ${reasonText(f.reason)}.`,
      'Check the host name in the configuration. For a private certificate authority, set NODE_EXTRA_CA_CERTS.',
    ],
    'imap.starttls-missing': ({ host, port }: AtHost & { readonly port: number }) => [
      `${host}, port ${port}, does not offer STARTTLS, so nothing was sent.`,
      'Use "tls": "implicit", usually on port 993.',
    ],
    /** Data in plain text after STARTTLS, or a session that was authenticated before TLS (CVE-2011-0411 and similar). */
    'imap.starttls-injection': ({ host }: AtHost) => [
      `Someone on the way to ${host} may have tampered with the start of TLS, so no password was sent.`,
      'Try another network, or use "tls": "implicit".',
    ],
    'imap.connection-lost': (f: AtHost & { readonly command: string; readonly reason: string }) => [
      `The connection to ${f.host} broke during ${f.command}: ${reasonText(f.reason)}.`,
      RESUME_HINT,
    ],
    /** The server asks for a pause, after all retries. `waitMs` is the pause it asked for; 0 if it named none. */
    'imap.throttled': ({ host, command, code, waitMs }: CommandFacts & { waitMs: number }) => [
      `${host} asks to try ${command} again later${withCode(code)}${waitMs > 0 ? `, after ${span(waitMs)}` : ''}.`,
      RESUME_HINT,
    ],
    'imap.day-limit': ({ host, account, limit, until, completeAt }: DayLimitFacts) => [
      `The account ${account} has reached the limit of ${bytes(limit)} in 24 hours at ${host} (imap.maxBytesPerDay). The first sync after ${localTime(Date.parse(until))} continues.`,
      completeAt === null
        ? 'Everything fetched is stored.'
        : `Everything fetched is stored. At this rate, all mail will be fetched around ${localTime(Date.parse(completeAt))}.`,
    ],
    'imap.refused': ({ host, command, code }: CommandFacts) => [
      `${host} refused ${command}${withCode(code)}.`,
      null,
    ],
    /** The server lists folders whose counts it refuses, or with names that no command can carry. */
    'imap.folders-refused': ({ host, refused }: AtHost & { readonly refused: number }) => [
      `${host} lists ${counted(refused, 'folder')} that it does not open.`,
      'The other folders were compared, and no folder counts as deleted.',
    ],
    /** The folder does not exist (any more), or cannot be opened. */
    'imap.folder-refused': ({ host, folder, code }: AtHost & { folder: string; code: string }) => [
      `${host} does not open the folder ${folder}${withCode(code)}.`,
      'It may have been deleted or renamed; the next sync lists the folders again.',
    ],
    'imap.too-large': ({ host, command, what, limit }: TooLargeFacts) => [
      `The answer of ${host} to ${command} is larger than mailkeep accepts: more than ${limit} ${LIMIT_UNITS[what]}.`,
      REPORT_HINT,
    ],
    /** `found` describes the fault, without text from the server. */
    'imap.malformed': (f: AtHost & { readonly command: string; readonly found: string }) => [
      `The answer of ${f.host} to ${f.command} does not follow the IMAP protocol: ${f.found}.`,
      REPORT_HINT,
    ],
    /** MESSAGELIMIT (RFC 9738), LIMIT or EXPUNGEISSUED: the server says that its answer is not complete. */
    'imap.incomplete': ({ host, command, code }: CommandFacts) => [
      `${host} answered ${command} only in part (${code}).`,
      'The answer was used for nothing; the next sync asks again.',
    ],
    'imap.count-differs': (f: AtHost & { readonly counted: number; readonly found: number }) => [
      `${f.host} counts ${counted(f.counted, 'message')} in a folder, but shows ${f.found}.`,
      REPORT_HINT,
    ],
    'imap.no-uid-epoch': ({
      folder,
      problem,
    }: {
      readonly folder: string;
      readonly problem: keyof typeof NO_UID_EPOCH;
    }) => NO_UID_EPOCH[problem](folder),
    /** The server has reassigned all uids since the folder's first answer of this sync run. */
    'imap.renumbered': ({ folder }: { readonly folder: string }) => [
      `The server has renumbered the messages of the folder ${folder} during this sync.`,
      'The next sync reads the folder again.',
    ],
    'imap.message-gone': ({ host, uid }: AtHost & { readonly uid: number }) => [
      `${host} has no message with the uid ${uid} any more.`,
      null,
    ],
    'imap.message-changed': ({ host, uid }: AtHost & { readonly uid: number }) => [
      `${host} sent different bytes for the message with the uid ${uid} when asked twice.`,
      'It was not stored; the next sync fetches it again.',
    ],
  },
  retryable: [
    'imap.connection-lost',
    'imap.oauth-unreachable',
    'imap.throttled',
    'imap.unreachable',
  ],
});
