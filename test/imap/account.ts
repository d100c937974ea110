import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Clock } from '../../src/core/concurrency.ts';
import { Secret } from '../../src/core/secrets.ts';
import type { ConnectionTimes, Credential, ImapServer } from '../../src/imap/connection.ts';
import {
  type ConnectionsOptions,
  ImapConnections,
  type RetryTimes,
} from '../../src/imap/connections.ts';
import { imapOrigin } from '../../src/imap/imap-origin.ts';
import type { Origin } from '../../src/sync/ports.ts';

export interface TestAccount {
  readonly origin: Origin;
  readonly connections: ImapConnections;
  readonly spoolDir: string;
}

const RETRIES: RetryTimes = { attempts: 3, lostMs: 1, throttledMs: 1, mostMs: 5 };

/** An IMAP account as a source, over plain text on this machine unless the server says otherwise. */
export function openAccount(
  server: {
    readonly host?: string;
    readonly port: number;
    readonly user?: string;
    readonly password?: string;
    readonly tls?: ImapServer['tls'];
    readonly ca?: string;
  },
  options: {
    readonly clock?: Clock;
    readonly most?: number;
    readonly silenceMs?: number;
    readonly times?: Partial<ConnectionTimes>;
    readonly retries?: RetryTimes;
    readonly credential?: (refused: Secret | null) => Promise<Credential>;
  } & Pick<ConnectionsOptions, 'traffic' | 'onCommand' | 'onWait'> = {},
): TestAccount {
  const { host = '127.0.0.1', port, user = 'anna', password = 'correct-horse', ca } = server;
  const {
    silenceMs = 20_000,
    retries = RETRIES,
    most,
    clock,
    traffic,
    onCommand,
    onWait,
  } = options;
  const secret = new Secret(password);
  const connections = new ImapConnections({
    server: { host, port, tls: server.tls ?? 'none', user, ...(ca === undefined ? {} : { ca }) },
    credential: options.credential ?? (async () => ({ kind: 'password', secret })),
    times: { connectMs: 10_000, silenceMs, ...options.times },
    retries,
    ...(most === undefined ? {} : { most }),
    ...(clock === undefined ? {} : { clock }),
    ...(traffic === undefined ? {} : { traffic }),
    ...(onCommand === undefined ? {} : { onCommand }),
    ...(onWait === undefined ? {} : { onWait }),
  });
  const spoolDir = mkdtempSync(path.join(tmpdir(), 'imap-spool-'));
  const mailbox = { id: `${host}:${port}/${user}`, address: `${user}@example.org` };
  const methods = imapOrigin({ connections, mailbox, spoolDir });
  return { origin: { ...methods, requestsPerMinute: () => 1_000 }, connections, spoolDir };
}
