import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach } from 'vitest';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { readBack } from './read-back.ts';
import type { MailServer } from './server.ts';

export const SERVERS = [
  { name: 'Dovecot', without: withoutDovecot, start: () => startDovecot(), prefix: '' },
  { name: 'Cyrus', without: withoutCyrus, start: () => startCyrus(), prefix: 'INBOX.' },
] as const;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

export interface Mirrored {
  readonly server: MailServer;
  readonly proxy: ImapProxy;
  /** Adds fields to the account in the configuration. */
  configure(account: object): void;
  /** Runs the command line with a configuration for the server. */
  run(...args: readonly string[]): ReturnType<typeof mailkeep>;
}

/** Starts a server, and prepares an archive of its mailbox. Both are gone after the test. */
export async function mirrored(
  start: () => Promise<MailServer>,
  account: object = {},
): Promise<Mirrored> {
  const server = await start();
  closing.push(() => server.stop());
  const proxy = await ImapProxy.start({ to: server, readOnly: true });
  closing.push(() => proxy.stop());
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-sync-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const { host, user, password } = server;
  const imap = {
    ...{ host, port: proxy.port, tls: 'none', user, address: `${user}@example.org` },
    password: { command: ['printf', '%s\n', password] },
  };
  const config = path.join(folder, 'mailkeep.json');
  const configure = (fields: object): void =>
    writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap, ...fields }] }));
  configure(account);
  return { server, proxy, configure, run: (...args) => mailkeep([...args, '--config', config]) };
}

/** Every message as `folder/uid hash flags`, at the server and in the mirror. */
export async function bothSides({ server, run }: Mirrored) {
  const there = (await readBack(server)).flatMap(({ folder, messages }) =>
    messages.map(({ uid, sha256, flags }) => `${folder}/${uid} ${sha256} ${flags.join(' ')}`),
  );
  const { stdout } = await run('list', '--json');
  const here = jsonLines(stdout).map((line) => {
    const { folder, uid, id, flags } = line as {
      folder: string;
      uid: number;
      id: string;
      flags: string[];
    };
    return `${folder}/${uid} ${id} ${[...flags].sort().join(' ')}`;
  });
  return { there: there.sort(), here: here.sort() };
}

export function letter(n: number): string {
  return `From: ada@example.org\r\nSubject: letter ${n}\r\nMessage-ID: <${n}@example.org>\r\n\r\nbody ${n}\r\n`;
}
