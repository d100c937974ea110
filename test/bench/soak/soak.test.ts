import { afterEach, beforeEach, expect, test } from 'vitest';
import { mail, type Served, serveEmpty } from '../../sandbox/client.ts';
import { Checker } from './checker.ts';
import { Claims, FlagClaims, type Ledger } from './ledger.ts';
import { judgeMemory } from './memory.ts';
import { STOCK_FOLDER, STOCK_MESSAGES } from './stock.ts';

/** The soak passes when nothing is wrong: here something is. */
let served: Served;
let ledger: Ledger;
let checker: Checker;
beforeEach(async () => {
  served = await serveEmpty();
  for (let n = 1; n <= STOCK_MESSAGES; n += 1) add(STOCK_FOLDER, 'stock');
  ledger = {
    mail: new Claims('soak-'),
    folders: new Claims('INBOX.soak-'),
    flags: new FlagClaims(),
  };
  const { mailboxUrl, tokens, mailboxes } = served.sandbox;
  checker = await Checker.open(
    { url: mailboxUrl, tokens, mailboxes: [...mailboxes], orderId: '' },
    ledger,
  );
});
afterEach(async () => {
  await checker.close();
  await served.close();
});

function add(path: string, subject: string): void {
  const { store } = served.sandbox.service;
  const mailbox = store.mailboxes.get(served.sandbox.mailboxes[0]?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  store.add(store.folderFor(mailbox, path), Buffer.from(mail(subject)), 0, []);
}

function acknowledged(): string {
  const id = ledger.mail.begin();
  ledger.mail.acknowledge(id);
  return id;
}

test('mail that is where it should be is cleared away', async () => {
  for (let n = 0; n < 250; n += 1) {
    const id = acknowledged();
    add('INBOX', id);
    add('INBOX.Sent', id);
  }
  await checker.checkMail();
  await checker.checkMail();
  await checker.checkRest();
  expect(checker.problems).toEqual([]);
  expect(ledger.mail.mustBeThere().size).toBe(0);
  const { json } = await served.call(`GET ${served.m}/folders`);
  expect(JSON.stringify(json)).toContain(
    '"path":"INBOX","name":"INBOX","delimiter":".","specialUse":null,"messageCount":0',
  );
});

test('mail that is lost, doubled or strange is a problem', async () => {
  const [half, twice] = [acknowledged(), acknowledged()];
  add('INBOX', half);
  for (const path of ['INBOX', 'INBOX', 'INBOX.Sent']) add(path, twice);
  add('INBOX', 'soak-999');
  await checker.checkMail();
  expect(checker.problems).toEqual([
    '1 doubles in INBOX',
    '1 strange in INBOX, such as soak-999',
    `1 lost in INBOX.Sent, such as ${half}`,
    '1 doubles in INBOX.Trash',
  ]);
});

test('mail whose answer never came may be there or not', async () => {
  add('INBOX', ledger.mail.begin());
  ledger.mail.begin();
  await checker.checkMail();
  expect(checker.problems).toEqual([]);
});

test('flags and folders that are not what was acknowledged are a problem', async () => {
  const { uid } = ledger.flags.begin();
  ledger.flags.acknowledge(uid);
  const folder = ledger.folders.begin();
  ledger.folders.acknowledge(folder);
  await served.call(`POST ${served.m}/folders`, { body: { name: 'INBOX.soak-strange' } });
  await checker.checkRest();
  expect(checker.problems).toEqual([
    `1 lost in the folders, such as ${folder}`,
    '1 strange in the folders, such as INBOX.soak-strange',
    `message ${uid} has the flags ""`,
  ]);
});

test('memory that grows with time is not flat; a start that warms up is no growth', () => {
  const mib = 1024 * 1024;
  const steady = Array.from({ length: 24 }, (_, n) => (n < 5 ? 20 + n * 6 : 50 + (n % 3)) * mib);
  expect(judgeMemory(steady).flat).toBe(true);
  const growing = Array.from({ length: 24 }, (_, n) => (50 + n * 2) * mib);
  expect(judgeMemory(growing).flat).toBe(false);
});
