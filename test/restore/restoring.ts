import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { ImapFlow } from 'imapflow';
import { Secret } from '../../src/core/secrets.ts';
import { connectImap, type RestoreConnection } from '../../src/transfer/imap-connection.ts';
import type { RestoreOptions } from '../../src/transfer/plan-restore.ts';
import { RestoreJournal } from '../../src/transfer/restore-journal.ts';
import type { RestoreSelection, SelectableCatalog } from '../../src/transfer/restore-selection.ts';
import { type RestoreResult, runRestore } from '../../src/transfer/run-restore.ts';
import type { MailServer } from '../imap/server.ts';

export const ALL: RestoreSelection = {
  query: null,
  mailboxes: [],
  folders: [],
  asOf: null,
  asOfText: null,
  deleted: false,
};

/** A user who restores from one archive to one server, time and again. */
export class Restoring {
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'restoring-'));
  #journal: RestoreJournal | undefined;
  /** Milliseconds since the epoch. */
  time = Date.UTC(2026, 2, 1, 12);
  /** Called while the program waits. */
  whileWaiting: () => Promise<void> = async () => {};

  constructor(
    private readonly archive: {
      readonly catalog: SelectableCatalog;
      readonly sources: RestoreOptions['sources'];
    },
    private readonly server: { readonly user: string; readonly password: string },
  ) {}

  /** One run of the command on a port, with a clock that only waiting moves. */
  async run(
    port: number,
    {
      wrap = (connection) => connection,
      signal = new AbortController().signal,
      ...options
    }: Partial<RestoreOptions> & {
      /** What is done to every connection. */
      readonly wrap?: (connection: RestoreConnection) => RestoreConnection;
    } = {},
  ): Promise<RestoreResult> {
    const { user, password } = this.server;
    const journal = new RestoreJournal(new Database(path.join(this.#folder, 'journal.sqlite')));
    this.#journal = journal;
    const address = { host: '127.0.0.1', port, user, tls: 'none' } as const;
    const credential = { kind: 'password', secret: new Secret(password) } as const;
    try {
      return await runRestore({
        // The same server through any port.
        target: `imap://${user}@server`,
        host: address.host,
        connect: async () => wrap(await connectImap(address, async () => credential, signal)),
        selection: ALL,
        destination: { kind: 'dated' },
        fresh: false,
        dryRun: false,
        jobs: 3,
        catalog: this.archive.catalog,
        sources: this.archive.sources,
        journal,
        signal,
        now: () => this.time,
        sleep: async (ms) => {
          this.time += ms;
          await this.whileWaiting();
        },
        ...options,
      });
    } finally {
      journal.close();
    }
  }

  /** The process ends here: whatever the run does from now on is recorded nowhere. */
  die(): void {
    this.#journal?.close();
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Signs in to a server as another program of the user's does. */
export async function asClient(
  { port, user, password }: MailServer,
  act: (client: ImapFlow) => Promise<unknown>,
): Promise<void> {
  const client = new ImapFlow({
    ...{ host: '127.0.0.1', port, secure: false, doSTARTTLS: false, logger: false },
    auth: { user, pass: password },
  });
  await client.connect();
  await act(client);
  await client.logout();
}
