import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import { Secret } from '../../src/core/secrets.ts';
import { openState } from '../../src/core/state.ts';
import { lazyImapOrigin } from '../../src/imap/lazy-origin.ts';
import type { SyncResult } from '../../src/sync/result.ts';
import { start as startProgram } from '../cli/child.ts';
import { FakeClock, syncModel } from '../sync/harness.ts';
import { readBack } from './read-back.ts';
import { type MailServer, PASSWORD } from './server.ts';

/** An archive of one user's mail, synced by this process or by the program. */
export class World {
  readonly clock = new FakeClock();
  readonly #dir = mkdtempSync(path.join(tmpdir(), 'imap-history-'));
  readonly #id: string;

  constructor(
    private readonly server: MailServer,
    private readonly user: string = server.user,
  ) {
    this.#id = `mail/${user}`;
  }

  remove(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }

  async sync(port: number, policy = { full: false, acceptEndings: false }): Promise<SyncResult> {
    const { host } = this.server;
    const secret = new Secret(PASSWORD);
    const origin = lazyImapOrigin(
      {
        server: { host, port, tls: 'none', user: this.user },
        credential: async () => ({ kind: 'password', secret }),
        retries: { attempts: 4, lostMs: 1, throttledMs: 1, mostMs: 5 },
      },
      { mailbox: { id: this.#id, address: `${this.user}@example.org` }, spoolDir: this.#dir },
      { host },
    );
    const catalog = await openCatalog(this.#dir);
    const state = openState(this.#dir);
    try {
      const expected = catalog.reached();
      const log = await openLogWriter({ dir: this.#dir, now: this.clock.now, expected });
      const writer = { log, catalog, dataDir: this.#dir, state };
      try {
        const { now } = this.clock;
        return await syncModel(writer, origin, { now, after: systemClock.after }, { policy });
      } finally {
        await log.close();
      }
    } finally {
      await origin.close();
      state.close();
      catalog.close();
    }
  }

  /** Starts the program, which the caller can kill. */
  start(port: number) {
    const { host } = this.server;
    const { user } = this;
    const address = `${user}@example.org`;
    const config = path.join(this.#dir, 'mailkeep.json');
    const imap = { host, port, tls: 'none', user, address, id: this.#id, password: PASSWORD };
    writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap }] }), { mode: 0o600 });
    return startProgram(['sync', '--config', config, '--data', this.#dir, '--quiet']);
  }

  /** Every message as `folder/uid hash flags`. Reads the bytes. */
  async mirrored(): Promise<string[]> {
    const catalog = await openCatalog(this.#dir);
    const reader = openLogReader({ dir: this.#dir, locator: catalog.locator });
    try {
      return [...catalog.list({})]
        .map(({ folder, uid, id, flags }) => {
          // Reading compares the bytes with their hash.
          const hash = id === null ? 'incomplete' : reader.readMessage(id) && id;
          return `${folder}/${uid} ${hash} ${[...flags].sort().join(' ')}`;
        })
        .sort();
    } finally {
      reader.close();
      catalog.close();
    }
  }

  /** Folders that are listed and do not exist. */
  async nonexistent(): Promise<string[]> {
    const folders = await readBack(this.server, this.user);
    return folders
      .filter(({ uidvalidity, attributes }) => {
        return uidvalidity === undefined && !attributes.includes('\\Noselect');
      })
      .map(({ folder }) => folder);
  }

  async atServer(): Promise<string[]> {
    const folders = await readBack(this.server, this.user);
    return folders
      .flatMap(({ folder, messages }) =>
        messages.map(({ uid, sha256, flags }) => `${folder}/${uid} ${sha256} ${flags.join(' ')}`),
      )
      .sort();
  }
}
