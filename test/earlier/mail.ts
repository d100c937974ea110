import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { deliver } from '../../src/sandbox/faults.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';

const crlf = (lines: readonly string[]) => Buffer.from(`${lines.join('\r\n')}\r\n`, 'latin1');

function plain(name: string, body: string): Buffer {
  return crlf([
    'From: Anna Example <anna@example.org>',
    'To: Ada Example <ada@example.org>',
    `Subject: About the ${name}`,
    `Message-ID: <${name}@example.org>`,
    'Date: Mon, 02 Mar 2026 10:00:00 +0000',
    '',
    body,
  ]);
}

/** Long enough to fill a segment, and repetitive enough to compress well. */
const table = Buffer.from(
  Array.from({ length: 400 }, (_, n) => `tusk ${n % 7};length ${(n * n) % 13}\n`).join(''),
);

/** The messages in the archives of earlier commits. */
export const MAIL = {
  walrus: plain('walrus', 'The walrus has two tusks and sleeps on the ice.'),
  narwhal: crlf([
    'From: Ben Example <ben@example.org>',
    'To: ada@example.org',
    'Subject: About the narwhal',
    'Message-ID: <narwhal@example.org>',
    'In-Reply-To: <walrus@example.org>',
    'Date: Tue, 03 Mar 2026 10:00:00 +0100',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="parts"',
    '',
    '--parts',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'The narwhal has one tusk. Na=C3=AFve measurements are attached.',
    '--parts',
    'Content-Type: text/csv; name="tusks.csv"',
    'Content-Disposition: attachment; filename="tusks.csv"',
    'Content-Transfer-Encoding: base64',
    '',
    ...(table.toString('base64').match(/.{1,76}/g) ?? []),
    '--parts--',
  ]),
  orca: plain('orca', 'The orca lives in a folder that is renamed before the second sync.'),
  /** Moved before the second sync. */
  manatee: plain('manatee', 'The manatee moves slowly.'),
  /** Deleted at the service before the second sync. */
  otter: plain('otter', 'The otter has no tusks, and left.'),
  /** Delivered before the second sync: folded, repeated, encoded and 8-bit header fields, and no date. */
  odd: crlf([
    'Received: from a.example.org by b.example.org;',
    '\tWed, 04 Mar 2026 09:00:00 +0000',
    'Received: from c.example.org by a.example.org; Wed, 04 Mar 2026 08:59:00 +0000',
    'From: =?ISO-8859-1?Q?J=FCrgen?= "the \\"seal\\"" <juergen@example.org> (sealer)',
    'to : ada@example.org, undisclosed-recipients:;',
    'SUBJECT: =?utf-8?B?w5xiZXIgZGVu?=',
    ' =?utf-8?Q?_Seeleoparden?=',
    'X-Raw: \xfcber',
    'X-Raw: again',
    'X-Empty:',
    'Message-ID: <odd.!#$%@[192.0.2.1]>',
    '',
    'The leopard seal has no date. \xe4\xf6\xfc',
    'From here on, this line only looks like the start of a message.',
    '',
  ]),
  /** Imported. */
  beluga: plain('beluga', 'The beluga has no tusks.'),
  /** Imported and forgotten. */
  lemming: plain('lemming', 'The lemming was never here.'),
};

/** Returns the id of a message: the SHA-256 of its source. */
export function messageId(name: keyof typeof MAIL): string {
  return createHash('sha256').update(MAIL[name]).digest('hex');
}

const MAILBOX = 'ada@example.org';

/**
 * Serves the messages of the first sync, always as the same origin, and writes `config.json` for it.
 *
 * @param home for the configuration, whose archive is `data` next to it
 */
export async function serveMail(home: string) {
  const mail = path.join(home, 'mail');
  mkdirSync(mail);
  // They are loaded in this order.
  for (const name of ['narwhal', 'otter', 'walrus'] as const)
    writeFileSync(path.join(mail, `${name}.eml`), MAIL[name]);
  const sandbox = await startSandbox({ from: [mail], addresses: [MAILBOX] });
  const { service } = sandbox;
  const { store } = service;
  const [mailbox] = store.mailboxes.values();
  if (mailbox === undefined) throw new Error('the sandbox has no mailbox');
  const inbox = store.folderFor(mailbox, 'INBOX');
  const add = (to: typeof inbox, name: keyof typeof MAIL, flags: readonly string[] = []) =>
    deliver(service, mailbox, to, MAIL[name], flags, Date.UTC(2026, 2, 4, 9));
  add(store.folderFor(mailbox, 'INBOX.Sea'), 'orca');
  add(inbox, 'manatee');
  const account = { name: 'main', baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox };
  const rateLimit = { requestsPerMinute: 1_000_000 };
  const config = { dataDir: './data', accounts: [account], rateLimit };
  writeFileSync(path.join(home, 'config.json'), JSON.stringify(config), { mode: 0o600 });
  return {
    change(): void {
      store.changeFlags(inbox, 3, ['\\Seen'], []);
      store.remove(inbox, 2);
      store.move(inbox, 4, store.folderFor(mailbox, 'INBOX.Calm'));
      store.renameFolder(mailbox, 'INBOX.Sea', 'INBOX.Ocean');
      add(inbox, 'odd', ['\\Flagged']);
    },
    close: () => sandbox.close(),
  };
}
