import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, expect, test } from 'vitest';
import { Store } from '../../../src/sandbox/store.ts';
import { storeContract } from './store-contract.ts';

const folder = mkdtempSync(join(tmpdir(), 'mailkeep-state-'));
let number = 0;

function newFile(): string {
  number += 1;
  return join(folder, `state-${number}.sqlite`);
}

afterAll(() => rmSync(folder, { recursive: true }));

storeContract(() => new Store(newFile()));

test('everything is there again after a restart, and uids go on from where they were', () => {
  const file = newFile();
  const first = new Store(file);
  const mailbox = first.addMailbox('ada@example.org', 'OR1', 1);
  const inbox = first.folderFor(mailbox, 'INBOX');
  const sent = first.folderFor(mailbox, 'INBOX.Sent');
  first.add(inbox, Buffer.from('one'), 1000, ['\\Seen', '$x']);
  first.addEverywhere(
    [inbox, sent].map((to) => ({ folder: to, flags: [] })),
    Buffer.from('two'),
    2000,
  );
  first.add(inbox, Buffer.from('three'), 3000, []);
  first.remove(inbox, 3);
  first.renameFolder(mailbox, 'INBOX.Sent', 'INBOX.Out');
  first.close();

  const second = new Store(file);
  const again = second.mailboxes.get(mailbox.resourceId);
  const back = again?.folders.get('INBOX');
  const out = again?.folders.get('INBOX.Out');
  expect(again?.address).toBe('ada@example.org');
  expect([...(back?.entries() ?? [])].map(({ uid, flags }) => [uid, flags])).toEqual([
    [1, ['$x', '\\Seen']],
    [2, []],
  ]);
  expect(back?.nextUid).toBe(4);
  expect(out?.get(1)?.source).toBe(back?.get(2)?.source);
  if (back === undefined || out === undefined) return;
  const shared = out.get(1)?.source ?? 0;
  second.remove(back, 2);
  expect(second.sources.read(shared).toString()).toBe('two');
  expect(second.sources.received(shared)).toBe(2000);
  second.remove(out, 1);
  expect(() => second.sources.read(shared)).toThrow(RangeError);
  second.close();
});

test('what failed half way is not kept', () => {
  const file = newFile();
  const store = new Store(file);
  const mailbox = store.addMailbox('ada@example.org', 'OR1', 1);
  expect(() =>
    store.atomically(() => {
      store.createFolder(mailbox, 'INBOX.New');
      throw new Error('stop');
    }),
  ).toThrow('stop');
  store.close();
  const again = new Store(file);
  expect(again.mailboxes.get(mailbox.resourceId)?.folders.has('INBOX.New')).toBe(false);
  again.close();
});

test('a file that is no state of this service is refused and left alone', () => {
  const text = newFile();
  writeFileSync(text, 'this is not a database, whatever its name says');
  expect(() => new Store(text)).toThrow(
    expect.objectContaining({ code: 'sandbox-state-unusable' }),
  );
  const foreign = newFile();
  const db = new Database(foreign);
  db.exec('CREATE TABLE mine (x)');
  db.close();
  expect(() => new Store(foreign)).toThrow(
    expect.objectContaining({ code: 'sandbox-state-unusable' }),
  );
});
