import type { MailkeepError } from '../core/errors.ts';
import { stableId } from '../mail/identity.ts';
import type { ConnectionsOptions, ImapConnections } from './connections.ts';
import type { ImapOriginOptions, imapOrigin } from './imap-origin.ts';
import type { WatchEnd } from './watch.ts';

type Methods = ReturnType<typeof imapOrigin>;
type Loaded = { readonly origin: Methods; readonly connections: ImapConnections };

/**
 * Returns an IMAP account as an `Origin` of `src/sync`. Loads the client with the first request, because most commands
 * never connect.
 */
export function lazyImapOrigin(
  connections: ConnectionsOptions,
  options: Omit<ImapOriginOptions, 'connections'>,
  /** The host under which the archive keeps the mailbox; or an error, with which every request fails. */
  key: { readonly host: string } | { readonly error: MailkeepError },
) {
  let loading: Promise<Loaded> | undefined;
  const call = async () => {
    if ('error' in key) throw key.error;
    loading ??= load(connections, options);
    return (await loading).origin;
  };
  return {
    host: 'host' in key ? key.host : connections.server.host,
    isOneMailbox: true,
    /** The end of a message is where the server ends it. RFC822.SIZE is often wrong (Exchange). */
    sourcesAreComplete: true,
    /** Each connection's command fetches up to 128 messages, and as many wait for the next one. */
    sourcesAtOnce: 400,
    /** IMAP servers limit connections and bytes. */
    requestsPerMinute: () => null,
    ...(connections.traffic === undefined ? {} : { traffic: connections.traffic }),
    stableId,
    mailboxes: async (...args: Parameters<Methods['mailboxes']>) =>
      (await call()).mailboxes(...args),
    folders: async (...args: Parameters<Methods['folders']>) => (await call()).folders(...args),
    list: async (...args: Parameters<Methods['list']>) => (await call()).list(...args),
    search: async (...args: Parameters<Methods['search']>) => (await call()).search(...args),
    source: async (...args: Parameters<Methods['source']>) => (await call()).source(...args),
    quota: async (...args: Parameters<Methods['quota']>) => (await call()).quota(...args),
    uids: async (...args: Parameters<Methods['uids']>) => (await call()).uids(...args),
    folderBytes: async (...args: Parameters<Methods['folderBytes']>) =>
      (await call()).folderBytes(...args),
    changedSince: async (...args: Parameters<Methods['changedSince']>) =>
      (await call()).changedSince(...args),
    /** See `watchChanges`. */
    async watch(onChange: () => void, signal: AbortSignal): Promise<WatchEnd> {
      const [{ watchChanges }] = await Promise.all([import('./watch.ts'), call()]);
      const opened = await loading;
      if (opened === undefined) throw new Error('connections that were not loaded');
      return watchChanges(opened.connections, onChange, signal, connections.clock);
    },
    close: async () => (await loading)?.connections.close(),
  };
}

async function load(
  connections: ConnectionsOptions,
  options: Omit<ImapOriginOptions, 'connections'>,
): Promise<Loaded> {
  const [{ ImapConnections }, { imapOrigin }] = await Promise.all([
    import('./connections.ts'),
    import('./imap-origin.ts'),
  ]);
  const opened = new ImapConnections(connections);
  return {
    origin: imapOrigin({ ...options, connections: opened }),
    connections: opened,
  };
}
