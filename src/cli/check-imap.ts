/** Checks of an IMAP account, for `doctor`. Signs in once, and only reads. */
import { openCatalogReader } from '../catalog/catalog.ts';
import type { ImapAccount, Settings } from '../core/config-schema.ts';
import { describeError, hasCode, MailkeepError } from '../core/errors.ts';
import { selectsByName } from '../core/names.ts';
import { count, counted, localTime } from '../core/text.ts';
import { listFolders } from '../imap/commands.ts';
import type { ImapSession } from '../imap/connection.ts';
import { ImapConnections } from '../imap/connections.ts';
import { type CredentialOptions, imapCredential } from '../imap/credential.ts';
import { imapError } from '../imap/errors.ts';
import { mailboxKeyOf } from '../sync/account-origins.ts';
import { selectionWarnings } from '../sync/selection.ts';
import { displayName } from './output.ts';

interface ImapCheck {
  readonly name: 'mailbox' | 'tls' | 'service' | 'capabilities' | 'folders';
  readonly message: string;
  /** What to do; null if all is well. */
  readonly remedy: string | null;
}

/** Extensions that save commands, with what happens without them. The first ones save most. */
const SAVING: readonly (readonly [names: readonly string[], without: string])[] = [
  [['LIST-STATUS'], 'every folder is asked for its counts'],
  [['CONDSTORE'], 'every folder is opened, and all flags are read'],
  [['ESEARCH'], 'lists of messages are long, and cannot be checked by a count'],
  [
    ['OBJECTID', 'X-GM-EXT-1'],
    'moved messages are recognised by their headers, and compared later',
  ],
  [['IDLE', 'NOTIFY'], 'the daemon sees new mail only on schedule'],
];
/** What Gmail can limit folders to, in its settings. */
const GMAIL_LIMITS: ReadonlySet<number> = new Set([1_000, 2_000, 5_000, 10_000]);

/**
 * @param settings whose `accounts` may include others
 * @throws errors of the sign-in; imap.mailbox-changed
 */
export async function checkImapAccount(
  account: ImapAccount,
  settings: Pick<Settings, 'accounts' | 'dataDir'>,
  options: CredentialOptions,
  signal: AbortSignal,
): Promise<ImapCheck[]> {
  const { server, connections: most } = account.imap;
  const mailbox = archivedMailbox(account, settings);
  const connections = new ImapConnections({
    server,
    credential: imapCredential(account, options),
    most,
    times: { connectMs: 15_000, silenceMs: 60_000 },
    retries: { attempts: 2, lostMs: 1_000, throttledMs: 1_000, mostMs: 1_000 },
  });
  try {
    return await connections.use(async (session) => {
      const listing = await listFolders(session, (path) => selectsByName(account.folders, path));
      const { folders } = listing;
      const known = [...folders.map(({ path }) => path), ...listing.leftOut];
      const messages = folders.reduce((sum, { status }) => sum + status.messages, 0);
      const sums = `${counted(folders.length, 'folder')} with ${counted(messages, 'message')}`;
      const service = `${server.host} accepts the sign-in, and lists ${sums}.`;
      return [
        ...mailbox,
        { name: 'tls', message: encryptionText(session, server.host), remedy: null },
        { name: 'service', message: service, remedy: null },
        { name: 'capabilities', message: savingText(session), remedy: null },
        ...folderWarnings(session, listing),
        ...selectionWarnings(account, 'mailboxes', [account.imap.address]).map(asFolders),
        ...selectionWarnings(account, 'folders', known).map(asFolders),
      ];
    }, signal);
  } finally {
    await connections.close();
  }
}

/** Compares the account with the mailbox that the archive has of it. */
function archivedMailbox(
  account: ImapAccount,
  { accounts, dataDir }: Pick<Settings, 'accounts' | 'dataDir'>,
): ImapCheck[] {
  try {
    const catalog = openCatalogReader(dataDir);
    try {
      const archived = catalog.folders.accountMailboxes();
      const key = mailboxKeyOf(account, accounts, archived);
      if ('error' in key) throw key.error;
      const { id } = account.imap;
      const isKnown = archived.some(({ mailbox }) => mailbox === id);
      const message = `The archive keeps this mailbox as ${displayName(id)}.`;
      return isKnown ? [{ name: 'mailbox', message, remedy: null }] : [];
    } finally {
      catalog.close();
    }
  } catch (error) {
    // Without a catalog, or with a damaged one, other checks say so.
    if (!(error instanceof MailkeepError) || hasCode(error, 'imap.mailbox-changed')) throw error;
    return [];
  }
}

function encryptionText(session: ImapSession, host: string): string {
  const { encryption } = session;
  if (encryption === null) return `The connection to ${host} stays on this machine, without TLS.`;
  const { protocol, validUntil } = encryption;
  return `${host} uses ${protocol}, with a certificate that is valid until ${localTime(validUntil)}.`;
}

function savingText(session: ImapSession): string {
  const has = (names: readonly string[]) => names.filter((name) => session.has(name));
  const found = SAVING.flatMap(([names]) => has(names));
  const missing = SAVING.filter(([names]) => has(names).length === 0);
  const without = missing.map(([names, effect]) => `without ${names[0]}, ${effect}`);
  return [
    found.length === 0
      ? 'No extension makes syncs cheap'
      : `These extensions make syncs cheap: ${found.join(', ')}`,
    ...without,
  ]
    .join('; ')
    .concat('.');
}

function asFolders(warning: ReturnType<typeof selectionWarnings>[number]): ImapCheck {
  return { name: 'folders', ...warning };
}

function folderWarnings(
  session: ImapSession,
  { folders, refused, tellsForeign }: Awaited<ReturnType<typeof listFolders>>,
): ImapCheck[] {
  const warn = (message: string, remedy: string): ImapCheck => ({
    name: 'folders',
    message,
    remedy,
  });
  const { host } = session;
  const unnumbered = folders.filter(({ status }) => status.uidValidity === null);
  const limited = session.has('X-GM-EXT-1')
    ? folders.filter(({ status }) => GMAIL_LIMITS.has(status.messages))
    : [];
  const closed = describeError(imapError('imap.folders-refused', { host, refused })).message;
  return [
    ...(tellsForeign
      ? []
      : [
          warn(
            `${host} refuses to tell which folders belong to other users (NAMESPACE), so every folder that it lists counts as yours.`,
            'If some are not, name them in "folders.exclude" of the account.',
          ),
        ]),
    ...(refused > 0 ? [warn(closed, 'Ask the mail provider to repair them.')] : []),
    ...unnumbered.map(({ path }) =>
      warn(
        `The server reports no valid UIDVALIDITY for the folder ${displayName(path)}.`,
        'This folder cannot be mirrored. Ask the mail provider to repair it.',
      ),
    ),
    ...limited.map(({ path, status }) =>
      warn(
        `Gmail shows exactly ${count(status.messages)} messages in ${displayName(path)}, which is one of its folder size limits. Messages beyond it are hidden, and would count as deleted.`,
        'In the settings of Gmail, under "Forwarding and POP/IMAP", do not limit the number of messages in an IMAP folder.',
      ),
    ),
  ];
}
