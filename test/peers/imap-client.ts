import { ImapFlow } from 'imapflow';
import type { ImapServer } from './dovecot.ts';

/** A message as a mail client has it. */
export interface ClientMessage {
  /** The folder's path, with the delimiter of the server. */
  readonly folder: string;
  readonly flags: ReadonlySet<string>;
  /** The received date, ISO 8601 in UTC. */
  readonly date: string;
  readonly source: Buffer;
}

/** Every message of every folder, as ImapFlow, a mail client library, reads them. */
export async function* everyMessage(
  server: Pick<ImapServer, 'port' | 'user' | 'password'>,
): AsyncGenerator<ClientMessage> {
  const { port, user, password } = server;
  const client = new ImapFlow({
    host: '127.0.0.1',
    port,
    secure: false,
    doSTARTTLS: false,
    auth: { user, pass: password },
    logger: false,
  });
  await client.connect();
  try {
    for (const { path: folder, flags } of await client.list()) {
      if (flags.has('\\Noselect')) continue;
      const { exists } = await client.mailboxOpen(folder, { readOnly: true });
      let seen = 0;
      if (exists > 0) {
        for await (const message of client.fetch('1:*', {
          source: true,
          flags: true,
          internalDate: true,
        })) {
          if (message.source === undefined || message.flags === undefined)
            throw new Error(`${folder} ${message.uid}: no source`);
          seen += 1;
          const date = new Date(message.internalDate ?? Number.NaN).toISOString();
          yield { folder, flags: message.flags, date, source: message.source };
        }
      }
      if (seen !== exists) throw new Error(`${folder}: ${seen} of ${exists} messages`);
    }
  } finally {
    await client.logout();
  }
}
