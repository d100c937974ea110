import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, describe, expect, test } from 'vitest';
import { Store } from '../../../src/sandbox/store.ts';

const folder = mkdtempSync(join(tmpdir(), 'mailkeep-state-'));
let number = 0;

function newFile(): string {
  number += 1;
  return join(folder, `state-${number}.sqlite`);
}

afterAll(() => rmSync(folder, { recursive: true }));

const RECEIVED = Date.UTC(2026, 0, 1);

function source(text: string): Buffer {
  return Buffer.from(`Subject: ${text}\r\n\r\n${text}\r\n`);
}

describe.each([
  ['in memory', () => new Store()],
  ['with a state file', () => new Store(newFile())],
])('a store %s', (_, open) => {
  function filled(texts: readonly string[]) {
    const store = open();
    const mailbox = store.addMailbox('ada@example.org', 'OR1', 1);
    const inbox = store.folderFor(mailbox, 'INBOX');
    for (const [index, text] of texts.entries()) {
      store.add(inbox, source(text), RECEIVED + index * 1000, []);
    }
    return { store, mailbox, inbox };
  }

  test('a mailbox has its standing folders', () => {
    const { store, mailbox } = filled([]);
    expect([...mailbox.folders.values()].map(({ path, specialUse }) => [path, specialUse])).toEqual(
      [
        ['INBOX', null],
        ['INBOX.Sent', '\\Sent'],
        ['INBOX.Drafts', '\\Drafts'],
        ['INBOX.Trash', '\\Trash'],
      ],
    );
    store.close();
  });

  test('sources come back byte for byte, with size and received date', () => {
    const odd = Buffer.from([0, 13, 10, 255, 0, 10]);
    const { store, inbox } = filled(['one']);
    const uid = store.add(inbox, odd, 12_345, ['\\Seen']);
    const entry = inbox.get(uid);
    expect(uid).toBe(2);
    expect(entry?.flags).toEqual(['\\Seen']);
    expect(store.sources.read(entry?.source ?? 0)).toEqual(odd);
    expect(store.sources.size(entry?.source ?? 0)).toBe(6);
    expect(store.sources.received(entry?.source ?? 0)).toBe(12_345);
    store.close();
  });

  test('an empty source is a source', () => {
    const { store, inbox } = filled([]);
    const uid = store.add(inbox, Buffer.alloc(0), 0, []);
    expect(store.sources.read(inbox.get(uid)?.source ?? 0)).toHaveLength(0);
    store.close();
  });

  test('a move gives a new uid and keeps flags and bytes', () => {
    const { store, mailbox, inbox } = filled(['one', 'two']);
    const trash = store.folderFor(mailbox, 'INBOX.Trash');
    store.changeFlags(inbox, 1, ['\\Flagged'], []);
    expect(store.move(inbox, 1, trash)).toBe(1);
    expect(store.move(inbox, 1, trash)).toBeNull();
    expect(inbox.get(1)).toBeNull();
    expect(trash.get(1)?.flags).toEqual(['\\Flagged']);
    expect(store.sources.read(trash.get(1)?.source ?? 0)).toEqual(source('one'));
    expect(store.move(inbox, 2, inbox)).toBe(3);
    store.close();
  });

  test('a source that several messages share goes with the last of them', () => {
    const { store, mailbox, inbox } = filled([]);
    const sent = store.folderFor(mailbox, 'INBOX.Sent');
    const [a = 0, b = 0] = store.addEverywhere(
      [
        { folder: inbox, flags: [] },
        { folder: sent, flags: ['\\Seen'] },
      ],
      source('shared'),
      RECEIVED,
    );
    const number = inbox.get(a)?.source ?? 0;
    expect(sent.get(b)?.source).toBe(number);
    store.remove(inbox, a);
    expect(store.sources.read(number)).toEqual(source('shared'));
    store.remove(sent, b);
    expect(() => store.sources.read(number)).toThrow(RangeError);
    store.close();
  });

  test('a copy keeps flags and bytes, which go with the last of the places', () => {
    const { store, mailbox, inbox } = filled(['one']);
    const trash = store.folderFor(mailbox, 'INBOX.Trash');
    store.changeFlags(inbox, 1, ['\\Flagged'], []);
    const number = inbox.get(1)?.source ?? 0;
    expect(store.copy(inbox, 1, trash)).toBe(1);
    expect(store.copy(trash, 1, inbox)).toBe(2);
    expect(store.copy(inbox, 9, trash)).toBeNull();
    expect([trash.get(1), inbox.get(2)]).toMatchObject([
      { source: number, flags: ['\\Flagged'] },
      { source: number, flags: ['\\Flagged'] },
    ]);
    store.remove(inbox, 1);
    store.remove(inbox, 2);
    expect(store.sources.read(number)).toEqual(source('one'));
    store.remove(trash, 1);
    expect(() => store.sources.read(number)).toThrow(RangeError);
    store.close();
  });

  test('flags are the same whatever their case, and adding wins over removing', () => {
    const { store, inbox } = filled(['one']);
    expect(store.changeFlags(inbox, 1, ['\\Seen', 'Work'], [])).toEqual(['Work', '\\Seen']);
    expect(store.changeFlags(inbox, 1, ['work'], ['\\SEEN'])).toEqual(['Work']);
    expect(store.changeFlags(inbox, 1, ['work'], ['WORK'])).toEqual(['work']);
    expect(store.changeFlags(inbox, 9, ['x'], [])).toBeNull();
    expect(inbox.unread).toBe(1);
    store.close();
  });

  test('renaming and deleting a folder takes what lies below it along', () => {
    const { store, mailbox } = filled([]);
    for (const path of ['INBOX.A', 'INBOX.A.B', 'INBOX.AB']) store.createFolder(mailbox, path);
    store.add(store.folderFor(mailbox, 'INBOX.A.B'), source('deep'), RECEIVED, []);
    store.renameFolder(mailbox, 'INBOX.A', 'INBOX.C');
    expect(mailbox.folders.get('INBOX.C.B')?.count).toBe(1);
    expect(mailbox.folders.has('INBOX.AB')).toBe(true);
    store.deleteFolder(mailbox, 'INBOX.C');
    expect([...mailbox.folders.keys()].sort()).toEqual([
      'INBOX',
      'INBOX.AB',
      'INBOX.Drafts',
      'INBOX.Sent',
      'INBOX.Trash',
    ]);
    store.close();
  });

  test('a folder that is renumbered has the same messages under other uids', () => {
    const { store, inbox } = filled(['one', 'two', 'three']);
    store.remove(inbox, 2);
    store.renumber(inbox, 10);
    expect([...inbox.entries()].map(({ uid }) => uid)).toEqual([10, 11]);
    expect(store.sources.read(inbox.get(11)?.source ?? 0)).toEqual(source('three'));
    expect(inbox.unread).toBe(2);
    store.close();
  });

  test('emptying a folder and counting what is left', () => {
    const { store, mailbox, inbox } = filled(['one', 'two', 'three']);
    expect(store.usage(mailbox)).toEqual({
      messages: 3,
      bytes: source('one').length + source('two').length + source('three').length,
    });
    store.removeAll(inbox);
    expect(store.usage(mailbox)).toEqual({ messages: 0, bytes: 0 });
    expect(inbox.nextUid).toBe(4);
    store.close();
  });

  test('documents are kept by kind and id', () => {
    const { store } = filled([]);
    store.putDocument('k', 'a', { n: 1 });
    store.putDocument('k', 'b', { n: 2 });
    store.putDocument('k', 'a', { n: 3 });
    store.putDocument('other', 'a', null);
    store.removeDocument('k', 'b');
    expect([...store.documents('k')]).toEqual([['a', { n: 3 }]]);
    store.close();
  });
});

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
